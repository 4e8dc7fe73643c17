//! A byte stream whose reads pass through a hook; writes are unchanged. Such hooks limit what a peer may
//! send, below HTTP.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Intercepts each read of a stream.
pub(crate) trait ReadHook: Unpin {
    /// Reads from `stream`, or delays the read. By default it reads, and [`ReadHook::arrived`] checks the
    /// bytes.
    fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(stream).poll_read(cx, buf)?;
        read.map(|()| self.arrived(&buf.filled()[before..]))
    }

    /// Observes the bytes of one read, or fails the read.
    fn arrived(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// A stream and the hook on its reads.
#[derive(Debug)]
pub(crate) struct Hooked<S, H> {
    stream: S,
    hook: H,
}

impl<S, H: ReadHook> Hooked<S, H> {
    pub(crate) fn new(stream: S, hook: H) -> Self {
        Self { stream, hook }
    }

    pub(crate) fn hook(&self) -> &H {
        &self.hook
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin, H: ReadHook> AsyncRead for Hooked<S, H> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, hook } = self.get_mut();
        hook.poll_read(stream, cx, buf)
    }
}

impl<S: AsyncWrite + Unpin, H: Unpin> AsyncWrite for Hooked<S, H> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
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
