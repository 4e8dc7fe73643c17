//! Copying bytes both ways between two streams of which one may break. Writing to a peer that has closed its end fails
//! (RFC 9293, 3.10.7), though what it sent before is still to be read: a command that exits without reading its input
//! closes early, and its last words and its exit code are on the way. `copy_bidirectional` would end at that failure.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Whether a side of a copy has broken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Broken(CancellationToken);

impl Broken {
    /// A side whose breaking ends its own directions, and not the whole copy.
    pub(crate) fn side<S>(&self, stream: S) -> Side<S> {
        Side { stream, broken: self.clone() }
    }

    /// Resolves when a side broke so long ago that nothing is waited for any more.
    pub(crate) fn long_ago(&self) -> impl Future<Output = ()> + use<> {
        let broken = self.0.clone();
        async move {
            broken.cancelled().await;
            sleep(LAST_WORDS).await;
        }
    }
}

/// One side of a copy. What is written to it after it broke is dropped, and reading from it is at its end.
#[derive(Debug)]
pub(crate) struct Side<S> {
    stream: S,
    broken: Broken,
}

impl<S> Side<S> {
    fn unless_broken<T>(&self, done: io::Result<T>, after: T) -> io::Result<T> {
        Ok(done.unwrap_or_else(|_| {
            self.broken.0.cancel();
            after
        }))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Side<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        Poll::Ready(self.unless_broken(read, ()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Side<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        Poll::Ready(self.unless_broken(written, buf.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        Poll::Ready(self.unless_broken(flushed, ()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
        Poll::Ready(self.unless_broken(shut, ()))
    }
}

/// How long the other direction may still take once one is broken.
const LAST_WORDS: Duration = Duration::from_secs(10);
