//! A byte stream whose operations pass through a hook, below HTTP. A hook limits what a peer may send, counts
//! bytes, or decides what a failure means.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Intercepts the reads and writes of a stream. By default nothing changes.
pub(crate) trait IoHook: Unpin {
    /// Reads from `stream`, or delays the read. By default it reads, and [`IoHook::arrived`] checks the
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

    /// Whether reads are currently not allowed. The owner of the hook polls again when this
    /// changes.
    fn delays_reads(&self) -> bool {
        false
    }

    /// Observes the bytes of one read, or fails the read.
    fn arrived(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// Handles the failure of a read; `Ok` turns it into EOF.
    fn read_failed(&mut self, error: io::Error) -> io::Result<()> {
        Err(error)
    }

    /// Observes how many bytes one write accepted.
    fn written(&mut self, _: usize) {}

    /// Observes that a write must wait for the peer.
    fn write_blocked(&mut self) {}

    /// Handles the failure of a write of `offered` bytes, or of a flush or shutdown, with 0. `Ok` drops the
    /// bytes as if they were written.
    fn write_failed(&mut self, error: io::Error, _offered: usize) -> io::Result<()> {
        Err(error)
    }
}

/// A stream and its hook.
#[derive(Debug)]
pub(crate) struct Hooked<S, H> {
    stream: S,
    hook: H,
}

impl<S, H: IoHook> Hooked<S, H> {
    pub(crate) fn new(stream: S, hook: H) -> Self {
        Self { stream, hook }
    }

    pub(crate) fn hook(&self) -> &H {
        &self.hook
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.stream
    }

    fn after_write(&mut self, written: io::Result<usize>, offered: usize) -> io::Result<usize> {
        let written = written.inspect(|bytes| self.hook.written(*bytes));
        written.or_else(|error| self.hook.write_failed(error, offered).map(|()| offered))
    }
}

impl<S: AsyncRead + Unpin, H: IoHook> AsyncRead for Hooked<S, H> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, hook } = self.get_mut();
        if hook.delays_reads() {
            return Poll::Pending;
        }
        let read = ready!(hook.poll_read(stream, cx, buf));
        Poll::Ready(read.or_else(|error| hook.read_failed(error)))
    }
}

impl<S: AsyncWrite + Unpin, H: IoHook> AsyncWrite for Hooked<S, H> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, buf) {
            Poll::Ready(written) => Poll::Ready(self.after_write(written, buf.len())),
            Poll::Pending => {
                self.hook.write_blocked();
                Poll::Pending
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write_vectored(cx, bufs) {
            Poll::Ready(written) => {
                Poll::Ready(self.after_write(written, bufs.iter().map(|buf| buf.len()).sum()))
            }
            Poll::Pending => {
                self.hook.write_blocked();
                Poll::Pending
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        Poll::Ready(flushed.or_else(|error| self.hook.write_failed(error, 0)))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
        Poll::Ready(shut.or_else(|error| self.hook.write_failed(error, 0)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::base::last_words::closed_peer::closed_peer;

    /// Counts the written bytes, and hides failures.
    #[derive(Default)]
    struct Forgiving(usize);

    impl IoHook for Forgiving {
        fn written(&mut self, bytes: usize) {
            self.0 += bytes;
        }

        fn write_failed(&mut self, _: io::Error, _: usize) -> io::Result<()> {
            Ok(())
        }
    }

    const PARTS: [&[u8]; 2] = [b"two ", b"parts"];

    #[tokio::test]
    async fn vectored_write_is_counted() {
        let mut stream = Hooked::new(Vec::new(), Forgiving::default());
        assert!(stream.is_write_vectored());
        assert_eq!(stream.write_vectored(&PARTS.map(IoSlice::new)).await.unwrap(), 9);
        assert_eq!((stream.get_ref().as_slice(), stream.hook().0), (&b"two parts"[..], 9));
    }

    #[tokio::test]
    async fn hidden_failure_drops_every_part() {
        let mut stream = Hooked::new(closed_peer(b""), Forgiving::default());
        assert_eq!(stream.write_vectored(&PARTS.map(IoSlice::new)).await.unwrap(), 9);
        assert_eq!((stream.write(b"one").await.unwrap(), stream.hook().0), (3, 0));
        stream.shutdown().await.unwrap();
    }
}
