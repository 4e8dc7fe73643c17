//! Both directions of an HTTP/2 stream, shared between its reader and writer and the limit on unread bytes.

use std::io;
use std::mem;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::ReadBuf;

use super::received::Received;
use crate::base::locked::Locked;
use crate::limits::in_flight::Caller;
use crate::outbound::tunnel::protocol::MAX_FRAME;

/// Shared with the limit on unread bytes. `None` once they are reset.
#[derive(Debug)]
pub(crate) struct Directions(pub(super) Locked<Option<Open>>);

#[derive(Debug)]
pub(super) struct Open {
    pub(super) send: SendStream<Bytes>,
    pub(super) receive: RecvStream,
    /// Received and not read yet: first the merged bytes, then the last frame.
    pub(super) gathered: Received,
    pub(super) unread: Bytes,
    /// How many bytes have been read.
    pub(super) read: u64,
    /// The caller whose request it carries, if known.
    pub(super) caller: Option<Caller>,
    /// Written and not flushed yet.
    pub(super) unsent: BytesMut,
}

/// Why a stream was reset at this end.
#[derive(Debug, thiserror::Error)]
#[error("reset, because too many bytes of connections through agents are unread")]
struct TooMuchUnread;

/// The progress of a stream's reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// How many bytes have been read.
    pub(crate) read: u64,
    /// How many bytes have arrived and have not been read.
    pub(crate) unread: usize,
    pub(crate) caller: Option<Caller>,
}

impl Directions {
    /// `None` if the stream is reset.
    pub(crate) fn progress(&self) -> Option<Progress> {
        self.0.with(|open| {
            let open = open.as_mut()?;
            let unread = open.receive.flow_control().used_capacity();
            Some(Progress { read: open.read, unread, caller: open.caller })
        })
    }

    /// Charges the stream's bytes to the caller whose request it carries now.
    pub(crate) fn serves(&self, caller: Caller) {
        self.0.with(|open| open.iter_mut().for_each(|open| open.caller = Some(caller)));
    }

    /// Merges the frames that wait for the reader into a few buffers, because each frame takes
    /// additional memory in h2. The window does not change.
    pub(in crate::outbound::tunnel) fn gather(&self) {
        self.0.with(|open| {
            if let Some(open) = open {
                open.gather();
            }
        });
    }

    /// Resets the stream, which frees its unread bytes at once.
    pub(crate) fn reset(&self) {
        if let Some(mut open) = self.0.with(Option::take) {
            // Also wakes a blocked writer.
            open.send.send_reset(Reason::CANCEL);
        }
    }

    pub(super) fn poll<T>(&self, on: impl FnOnce(&mut Open) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.0.with(|open| match open {
            Some(open) => on(open),
            None => Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, TooMuchUnread))),
        })
    }
}

impl Open {
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if ready!(self.poll_fill(cx))? {
            let chunk = self.chunk();
            let length = chunk.len().min(buf.remaining());
            buf.put_slice(&chunk[..length]);
            self.consume(length)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for bytes, and returns whether there are any before the end.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        while self.chunk().is_empty() {
            match ready!(self.receive.poll_data(cx)) {
                Some(Ok(data)) => self.unread = data,
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => {
                    return Poll::Ready(Ok(false));
                }
                Some(Err(error)) => return Poll::Ready(Err(into_io(error))),
                None => return Poll::Ready(Ok(false)),
            }
        }
        Poll::Ready(Ok(true))
    }

    /// The first bytes that have not been read.
    pub(super) fn chunk(&self) -> &[u8] {
        if self.gathered.is_empty() { &self.unread } else { self.gathered.chunk() }
    }

    /// Marks bytes of the chunk as read, which opens the window.
    pub(super) fn consume(&mut self, length: usize) -> io::Result<()> {
        if self.gathered.is_empty() {
            self.unread.advance(length);
        } else {
            self.gathered.advance(length);
        }
        self.read += length as u64;
        self.receive.flow_control().release_capacity(length).map_err(into_io)
    }

    pub(super) fn gather(&mut self) {
        if self.receive.flow_control().used_capacity() == self.gathered.len() {
            return;
        }
        self.gathered.push(&mem::take(&mut self.unread));
        // h2 has woken the reader for the bytes that have arrived, so another waker may take its
        // place.
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(data))) = self.receive.poll_data(&mut cx) {
            self.gathered.push(&data);
        }
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.unsent.len() >= MAX_FRAME {
            ready!(self.poll_flush(cx))?;
        }
        let length = buf.len().min(MAX_FRAME - self.unsent.len());
        self.unsent.extend_from_slice(&buf[..length]);
        Poll::Ready(Ok(length))
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            self.send.reserve_capacity(self.unsent.len());
            match self.send.capacity() {
                0 => match ready!(self.send.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Poll::Ready(Err(into_io(error))),
                    None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                },
                room => {
                    let data = payload(&mut self.unsent, room);
                    self.send.send_data(data, false).map_err(into_io)?;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Takes at most `room` bytes for a frame. Thousands of small frames can wait to be sent, so none
/// of them may keep a buffer that is much larger than itself.
fn payload(unsent: &mut BytesMut, room: usize) -> Bytes {
    if room < unsent.len() {
        return unsent.split_to(room).freeze();
    }
    if unsent.len() < unsent.capacity() / 2 {
        let small = Bytes::copy_from_slice(unsent);
        unsent.clear();
        return small;
    }
    mem::take(unsent).freeze()
}

pub(super) fn into_io(error: h2::Error) -> io::Error {
    if error.is_io() {
        return error.into_io().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
    }
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_frame_does_not_keep_a_large_buffer() {
        let mut unsent = BytesMut::with_capacity(8 * 1024);
        unsent.extend_from_slice(b"x");
        let kept = payload(&mut unsent, MAX_FRAME).try_into_mut().unwrap();
        assert_eq!((&*kept, kept.capacity(), unsent.len()), (&b"x"[..], 1, 0));
    }
}
