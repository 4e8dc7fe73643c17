//! A connection to a member as a stream of bytes, of which so many may come before the head of an
//! answer is complete. hyper bounds a head; it does not bound how many interim answers (1xx) come before
//! it, and a member could go on with them for as long as a watch is open.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use super::connect::Transport;

/// A connection to a member, for hyper.
#[derive(Debug)]
pub(super) struct MemberStream {
    stream: TlsStream<Transport>,
    before_head: BeforeHead,
}

/// How many bytes may still come before the head; [`usize::MAX`] when none is waited for.
#[derive(Clone, Debug)]
pub(super) struct BeforeHead(Arc<AtomicUsize>);

/// A member that says much and never answers.
#[derive(Debug, thiserror::Error)]
#[error("it sent more than {MAX_BEFORE_HEAD} bytes before its answer")]
pub(super) struct TooMuch;

impl MemberStream {
    pub(super) fn new(stream: TlsStream<Transport>) -> Self {
        Self { stream, before_head: BeforeHead(Arc::new(AtomicUsize::new(usize::MAX))) }
    }

    pub(super) fn before_head(&self) -> BeforeHead {
        self.before_head.clone()
    }
}

impl BeforeHead {
    /// A request is sent: a head is waited for.
    pub(super) fn begin(&self) {
        self.0.store(MAX_BEFORE_HEAD, Ordering::Relaxed);
    }

    /// The head is there, and the rest may be as long as it likes.
    pub(super) fn end(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }

    fn read(&self, length: usize) -> io::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        if left == usize::MAX {
            return Ok(());
        }
        let left = left.checked_sub(length).ok_or_else(|| io::Error::other(TooMuch))?;
        self.0.store(left, Ordering::Relaxed);
        Ok(())
    }
}

impl AsyncRead for MemberStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf)?;
        read.map(|()| self.before_head.read(buf.filled().len() - before))
    }
}

impl AsyncWrite for MemberStream {
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

/// More than twice what hyper takes for one head, since what follows the head may come with it.
const MAX_BEFORE_HEAD: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_only_while_a_head_is_waited_for() {
        let before_head = BeforeHead(Arc::new(AtomicUsize::new(usize::MAX)));
        before_head.read(MAX_BEFORE_HEAD * 2).unwrap();
        before_head.begin();
        before_head.read(MAX_BEFORE_HEAD).unwrap();
        let error = before_head.read(1).unwrap_err();
        assert!(error.get_ref().is_some_and(|error| error.is::<TooMuch>()));
        before_head.end();
        before_head.read(MAX_BEFORE_HEAD * 2).unwrap();
    }
}
