//! The body of a request to a member: the caller's, none, or a document of ours. An [`Incoming`] can be sent once and
//! cannot be made; a request that has none can be sent again.

use bytes::Bytes;
use http_body::Body;
use http_body_util::{Either, Full};
use hyper::body::Incoming;

/// What a request to a member carries.
pub type Outgoing = Either<Incoming, Full<Bytes>>;

/// Nothing.
pub fn nothing() -> Outgoing {
    document(Vec::new())
}

/// The caller's, passed on as it comes.
pub fn callers(body: Incoming) -> Outgoing {
    if body.is_end_stream() { nothing() } else { Either::Left(body) }
}

/// A document of ours.
pub fn document(document: Vec<u8>) -> Outgoing {
    Either::Right(document.into())
}
