//! Counts the bytes of a byte stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The byte counts of one stream and of all streams.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    one: AtomicU64,
    all: Counter,
}

impl Tally {
    pub(crate) fn new(all: Counter) -> Arc<Self> {
        Arc::new(Self { one: AtomicU64::default(), all })
    }

    pub(crate) fn count(&self) -> u64 {
        self.one.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.one.fetch_add(bytes as u64, Ordering::Relaxed);
        self.all.inc_by(bytes as u64);
    }
}

/// A stream, with the counts of bytes read and written.
#[derive(Debug)]
pub(crate) struct CountedIo<T> {
    pub(crate) stream: T,
    pub(crate) read: Arc<Tally>,
    pub(crate) written: Arc<Tally>,
}

impl<T: AsyncRead + Unpin> AsyncRead for CountedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.read.add(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for CountedIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.written.add(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
