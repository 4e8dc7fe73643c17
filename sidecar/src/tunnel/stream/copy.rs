//! Copies bytes both ways between a stream of a tunnel and another connection. Frames of the tunnel are
//! written as they arrived, and reads fill the next frame, so an idle connection holds no buffer.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::poll_read_buf;

use super::TunnelStream;
use crate::tunnel::MAX_FRAME;

/// How far one direction is.
enum Direction {
    Open,
    /// Everything was passed on but the end.
    Ending,
    Ended,
}

/// Copies until both sides have ended. A half-close is passed on as one.
pub(crate) async fn copy<S>(stream: &mut TunnelStream, other: &mut S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut piece, mut needs_flush) = (SMALLEST, false);
    let (mut out, mut back) = (Direction::Open, Direction::Open);
    poll_fn(|cx| {
        if let Direction::Open = out
            && stream.poll_send_from(cx, other, &mut piece)?.is_ready()
        {
            out = Direction::Ending;
        }
        if let Direction::Ending = out
            && Pin::new(&mut *stream).poll_shutdown(cx)?.is_ready()
        {
            out = Direction::Ended;
        }
        if let Direction::Open = back
            && stream.poll_receive_to(cx, other, &mut needs_flush)?.is_ready()
        {
            back = Direction::Ending;
        }
        if let Direction::Ending = back
            && Pin::new(&mut *other).poll_shutdown(cx)?.is_ready()
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
    /// Sends what arrives at `reader`, in pieces that grow while they are filled. Ready at its end.
    fn poll_send_from<R>(
        &self,
        cx: &mut Context<'_>,
        reader: &mut R,
        piece: &mut usize,
    ) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
    {
        self.directions.poll(|open| {
            loop {
                if open.unsent.len() >= MAX_FRAME {
                    ready!(open.poll_flush(cx))?;
                }
                open.unsent.reserve((*piece).min(MAX_FRAME - open.unsent.len()));
                match poll_read_buf(Pin::new(&mut *reader), cx, &mut open.unsent)? {
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

    /// Writes what arrives on the stream to `writer`. Ready at its end.
    fn poll_receive_to<W>(
        &self,
        cx: &mut Context<'_>,
        writer: &mut W,
        needs_flush: &mut bool,
    ) -> Poll<io::Result<()>>
    where
        W: AsyncWrite + Unpin,
    {
        self.directions.poll(|open| {
            loop {
                match open.poll_fill(cx)? {
                    Poll::Ready(false) => return Poll::Ready(Ok(())),
                    Poll::Ready(true) => {
                        let written = ready!(Pin::new(&mut *writer).poll_write(cx, open.chunk()))?;
                        if written == 0 {
                            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                        }
                        open.consume(written)?;
                        *needs_flush = true;
                    }
                    Poll::Pending => {
                        if mem::take(needs_flush) {
                            *needs_flush = Pin::new(&mut *writer).poll_flush(cx)?.is_pending();
                        }
                        return Poll::Pending;
                    }
                }
            }
        })
    }
}

const SMALLEST: usize = 8 * 1024;
