//! Closes a connection so that its client gets the last bytes. A kernel that receives data for a closed socket
//! answers with RST, and the client's kernel then drops what the client has not read yet (RFC 9112, 9.6). Over
//! HTTP/2 a client that reads always sends data: the updates of its windows.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose shutdown ends when the client has closed its side too, or is silent.
pub(super) struct Lingering<S> {
    stream: S,
    end: Option<End>,
}

/// When a shutdown stops waiting.
struct End {
    latest: Instant,
    silent: Pin<Box<Sleep>>,
}

impl<S> Lingering<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, end: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
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
        let Self { stream, end } = &mut *self;
        let end = match end {
            Some(end) => end,
            None => {
                ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
                end.insert(End { latest: Instant::now() + LONGEST, silent: Box::pin(sleep(SILENT)) })
            }
        };
        let mut discarded = [0; 1024];
        loop {
            if end.silent.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut discarded = ReadBuf::new(&mut discarded);
            match ready!(Pin::new(&mut *stream).poll_read(cx, &mut discarded)) {
                Ok(()) if !discarded.filled().is_empty() => {
                    end.silent.as_mut().reset(end.latest.min(Instant::now() + SILENT));
                }
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// As in nginx (`lingering_timeout`, `lingering_time`).
const SILENT: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tokio::io::{AsyncWriteExt, duplex};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// The kernels of both ends hold the answer when the client sends more.
    #[tokio::test]
    async fn fault_36_answer_survives_data_that_arrives_after_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let mut server = Lingering::new(server);
        server.write_all(&[b'x'; ANSWER]).await.unwrap();
        let closing = tokio::spawn(async move { server.shutdown().await });
        // The end has arrived.
        let mut client = client.into_std().unwrap();
        client.set_nonblocking(false).unwrap();
        let (mut all, mut sender) = (Vec::new(), client.try_clone().unwrap());
        let read = tokio::task::spawn_blocking(move || {
            let mut first = [0; 1];
            std::io::Read::read_exact(&mut client, &mut first)?;
            for _ in 0..10 {
                sender.write_all(b"window update")?;
                std::thread::yield_now();
            }
            std::io::Read::read_to_end(&mut client, &mut all)
        });
        assert_eq!(read.await.unwrap().unwrap(), ANSWER - 1);
        closing.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn silent_or_endless_client_is_not_waited_for_long() {
        let (client, server) = duplex(64);
        let begun = Instant::now();
        Lingering::new(server).shutdown().await.unwrap();
        assert_eq!(begun.elapsed(), SILENT);
        drop(client);

        let (mut client, server) = duplex(64);
        let endless = tokio::spawn(async move {
            while client.write_all(b"x").await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let begun = Instant::now();
        Lingering::new(server).shutdown().await.unwrap();
        assert_eq!(begun.elapsed(), LONGEST);
        endless.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn closed_client_is_not_waited_for() {
        let (client, server) = duplex(64);
        drop(client);
        let begun = Instant::now();
        Lingering::new(server).shutdown().await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    const ANSWER: usize = 512 * 1024;
}
