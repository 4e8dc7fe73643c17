//! A caller's connection as a stream of bytes on which the head of a request may take so long, from its
//! first byte on, as with a kube-apiserver (`ReadHeaderTimeout`). hyper's own limit begins when the
//! request before has ended, so that it is one for idle connections, and takes a timer for each request.
//! Here only a head that does not come at once has one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::peer::Peer;

/// A connection that speaks HTTP/1.1, for hyper.
#[derive(Debug)]
pub(super) struct CallerStream<S> {
    stream: S,
    peer: Arc<Peer>,
    /// The number of the request of whose head a part has come.
    head: Option<usize>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> CallerStream<S> {
    pub(super) fn new(stream: S, peer: Arc<Peer>) -> Self {
        Self { stream, peer, head: None, timer: None }
    }

    /// Notices where a head begins.
    fn came(&mut self) {
        let next = self.peer.between_requests();
        if next != self.head {
            (self.head, self.timer) = (next, None);
        }
    }

    /// Whether the head that is waited for, if one is, takes too long.
    fn waits(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
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

impl<S: AsyncRead + Unpin> AsyncRead for CallerStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf)?;
        if read.is_pending() {
            self.waits(cx)?;
        } else if buf.filled().len() > before {
            self.came();
        }
        read.map(Ok)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CallerStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A kube-apiserver's.
pub(super) const TIMEOUT: Duration = Duration::from_secs(32);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, timeout};

    use super::*;

    fn pair() -> (CallerStream<DuplexStream>, DuplexStream, Arc<Peer>) {
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        let (stream, client) = duplex(1024);
        (CallerStream::new(stream, peer.clone()), client, peer)
    }

    /// Reads until the stream breaks; when that is.
    async fn breaks(stream: &mut CallerStream<DuplexStream>) -> Duration {
        let begin = Instant::now();
        while stream.read_u8().await.is_ok() {}
        begin.elapsed()
    }

    async fn is_still_open(stream: &mut CallerStream<DuplexStream>, after: Duration) {
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
