//! A caller's connection as a stream of bytes on which the head of a request may take so long, from its
//! first byte on, as with a kube-apiserver (`ReadHeaderTimeout`). hyper's own limit begins when the
//! request before has ended, so that it is one for idle connections, and takes a timer for each request.
//! Here only a head that does not come at once has one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::read_hook::{Hooked, ReadHook};
use crate::server::peer::Peer;

/// A connection that speaks HTTP/1.1, for hyper.
pub(super) type HeaderTimeoutStream<S> = Hooked<S, HeaderTimeout>;

/// The time that the head of a request may take.
#[derive(Debug)]
pub(super) struct HeaderTimeout {
    peer: Arc<Peer>,
    /// The number of the request of whose head a part has arrived.
    head: Option<usize>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl HeaderTimeout {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        Self { peer, head: None, timer: None }
    }

    /// Notices where a head begins.
    fn data_arrived(&mut self) {
        let next = self.peer.between_requests();
        if next != self.head {
            (self.head, self.timer) = (next, None);
        }
    }

    /// Whether the head that is waited for, if one is, takes too long.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.head.is_none() {
            return Ok(());
        }
        if self.head != self.peer.between_requests() {
            (self.head, self.timer) = (None, None);
            return Ok(());
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(TIMEOUT)));
        match timer.as_mut().poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the head of a request took too long"))
            }
        }
    }
}

impl ReadHook for HeaderTimeout {
    fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(stream).poll_read(cx, buf)?;
        if read.is_pending() {
            self.poll_timeout(cx)?;
        } else if buf.filled().len() > before {
            self.data_arrived();
        }
        read.map(Ok)
    }
}

/// A kube-apiserver's.
pub(super) const TIMEOUT: Duration = Duration::from_secs(32);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, timeout};

    use super::*;

    fn pair() -> (HeaderTimeoutStream<DuplexStream>, DuplexStream, Arc<Peer>) {
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        let (stream, client) = duplex(1024);
        (HeaderTimeoutStream::new(stream, HeaderTimeout::new(peer.clone())), client, peer)
    }

    /// Reads until the stream breaks; when that is.
    async fn breaks(stream: &mut HeaderTimeoutStream<DuplexStream>) -> Duration {
        let begin = Instant::now();
        while stream.read_u8().await.is_ok() {}
        begin.elapsed()
    }

    async fn is_still_open(stream: &mut HeaderTimeoutStream<DuplexStream>, after: Duration) {
        assert!(timeout(after, stream.read_u8()).await.is_err(), "it ended");
    }

    #[tokio::test(start_paused = true)]
    async fn fault_35_a_head_that_trickles_is_given_up_in_time() {
        let (mut stream, mut client, _) = pair();
        client.write_all(b"G").await.unwrap();
        let trickle = async {
            loop {
                sleep(Duration::from_secs(3)).await;
                let _ = client.write_all(b"x").await;
            }
        };
        let took = tokio::select! {
            took = breaks(&mut stream) => took,
            () = trickle => unreachable!(),
        };
        assert!((32..=33).contains(&took.as_secs()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_head_after_a_request_has_its_own_time() {
        let (mut stream, mut client, peer) = pair();
        client.write_all(b"first").await.unwrap();
        stream.read_exact(&mut [0; 5]).await.unwrap();
        is_still_open(&mut stream, Duration::from_secs(20)).await;
        peer.request_begins();
        peer.request_ended(Instant::now().into_std());
        // Idle for longer than any head may take.
        is_still_open(&mut stream, Duration::from_secs(60)).await;
        client.write_all(b"second").await.unwrap();
        let took = breaks(&mut stream).await;
        assert!((32..=33).contains(&took.as_secs()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_and_tunnels_take_what_time_they_like() {
        let (mut stream, mut client, peer) = pair();
        client.write_all(b"head").await.unwrap();
        stream.read_exact(&mut [0; 4]).await.unwrap();
        peer.request_begins();
        client.write_all(b"b").await.unwrap();
        stream.read_u8().await.unwrap();
        is_still_open(&mut stream, Duration::from_secs(600)).await;
    }
}
