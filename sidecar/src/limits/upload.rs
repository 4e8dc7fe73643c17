//! The body of a caller's request. [`SmallFrames`] and [`DirectUploads`](direct::DirectUploads) bound the
//! memory of bodies that arrive in small pieces.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::limits::cutoff::Cutoff;
use crate::limits::in_flight::Caller;

pub mod direct;
mod frame_memory;
pub mod small_frames;

use direct::ConnectionFrames;
use small_frames::{SmallFrames, is_small};

/// How the small frames of an HTTP/2 connection are counted.
#[derive(Clone, Debug)]
pub enum Account {
    /// By stream, on the front proxy's connection.
    Streams(Arc<SmallFrames>),
    /// Together, on a direct caller's connection.
    Connection(Arc<ConnectionFrames>),
}

impl Account {
    /// Ends the connection. The streams of the front proxy's connection have their own cutoffs.
    pub fn cutoff(&self) -> Arc<Cutoff> {
        match self {
            Self::Streams(_) => Arc::default(),
            Self::Connection(frames) => frames.cutoff().clone(),
        }
    }
}

/// A request's body as it arrives.
#[derive(Debug)]
pub struct Upload<B: Body<Data = Bytes> + Unpin = Incoming> {
    body: B,
    counted: Option<Counted>,
}

#[derive(Debug)]
enum Counted {
    Stream(small_frames::Counted),
    Connection(direct::Counted),
}

impl<B: Body<Data = Bytes> + Unpin> Upload<B> {
    /// The body of a request on a connection whose small frames count on `account`, if they do. It must be
    /// created when the service is called.
    pub fn new(body: B, account: Option<&Account>, cutoff: &Arc<Cutoff>) -> Self {
        let account = account.filter(|_| !body.is_end_stream());
        let counted = account.and_then(|account| match account {
            Account::Streams(frames) => frames.begin(cutoff).map(Counted::Stream),
            Account::Connection(frames) => Some(Counted::Connection(frames.begin())),
        });
        Self { body, counted }
    }

    /// Charges unread bytes to the caller, who is now known.
    pub fn charge(&self, caller: Caller) {
        match &self.counted {
            Some(Counted::Stream(counted)) => counted.charge(caller),
            Some(Counted::Connection(counted)) => counted.charge(caller),
            None => {}
        }
    }
}

#[cfg(test)]
impl<B: Body<Data = Bytes> + Unpin> Upload<B> {
    /// The stream whose frames are counted.
    pub(crate) fn stream(&self) -> Option<u32> {
        match &self.counted {
            Some(Counted::Stream(counted)) => Some(counted.stream()),
            Some(Counted::Connection(_)) | None => None,
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Upload<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Some(counted) = &self.counted
            && let Poll::Ready(Some(Ok(frame))) = &polled
            && frame.data_ref().is_some_and(|data| is_small(data.len()))
        {
            match counted {
                Counted::Stream(counted) => counted.read(),
                Counted::Connection(counted) => counted.read(),
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body<Data = Bytes> + Unpin> Drop for Upload<B> {
    /// h2 drops the bytes that have arrived, so they must not count as unread on the connection.
    fn drop(&mut self) {
        if !matches!(self.counted, Some(Counted::Connection(_))) || std::thread::panicking() {
            return;
        }
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(_))) = Pin::new(&mut *self).poll_frame(&mut cx) {}
    }
}
