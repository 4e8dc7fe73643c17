//! Copies bytes both ways between a stream of a tunnel and a TCP connection. Frames of the tunnel
//! are written as they arrived, and reads go directly into the next frame, so an idle connection
//! holds no buffer.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

use super::TunnelStream;
use crate::base::io_hook::{Hooked, IoHook};
use crate::outbound::tunnel::protocol::MAX_FRAME;

/// The state of one direction.
enum Direction {
    Open,
    /// Everything except the end was forwarded.
    Ending,
    Ended,
}

/// Copies until both sides have ended. A half-close is forwarded as a half-close.
pub(crate) async fn copy<H: IoHook>(
    stream: &mut TunnelStream,
    tcp: &mut Hooked<TcpStream, H>,
) -> io::Result<()> {
    let mut piece = SMALLEST;
    let (mut out, mut back) = (Direction::Open, Direction::Open);
    poll_fn(|cx| {
        if let Direction::Open = out
            && stream.poll_send_from(cx, tcp, &mut piece)?.is_ready()
        {
            out = Direction::Ending;
        }
        if let Direction::Ending = out
            && Pin::new(&mut *stream).poll_shutdown(cx)?.is_ready()
        {
            out = Direction::Ended;
        }
        if let Direction::Open = back
            && stream.poll_receive_to(cx, tcp)?.is_ready()
        {
            back = Direction::Ending;
        }
        if let Direction::Ending = back
            && Pin::new(&mut *tcp).poll_shutdown(cx)?.is_ready()
        {
            back = Direction::Ended;
        }
        match (&out, &back) {
            (Direction::Ended, Direction::Ended) => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    })
    .await
}

impl TunnelStream {
    /// Sends what arrives at `tcp`, in pieces that grow while they are filled. Ready at its end.
    fn poll_send_from<H: IoHook>(
        &self,
        cx: &mut Context<'_>,
        tcp: &mut Hooked<TcpStream, H>,
        piece: &mut usize,
    ) -> Poll<io::Result<()>> {
        self.directions.poll(|open| {
            loop {
                if open.unsent.len() >= MAX_FRAME {
                    ready!(open.poll_flush(cx))?;
                }
                open.unsent.reserve((*piece).min(MAX_FRAME - open.unsent.len()));
                match poll_read_buf(Pin::new(&mut *tcp), cx, &mut open.unsent)? {
                    Poll::Ready(0) => return Poll::Ready(Ok(())),
                    Poll::Ready(read) if read >= *piece => *piece = (2 * *piece).min(MAX_FRAME),
                    Poll::Ready(read) if read < *piece / 4 => *piece = (*piece / 2).max(SMALLEST),
                    Poll::Ready(_) => {}
                    Poll::Pending => {
                        ready!(open.poll_flush(cx))?;
                        open.unsent = BytesMut::new();
                        return Poll::Pending;
                    }
                }
            }
        })
    }

    /// Writes what arrives on the stream to `tcp`, which needs no flush. Ready at its end.
    fn poll_receive_to<H: IoHook>(
        &self,
        cx: &mut Context<'_>,
        tcp: &mut Hooked<TcpStream, H>,
    ) -> Poll<io::Result<()>> {
        self.directions.poll(|open| {
            while ready!(open.poll_fill(cx))? {
                let written = ready!(Pin::new(&mut *tcp).poll_write(cx, open.chunk()))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                open.consume(written)?;
            }
            Poll::Ready(Ok(()))
        })
    }
}

const SMALLEST: usize = 8 * 1024;
