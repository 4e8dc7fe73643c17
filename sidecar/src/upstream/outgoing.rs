//! The body of a request to a member: the caller's, none, or a document of ours. An [`Incoming`] can be sent once and
//! cannot be made; a request that has none can be sent again.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// What a request to a member carries.
#[derive(Debug)]
pub enum Outgoing {
    Empty,
    /// The caller's, passed on as it comes.
    Caller(Incoming),
    Document(Bytes),
}

impl From<Incoming> for Outgoing {
    fn from(body: Incoming) -> Self {
        if body.is_end_stream() { Self::Empty } else { Self::Caller(body) }
    }
}

impl From<Vec<u8>> for Outgoing {
    fn from(document: Vec<u8>) -> Self {
        if document.is_empty() { Self::Empty } else { Self::Document(document.into()) }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Caller(body) => Pin::new(body).poll_frame(cx),
            Self::Document(document) => {
                let document = std::mem::take(document);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(Frame::data(document))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Caller(body) => body.is_end_stream(),
            Self::Document(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Caller(body) => body.size_hint(),
            Self::Document(document) => SizeHint::with_exact(document.len() as u64),
        }
    }
}
