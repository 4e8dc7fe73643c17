//! The body of every response: a document of ours, a stream of ours, or the member's own bytes
//! passed on as they come. [`Guarded`] keeps the request's record, and with it its permits, until
//! the last byte left or the client went away.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Version;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

use crate::headers;
use crate::panics::{self, Panicked};
use crate::record::Record;
use crate::upstream::pool::MemberBody;

/// What a response carries.
#[derive(Debug)]
pub enum Body {
    Empty,
    /// A document that is complete.
    Full(Bytes),
    /// A stream that we write: a watch of `clusters`. It ends when its sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
    /// The member's.
    Upstream(MemberBody),
}

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
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
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
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(document) => document.is_empty(),
            Self::Stream(_) => false,
            Self::Upstream(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Full(document) => SizeHint::with_exact(document.len() as u64),
            Self::Stream(_) => SizeHint::default(),
            Self::Upstream(incoming) => incoming.size_hint(),
        }
    }
}

/// A body that holds its request's record to the end of the stream.
pub struct Guarded<B = Body> {
    body: B,
    /// A document that is complete needs no watching over.
    watched: bool,
    over: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// What is left of a chunk that is given in pieces.
    rest: Bytes,
    /// Whether the client takes an answer as its windows allow (HTTP/2).
    in_pieces: bool,
    record: Record,
}

/// Why a response breaks off. It does so audibly: an end in good order would say that a log or a
/// watch is complete.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the request was ended")]
    Over,
    #[error(transparent)]
    Upstream(hyper::Error),
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Guarded {
    pub fn new(body: Body, record: Record, version: Version) -> Self {
        let watched = matches!(body, Body::Upstream(_) | Body::Stream(_));
        let in_pieces = watched && version == Version::HTTP_2;
        Self { body, watched, over: None, rest: Bytes::new(), in_pieces, record }
    }
}

#[cfg(test)]
impl<B> Guarded<B> {
    /// A stream of a test's own.
    pub(crate) fn watched(body: B, record: Record) -> Self {
        Self { body, watched: true, over: None, rest: Bytes::new(), in_pieces: false, record }
    }
}

impl<B: http_body::Body> Guarded<B> {
    /// What the client is given next of `data`. hyper waits for a window of at least one byte, and then leaves a
    /// whole chunk with HTTP/2's buffers; when it was the last one, the request is over for us and its bytes stay
    /// for as long as the client likes. So chunks are small, and the last byte of a body waits for the rest of it to
    /// fit the window.
    fn piece(&mut self, mut data: Bytes) -> Bytes {
        let is_last = self.body.is_end_stream();
        let length = match data.len() {
            length if length > PIECE => PIECE,
            length if length > SMALL && is_last => length - 1,
            length => length,
        };
        self.rest = data.split_off(length);
        data
    }
}

impl<B> http_body::Body for Guarded<B>
where
    B: http_body::Body<Data = Bytes, Error = hyper::Error> + Unpin,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if this.watched && this.record.is_over() {
            return Poll::Ready(Some(Err(Error::Over)));
        }
        if !this.rest.is_empty() {
            let rest = std::mem::take(&mut this.rest);
            this.record.cutoff().given();
            return Poll::Ready(Some(Ok(Frame::data(this.piece(rest)))));
        }
        let frame = match panics::caught_in(|| Pin::new(&mut this.body).poll_frame(cx)) {
            Ok(frame) => frame.map_err(Error::Upstream),
            Err(panicked) => {
                this.record.panicked();
                return Poll::Ready(Some(Err(panicked.into())));
            }
        };
        if this.watched && frame.is_pending() {
            // Most bodies never wait, and need no timer.
            let over = this.over.get_or_insert_with(|| this.record.over());
            this.record.cutoff().taken();
            ready!(over.as_mut().poll(cx));
            return Poll::Ready(Some(Err(Error::Over)));
        }
        this.record.cutoff().given();
        if !this.in_pieces {
            return frame;
        }
        frame.map_ok(|frame| match frame.into_data() {
            Ok(data) => Frame::data(this.piece(data)),
            Err(trailers) => trailers,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A frame of HTTP/2, unless both sides agree on more.
const PIECE: usize = 16 * 1024;
/// What may stay in HTTP/2's buffers of an answer that is over.
const SMALL: usize = 1024;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderMap, Method, Request};
    use http_body_util::{BodyExt, Empty};
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::audit_id::AuditId;
    use crate::cutoff::Listed;
    use crate::metrics::Metrics;
    use crate::peer::Peer;

    /// What a member answers, as the body of a response.
    async fn answered(answer: Vec<u8>) -> Body {
        let (client, mut member) = tokio::io::duplex(1024 * 1024);
        let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection);
        let response = tokio::spawn(sender.send_request(Request::new(Empty::<Bytes>::new())));
        member.read_u8().await.unwrap();
        member.write_all(&answer).await.unwrap();
        Body::Upstream(MemberBody::alone(response.await.unwrap().unwrap().into_body(), None))
    }

    fn record() -> Record {
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        let audit_id = AuditId::of(&mut HeaderMap::new());
        Record::begin(Arc::new(Metrics::default()), peer, Listed::alone(), &Method::GET, audit_id)
    }

    #[tokio::test]
    async fn last_byte_for_http2_waits_for_the_rest_to_fit() {
        let length = 40_000;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", "x".repeat(length));
        let body = answered(answer.into_bytes()).await;
        let mut body = Guarded::new(body, record(), Version::HTTP_2);
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            pieces.push(frame.unwrap().into_data().unwrap().len());
        }
        assert_eq!(pieces.iter().sum::<usize>(), length);
        assert!(pieces.iter().all(|piece| *piece <= PIECE), "{pieces:?}");
        assert_eq!(pieces.last(), Some(&1), "{pieces:?}");
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
