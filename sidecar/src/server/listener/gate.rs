//! Limits how much is read of an HTTP/2 connection before its peer is authenticated. HTTP/2 lets a client
//! start hundreds of requests at once, and their heads and bodies stay in memory until the host has reviewed
//! the first token. So reading stops while [`MAX_WAITING`] requests wait for this, or after as many
//! bytes as one of them may need; the TCP window (RFC 9293, 3.8) then stops the client.
//!
//! The gate counts small DATA frames: see [`ConnectionFrames`] and [`SmallFrames`]. The front proxy
//! is known after its handshake, and on its connection frames are counted by stream. hyper does not
//! give the service the number of its stream, so the gate pauses after each request's head, until
//! hyper has called the service for it or refused it. Other connections do not pause, or h2 would
//! not see the resets of requests that it has not given to hyper (CVE-2023-44487).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::frames::{Found, Frames};
use crate::base::io_hook::{Hooked, IoHook};
use crate::identity::peer::Peer;
use crate::limits::upload::Account;
use crate::limits::upload::direct::ConnectionFrames;
use crate::limits::upload::small_frames::{SmallFrames, Then};

/// An HTTP/2 connection, as hyper uses it.
pub(super) type GatedStream<S> = Hooked<S, Gate>;

/// Limits the bytes read from an unknown peer.
#[derive(Debug)]
pub(super) struct Gate {
    peer: Arc<Peer>,
    /// Bytes read since the last time when no request waited.
    read: usize,
    counted: Counted,
}

/// Counts the frames that have arrived on a connection.
#[derive(Debug)]
enum Counted {
    ByStream(ByStream),
    Together(Frames, Arc<ConnectionFrames>),
}

/// Counts the frames that have arrived on the front proxy's connection.
#[derive(Debug)]
struct ByStream {
    frames: Frames,
    small: Arc<SmallFrames>,
    /// Whether a request's head has just arrived.
    pauses: bool,
}

/// Too many small frames of a connection are unread.
#[derive(Debug, thiserror::Error)]
#[error("too many small frames are unread")]
struct TooManyFrames;

impl Gate {
    pub(super) fn new(peer: Arc<Peer>, account: Account) -> Self {
        let frames = Frames::default();
        let counted = match account {
            Account::Streams(small) => Counted::ByStream(ByStream { frames, small, pauses: false }),
            Account::Connection(account) => Counted::Together(frames, account),
        };
        Self { peer, read: 0, counted }
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
        // Checked again: a peer that became known before the waker was registered would not wake it.
        if self.peer.is_known() {
            return Poll::Ready(None);
        }
        match waiting < MAX_WAITING && self.read < MAX_BYTES {
            true => Poll::Ready(Some(AT_ONCE)),
            false => Poll::Pending,
        }
    }
}

impl Counted {
    /// How much may be read now, if that is limited.
    fn poll_room(&mut self, cx: &Context<'_>) -> Poll<Option<usize>> {
        match self {
            Self::ByStream(streams) => streams.poll_room(cx).map(Some),
            Self::Together(..) => Poll::Ready(None),
        }
    }

    fn arrived(&mut self, mut bytes: &[u8]) -> Then {
        match self {
            Self::ByStream(streams) => streams.arrived(bytes),
            Self::Together(frames, account) => {
                let mut then = Then::GoOn;
                while !bytes.is_empty() {
                    let (piece, rest) = bytes.split_at(frames.room().min(bytes.len()));
                    if let Some(Found::Data(data)) = frames.read(piece) {
                        then = then.max(account.arrived(data));
                    }
                    bytes = rest;
                }
                then
            }
        }
    }
}

impl ByStream {
    /// How much may be read now. h2 has handled everything before it reads again, and hyper accepts a request
    /// as soon as h2 waits.
    fn poll_room(&mut self, cx: &Context<'_>) -> Poll<usize> {
        if std::mem::take(&mut self.pauses) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.small.handled();
        Poll::Ready(self.frames.room())
    }

    fn arrived(&mut self, bytes: &[u8]) -> Then {
        match self.frames.read(bytes) {
            None => Then::GoOn,
            Some(Found::Data(data)) => self.small.arrived(data),
            Some(Found::EmptyData) => self.small.empty_arrived(),
            Some(Found::Request(stream)) => {
                self.small.opened(stream);
                self.pauses = true;
                Then::GoOn
            }
        }
    }
}

impl IoHook for Gate {
    fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rooms = [ready!(self.poll_room(cx)), ready!(self.counted.poll_room(cx))];
        let before = buf.filled().len();
        match rooms.into_iter().flatten().min() {
            None => ready!(Pin::new(stream).poll_read(cx, buf))?,
            Some(room) => {
                let room = room.min(buf.remaining());
                let mut some = ReadBuf::new(buf.initialize_unfilled_to(room));
                ready!(Pin::new(stream).poll_read(cx, &mut some))?;
                let filled = some.filled().len();
                buf.advance(filled);
                self.read += filled;
            }
        }
        match self.counted.arrived(&buf.filled()[before..]) {
            Then::GoOn => {}
            Then::Retire => self.peer.retire(),
            Then::End => return Poll::Ready(Err(io::Error::other(TooManyFrames))),
        }
        Poll::Ready(Ok(()))
    }
}

/// Requests of one connection that wait until its peer is known.
const MAX_WAITING: usize = 16;
/// HTTP/2's initial window: how many bytes of a body a client may send before the server sends
/// anything.
const MAX_BYTES: usize = 64 * 1024;
/// Reads are small, because hundreds of heads fit where one normally does.
const AT_ONCE: usize = 4 * 1024;

#[cfg(test)]
mod over_h2;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;
    use crate::limits::in_flight::Caller;
    use crate::limits::upload::direct::DirectUploads;

    fn pair() -> (GatedStream<DuplexStream>, DuplexStream, Arc<Peer>) {
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        let (stream, client) = duplex(1024 * 1024);
        let account = Account::Connection(DirectUploads::default().connection(Caller::of_hash(1)));
        (GatedStream::new(stream, Gate::new(peer.clone(), account)), client, peer)
    }

    async fn reads(stream: &mut GatedStream<DuplexStream>) -> Option<usize> {
        let mut buffer = vec![0; 256 * 1024];
        let read = timeout(Duration::from_secs(60), stream.read(&mut buffer)).await;
        read.ok().map(Result::unwrap)
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_peer_is_read_in_small_pieces() {
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
    async fn bytes_read_are_bounded_while_a_request_waits() {
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
    async fn reading_continues_once_the_peer_is_known() {
        let (mut stream, mut client, peer) = pair();
        client.write_all(b"more").await.unwrap();
        let _waiting: Vec<_> = (0..MAX_WAITING).filter_map(|_| peer.request_of_stranger()).collect();
        let begun = tokio::time::Instant::now();
        let (read, ()) = tokio::join!(reads(&mut stream), async { peer.mark_authenticated() });
        assert_eq!(read, Some(4));
        assert!(begun.elapsed() < Duration::from_secs(1), "it was not woken");
    }
}
