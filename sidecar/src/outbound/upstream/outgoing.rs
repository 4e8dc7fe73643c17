//! The body of a request to a member: the caller's, empty, or a document of the sidecar. An [`Upload`] can
//! be sent only once and cannot be created; a request without one can be sent again.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri};
use http_body::Body;
use http_body_util::{Either, Full};

use crate::limits::upload::Upload;

/// The body of a request to a member.
pub type Outgoing = Either<Upload, Full<Bytes>>;

pub fn request(method: Method, uri: Uri, headers: HeaderMap, body: Outgoing) -> Request<Outgoing> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}

/// An empty body.
pub fn nothing() -> Outgoing {
    document(Vec::new())
}

/// The caller's body, streamed as it arrives.
pub fn callers(body: Upload) -> Outgoing {
    if body.is_end_stream() { nothing() } else { Either::Left(body) }
}

/// A document of the sidecar.
pub fn document(document: Vec<u8>) -> Outgoing {
    Either::Right(document.into())
}
