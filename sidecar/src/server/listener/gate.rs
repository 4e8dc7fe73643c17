//! An HTTP/2 connection as a stream of bytes of which little is read before its peer is known. HTTP/2 lets a
//! client begin hundreds of requests at once, whose heads and bodies are held until the host has reviewed the
//! first of their tokens. So while [`MAX_WAITING`] requests wait for that, or as many bytes as one of them may
//! need came with them, nothing more is read; the client's window (RFC 9293, 3.8) does the rest.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use crate::read_hook::{Hooked, ReadHook};
use crate::server::peer::Peer;

/// A connection that speaks HTTP/2, for hyper.
pub(super) type GatedStream<S> = Hooked<S, Gate>;

/// How much may be read of the bytes of a peer that is not known.
#[derive(Debug)]
pub(super) struct Gate {
    peer: Arc<Peer>,
    /// Bytes read since no request waited.
    read: usize,
}

impl Gate {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        Self { peer, read: 0 }
    }

    /// How much may be read now; `None` once the peer is known.
    fn poll_room(&mut self, cx: &Context<'_>) -> Poll<Option<usize>> {
        if self.peer.is_known() {
            return Poll::Ready(None);
        }
        let waiting = self.peer.poll_waiting(cx);
        if waiting == 0 {
            self.read = 0;
        }
        // Known meanwhile: then it is not woken again.
        if self.peer.is_known() {
            return Poll::Ready(None);
        }
        match waiting < MAX_WAITING && self.read < MAX_BYTES {
            true => Poll::Ready(Some(AT_ONCE)),
            false => Poll::Pending,
        }
    }
}

impl ReadHook for Gate {
    fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = match self.poll_room(cx) {
            Poll::Ready(room) => room,
            Poll::Pending => return Poll::Pending,
        };
        let Some(room) = room else { return Pin::new(stream).poll_read(cx, buf) };
        let room = room.min(buf.remaining());
        let mut some = ReadBuf::new(buf.initialize_unfilled_to(room));
        let read = Pin::new(stream).poll_read(cx, &mut some);
        let filled = some.filled().len();
        buf.advance(filled);
        self.read += filled;
        read
    }
}

/// Requests of one connection that wait for its peer to be known.
const MAX_WAITING: usize = 16;
/// HTTP/2's initial window: what a client may send of a body before it hears from us.
const MAX_BYTES: usize = 64 * 1024;
/// Heads are read in small pieces, since hundreds of them fit where one does.
const AT_ONCE: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;

    fn pair() -> (GatedStream<DuplexStream>, DuplexStream, Arc<Peer>) {
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        let (stream, client) = duplex(1024 * 1024);
        (GatedStream::new(stream, Gate::new(peer.clone())), client, peer)
    }

    async fn reads(stream: &mut GatedStream<DuplexStream>) -> Option<usize> {
        let mut buffer = vec![0; 256 * 1024];
        let read = timeout(Duration::from_secs(60), stream.read(&mut buffer)).await;
        read.ok().map(Result::unwrap)
    }

    #[tokio::test(start_paused = true)]
    async fn stranger_is_read_in_small_pieces_and_a_known_peer_at_once() {
        let (mut stream, mut client, peer) = pair();
        client.write_all(&vec![b'x'; 300_000]).await.unwrap();
        assert_eq!(reads(&mut stream).await, Some(AT_ONCE));
        peer.mark_authenticated();
        assert_eq!(reads(&mut stream).await, Some(256 * 1024));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_read_while_too_many_requests_wait() {
        let (mut stream, mut client, peer) = pair();
        client.write_all(b"more").await.unwrap();
        let mut waiting: Vec<_> = (0..MAX_WAITING).filter_map(|_| peer.request_of_stranger()).collect();
        assert_eq!(reads(&mut stream).await, None);
        let begun = tokio::time::Instant::now();
        let (read, ()) = tokio::join!(reads(&mut stream), async { drop(waiting.pop()) });
        assert_eq!(read, Some(4));
        assert!(begun.elapsed() < Duration::from_secs(1), "it was not woken");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_bytes_are_read_than_a_request_that_waits_may_need() {
        let (mut stream, mut client, peer) = pair();
        client.write_all(&vec![b'x'; 300_000]).await.unwrap();
        let waiting = peer.request_of_stranger();
        let mut read = 0;
        while let Some(more) = reads(&mut stream).await {
            read += more;
        }
        assert_eq!(read, MAX_BYTES);
        drop(waiting);
        assert_eq!(reads(&mut stream).await, Some(AT_ONCE), "it begins anew once nothing waits");
    }

    #[tokio::test(start_paused = true)]
    async fn reading_goes_on_as_soon_as_the_peer_is_known() {
        let (mut stream, mut client, peer) = pair();
        client.write_all(b"more").await.unwrap();
        let _waiting: Vec<_> = (0..MAX_WAITING).filter_map(|_| peer.request_of_stranger()).collect();
        let begun = tokio::time::Instant::now();
        let (read, ()) = tokio::join!(reads(&mut stream), async { peer.mark_authenticated() });
        assert_eq!(read, Some(4));
        assert!(begun.elapsed() < Duration::from_secs(1), "it was not woken");
    }
}
