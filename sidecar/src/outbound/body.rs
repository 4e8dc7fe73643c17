//! The body of every response: a document of the sidecar, a stream of the sidecar, or the member's own bytes,
//! forwarded unchanged.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

use crate::head::headers;
use crate::outbound::upstream::MemberBody;

/// The content of a response.
#[derive(Debug)]
pub enum Body {
    Empty,
    /// A complete document.
    Full(Bytes),
    /// A stream that the sidecar writes: a watch of `clusters`. It ends when its sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
    /// The member's body.
    Upstream(MemberBody),
    /// A stream that the sidecar makes from members' bodies.
    Made(Made),
}

/// A stream that the sidecar makes from members' bodies.
pub struct Made(Pin<Box<dyn http_body::Body<Data = Bytes, Error = Error> + Send>>);

/// Why a body breaks off.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Upstream(#[from] hyper::Error),
    /// Members' answers that cannot be continued.
    #[error("{0}")]
    Broken(String),
}

impl Body {
    /// A stream that the sidecar makes from members' bodies.
    pub fn made(body: impl http_body::Body<Data = Bytes, Error = Error> + Send + 'static) -> Self {
        Self::Made(Made(Box::pin(body)))
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Made")
    }
}

/// A response of the sidecar.
pub fn response(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// A response of the sidecar with a complete document.
pub fn document(
    status: StatusCode,
    content_type: &'static str,
    document: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = response(status, Body::Full(document.into()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The content type of text for people.
pub const TEXT: &str = "text/plain; charset=utf-8";

impl From<Vec<u8>> for Body {
    fn from(document: Vec<u8>) -> Self {
        Self::Full(document.into())
    }
}

impl From<Bytes> for Body {
    fn from(document: Bytes) -> Self {
        Self::Full(document)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match &mut *self {
            Self::Made(Made(body)) => body.as_mut().poll_frame(cx),
            Self::Empty => Poll::Ready(None),
            Self::Full(_) => {
                let Self::Full(document) = std::mem::replace(&mut *self, Self::Empty) else {
                    return Poll::Ready(None);
                };
                Poll::Ready((!document.is_empty()).then(|| Ok(Frame::data(document))))
            }
            Self::Stream(events) => {
                Poll::Ready(ready!(events.poll_recv(cx)).map(|chunk| Ok(Frame::data(chunk))))
            }
            Self::Upstream(incoming) => {
                let mut frame = ready!(Pin::new(incoming).poll_frame(cx));
                if let Some(Ok(frame)) = &mut frame
                    && let Some(trailers) = frame.trailers_mut()
                {
                    headers::clean_trailers(trailers);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Error::from)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(document) => document.is_empty(),
            Self::Stream(_) => false,
            Self::Made(Made(body)) => body.is_end_stream(),
            Self::Upstream(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Full(document) => SizeHint::with_exact(document.len() as u64),
            Self::Stream(_) | Self::Made(_) => SizeHint::default(),
            Self::Upstream(incoming) => incoming.size_hint(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use http::Request;
    use http_body_util::{BodyExt, Empty};
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A member's answer as the body of a response.
    pub(crate) async fn answered(answer: Vec<u8>) -> Body {
        let (client, mut member) = tokio::io::duplex(1024 * 1024);
        let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection);
        let response = tokio::spawn(sender.send_request(Request::new(Empty::<Bytes>::new())));
        member.read_u8().await.unwrap();
        member.write_all(&answer).await.unwrap();
        Body::Upstream(MemberBody::alone(response.await.unwrap().unwrap().into_body(), None))
    }

    #[tokio::test]
    async fn fault_58_trailers_of_a_member_are_cleaned() {
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Set-Cookie, Grpc-Status\r\n\r\n\
            1\r\nx\r\n0\r\nSet-Cookie: session=1\r\nGrpc-Status: 0\r\n\r\n";
        let collected = answered(answer.as_bytes().to_vec()).await.collect().await.unwrap();
        let trailers = collected.trailers().unwrap();
        assert_eq!(trailers.keys().collect::<Vec<_>>(), ["grpc-status"]);
        assert_eq!(collected.to_bytes(), "x");
    }
}
