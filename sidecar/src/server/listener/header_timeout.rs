//! Limits how long the head of a request may take, counted from its first byte, like a
//! kube-apiserver (`ReadHeaderTimeout`). hyper's own limit begins at the end of the previous
//! request, so it also limits idle connections, and it needs a timer for each request. Here only a
//! head that does not arrive at once has a timer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::base::io_hook::{Hooked, IoHook};
use crate::identity::peer::Peer;

/// An HTTP/1.1 connection, as hyper uses it.
pub(super) type HeaderTimeoutStream<S> = Hooked<S, HeaderTimeout>;

/// The timeout for the head of a request.
#[derive(Debug)]
pub(super) struct HeaderTimeout {
    peer: Arc<Peer>,
    /// The number of the request whose head has arrived in part.
    head: Option<usize>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl HeaderTimeout {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        Self { peer, head: None, timer: None }
    }

    /// Notes the start of a head.
    fn data_arrived(&mut self) {
        let next = self.peer.between_requests();
        if next != self.head {
            (self.head, self.timer) = (next, None);
        }
    }

    /// Fails if an incomplete head takes too long.
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

impl IoHook for HeaderTimeout {
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

/// The same as in a kube-apiserver.
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

    /// Reads until the stream breaks, and returns how long that took.
    async fn breaks(stream: &mut HeaderTimeoutStream<DuplexStream>) -> Duration {
        let begin = Instant::now();
        while stream.read_u8().await.is_ok() {}
        begin.elapsed()
    }

    async fn is_still_open(stream: &mut HeaderTimeoutStream<DuplexStream>, after: Duration) {
        assert!(timeout(after, stream.read_u8()).await.is_err(), "it ended");
    }

    #[tokio::test(start_paused = true)]
    async fn fault_35_trickling_head_times_out() {
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
    async fn each_head_has_its_own_timeout() {
        let (mut stream, mut client, peer) = pair();
        client.write_all(b"first").await.unwrap();
        stream.read_exact(&mut [0; 5]).await.unwrap();
        is_still_open(&mut stream, Duration::from_secs(20)).await;
        peer.request_begins();
        peer.request_ended(Instant::now().into_std());
        // Idle for longer than the timeout of a head.
        is_still_open(&mut stream, Duration::from_secs(60)).await;
        client.write_all(b"second").await.unwrap();
        let took = breaks(&mut stream).await;
        assert!((32..=33).contains(&took.as_secs()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_and_tunnels_have_no_header_timeout() {
        let (mut stream, mut client, peer) = pair();
        client.write_all(b"head").await.unwrap();
        stream.read_exact(&mut [0; 4]).await.unwrap();
        peer.request_begins();
        client.write_all(b"b").await.unwrap();
        stream.read_u8().await.unwrap();
        is_still_open(&mut stream, Duration::from_secs(600)).await;
    }
}
