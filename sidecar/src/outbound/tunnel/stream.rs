//! An HTTP/2 stream as a stream of bytes. Its receive window opens only as far as its reader reads, and a
//! writer reserves capacity only for the data it has. Writes are gathered until a flush or a full frame.
//! END_STREAM is a half-close; a stream that is dropped before both ends is reset. The limit on
//! [`unread`](super::unread) bytes can reset it, too.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::protocol::MAX_FRAME;
use super::registry::{AgentTunnel, Place};
use crate::base::locked::Locked;
use crate::limits::in_flight::Caller;

pub(crate) mod copy;
mod received;

use received::Received;

/// Both directions of an HTTP/2 stream.
#[derive(Debug)]
pub struct TunnelStream {
    directions: Arc<Directions>,
    place: Option<Place>,
}

/// Shared with the limit on unread bytes. `None` once they are reset.
#[derive(Debug)]
pub(crate) struct Directions(Locked<Option<Open>>);

#[derive(Debug)]
struct Open {
    send: SendStream<Bytes>,
    receive: RecvStream,
    /// Received and not read yet: first what was gathered, then the last frame.
    gathered: Received,
    unread: Bytes,
    /// How many bytes have been read.
    read: u64,
    /// Whose request it carries, if that is known.
    caller: Option<Caller>,
    /// Written and not flushed yet.
    unsent: BytesMut,
}

/// Why a stream was reset at this end.
#[derive(Debug, thiserror::Error)]
#[error("reset, because too many bytes of connections through agents are unread")]
struct TooMuchUnread;

/// How far a stream's reader is.
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

    /// Moves the frames that wait for the reader into few buffers: each frame takes memory of its own in h2.
    /// The window stays as it is.
    pub(super) fn gather(&self) {
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

    fn poll<T>(&self, on: impl FnOnce(&mut Open) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.0.with(|open| match open {
            Some(open) => on(open),
            None => Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, TooMuchUnread))),
        })
    }
}

impl TunnelStream {
    pub(crate) fn new(send: SendStream<Bytes>, receive: RecvStream) -> Self {
        let (gathered, unread, unsent) = Default::default();
        let open = Open { send, receive, gathered, unread, read: 0, caller: None, unsent };
        Self { directions: Arc::new(Directions(Locked::new(Some(open)))), place: None }
    }

    /// Resolves when the other end has reset the stream, or the tunnel has ended. A blocked write to another
    /// peer does not notice either.
    pub(crate) fn given_up(&self) -> impl Future<Output = ()> + use<> {
        let directions = self.directions.clone();
        poll_fn(move |cx| {
            directions.0.with(|open| match open {
                Some(open) => open.send.poll_reset(cx).map(drop),
                None => Poll::Ready(()),
            })
        })
    }

    pub(crate) fn directions(&self) -> &Arc<Directions> {
        &self.directions
    }

    /// Keeps its place in the tunnel until it is dropped.
    pub(super) fn counted(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// How many received bytes have not been read.
    #[cfg(test)]
    pub(crate) fn unread(&self) -> usize {
        self.directions.progress().map_or(0, |progress| progress.unread)
    }

    /// How many of these are in one buffer.
    #[cfg(test)]
    pub(super) fn gathered(&self) -> usize {
        self.directions.0.with(|open| open.as_ref().map_or(0, |open| open.gathered.len()))
    }

    /// The tunnel that carries it, at the sidecar's end.
    pub(crate) fn tunnel(&self) -> Option<&Arc<AgentTunnel>> {
        self.place.as_ref().map(Place::tunnel)
    }
}

impl AsyncRead for TunnelStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.directions.poll(|open| open.poll_read(cx, buf))
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.directions.poll(|open| open.poll_write(cx, buf))
    }

    /// The connection's own task sends flushed data as soon as it can.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.directions.poll(|open| open.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.directions.poll(|open| {
            ready!(open.poll_flush(cx))?;
            match open.send.send_data(Bytes::new(), true) {
                // It has ended already.
                Err(error) if error.is_io() || error.is_reset() => Poll::Ready(Err(into_io(error))),
                _ => Poll::Ready(Ok(())),
            }
        })
    }
}

impl Open {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if ready!(self.poll_fill(cx))? {
            let chunk = self.chunk();
            let length = chunk.len().min(buf.remaining());
            buf.put_slice(&chunk[..length]);
            self.consume(length)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for bytes, and returns whether there are any before the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
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
    fn chunk(&self) -> &[u8] {
        if self.gathered.is_empty() { &self.unread } else { self.gathered.chunk() }
    }

    /// Marks bytes of the chunk as read, which opens the window.
    fn consume(&mut self, length: usize) -> io::Result<()> {
        if self.gathered.is_empty() {
            self.unread.advance(length);
        } else {
            self.gathered.advance(length);
        }
        self.read += length as u64;
        self.receive.flow_control().release_capacity(length).map_err(into_io)
    }

    fn gather(&mut self) {
        if self.receive.flow_control().used_capacity() == self.gathered.len() {
            return;
        }
        self.gathered.push(&mem::take(&mut self.unread));
        // h2 has woken the reader for what has arrived, so another waker may take its place.
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(data))) = self.receive.poll_data(&mut cx) {
            self.gathered.push(&data);
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.unsent.len() >= MAX_FRAME {
            ready!(self.poll_flush(cx))?;
        }
        let length = buf.len().min(MAX_FRAME - self.unsent.len());
        self.unsent.extend_from_slice(&buf[..length]);
        Poll::Ready(Ok(length))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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

/// Takes at most `room` bytes for a frame. Thousands of small frames can wait to be sent, so none of them keeps
/// a buffer that is much larger than itself.
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

fn into_io(error: h2::Error) -> io::Error {
    if error.is_io() {
        return error.into_io().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
    }
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}

#[cfg(test)]
mod tests;
