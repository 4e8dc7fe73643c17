//! The body of a caller's request. [`SmallFrames`] bounds the memory of bodies that arrive in small pieces.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::request::cutoff::Cutoff;
use crate::request::limits::Caller;

pub mod small_frames;

use small_frames::{Counted, SmallFrames, is_small};

/// A request's body as it arrives.
#[derive(Debug)]
pub struct Upload<B = Incoming> {
    body: B,
    counted: Option<Counted>,
}

impl<B: Body<Data = Bytes> + Unpin> Upload<B> {
    /// The body of a request on a connection whose small frames are counted by `frames`, if they are. It must
    /// be created when the service is called.
    pub fn new(body: B, frames: Option<&Arc<SmallFrames>>, cutoff: &Arc<Cutoff>) -> Self {
        let frames = frames.filter(|_| !body.is_end_stream());
        let counted = frames.and_then(|frames| frames.begin(cutoff));
        Self { body, counted }
    }

    /// Charges what is not read to the caller, who is known now.
    pub fn charge(&self, caller: Caller) {
        self.counted.iter().for_each(|counted| counted.charge(caller));
    }
}

#[cfg(test)]
impl<B> Upload<B> {
    /// The stream whose frames are counted.
    pub(crate) fn stream(&self) -> Option<u32> {
        self.counted.as_ref().map(Counted::stream)
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
            counted.read();
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
