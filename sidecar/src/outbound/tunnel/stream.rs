//! An HTTP/2 stream as a stream of bytes. Its receive window opens only as far as its reader reads, and a
//! writer reserves capacity only for the data it has. Writes are buffered until a flush or a full
//! frame. END_STREAM is a half-close; a stream that is dropped before both ends is reset. The limit
//! on [`unread`](super::unread) bytes can reset it, too.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::agent_tunnel::{AgentTunnel, Place};
use crate::base::locked::Locked;

pub(crate) mod copy;
pub(crate) mod directions;
mod received;

use directions::{Directions, Open, into_io};

/// Both directions of an HTTP/2 stream.
#[derive(Debug)]
pub struct TunnelStream {
    directions: Arc<Directions>,
    place: Option<Place>,
}

impl TunnelStream {
    pub(crate) fn new(send: SendStream<Bytes>, receive: RecvStream) -> Self {
        let (gathered, unread, unsent) = Default::default();
        let open = Open { send, receive, gathered, unread, read: 0, caller: None, unsent };
        Self { directions: Arc::new(Directions(Locked::new(Some(open)))), place: None }
    }

    /// Resolves when the other end has reset the stream, or the tunnel has ended. A write to another peer that blocks
    /// detects neither of these.
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

    /// Keeps its slot in the tunnel until it is dropped.
    pub(super) fn counted(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// How many received bytes have not been read.
    #[cfg(test)]
    pub(crate) fn unread(&self) -> usize {
        self.directions.progress().map_or(0, |progress| progress.unread)
    }

    /// How many of these are in merged buffers.
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

#[cfg(test)]
mod tests;
