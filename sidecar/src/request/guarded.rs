//! [`Guarded`] wraps a response body and keeps the request's record, and with it its permits, until the last
//! byte was sent or the client disconnected.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Version;
use http_body::{Body as _, Frame, SizeHint};

use crate::limits::cutoff::Toward;
use crate::observe::panics::{self, Panicked};
use crate::outbound::body::{self, Body};
use crate::request::record::Record;

mod small_pieces;

use small_pieces::SmallPieces;

/// A body that holds its request's record until the end of the stream.
pub struct Guarded<B = Body> {
    body: SmallPieces<B>,
    /// False for a short document, which needs no supervision.
    watched: bool,
    over: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The remaining bytes of a chunk that is sent in pieces.
    rest: Bytes,
    /// Whether to send chunks in pieces, which HTTP/2's windows and HTTP/1.1's buffer bound.
    in_pieces: bool,
    record: Record,
}

/// Why a response is cut off. It ends with an error, because a clean end would mean that a log or a
/// watch is complete.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the request was ended")]
    Over,
    #[error(transparent)]
    Body(body::Error),
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Guarded {
    pub fn new(body: Body, record: Record, version: Version) -> Self {
        let is_long_document = matches!(&body, Body::Full(document) if document.len() > SMALL);
        let watched = is_long_document || matches!(body, Body::Upstream(_) | Body::Stream(_) | Body::Made(_));
        let is_http2_stream = watched && version == Version::HTTP_2;
        let in_pieces = is_long_document || is_http2_stream;
        let body = SmallPieces::new(body, is_http2_stream);
        Self { body, watched, over: None, rest: Bytes::new(), in_pieces, record }
    }
}

#[cfg(test)]
impl<B> Guarded<B> {
    /// A guarded stream for tests.
    pub(crate) fn watched(body: B, record: Record) -> Self {
        let body = SmallPieces::new(body, false);
        Self { body, watched: true, over: None, rest: Bytes::new(), in_pieces: false, record }
    }
}

impl<B: http_body::Body<Data = Bytes> + Unpin> Guarded<B> {
    /// The next piece of `data` for the client. hyper waits for a window of at least one byte, and
    /// then moves a whole chunk into HTTP/2's buffers. After the last chunk the sidecar considers
    /// the request finished, but its bytes stay in memory until the client reads them. So
    /// chunks are small, and the last byte of a body waits until the rest fits the window.
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
    B: http_body::Body<Data = Bytes, Error: Into<body::Error>> + Unpin,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if this.watched && this.record.hold().is_over() {
            return Poll::Ready(Some(Err(Error::Over)));
        }
        if !this.rest.is_empty() {
            let rest = std::mem::take(&mut this.rest);
            this.record.hold().cutoff().given();
            return Poll::Ready(Some(Ok(Frame::data(this.piece(rest)))));
        }
        let frame = match panics::caught_in(|| Pin::new(&mut this.body).poll_frame(cx)) {
            Ok(frame) => frame.map_err(|error| Error::Body(error.into())),
            Err(panicked) => {
                this.record.panicked();
                return Poll::Ready(Some(Err(panicked.into())));
            }
        };
        if this.watched && frame.is_pending() {
            // Most bodies never wait, and need no timer.
            let over = this.over.get_or_insert_with(|| this.record.hold().over());
            let cutoff = this.record.hold().cutoff();
            if this.body.are_waiting() {
                cutoff.blocked(Toward::Caller);
            } else {
                cutoff.taken();
            }
            ready!(over.as_mut().poll(cx));
            return Poll::Ready(Some(Err(Error::Over)));
        }
        if let Poll::Ready(Some(_)) = frame {
            this.record.hold().cutoff().given();
        }
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
/// How many bytes of a finished answer may stay in HTTP/2's buffers.
const SMALL: usize = 1024;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderMap, Method};
    use http_body_util::BodyExt;

    use super::*;
    use crate::head::audit_id::AuditId;
    use crate::identity::peer::Peer;
    use crate::limits::cutoff::Listed;
    use crate::outbound::body::tests::answered;
    use crate::telemetry::requests::Metrics;

    pub(super) fn record() -> Record {
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        let audit_id = AuditId::of(&mut HeaderMap::new());
        Record::begin(Arc::new(Metrics::default()), peer, Listed::alone(), &Method::GET, audit_id)
    }

    async fn pieces(body: Body, version: Version) -> Vec<usize> {
        let mut body = Guarded::new(body, record(), version);
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            pieces.push(frame.unwrap().into_data().unwrap().len());
        }
        assert_eq!(pieces.iter().sum::<usize>(), LENGTH);
        assert!(pieces.iter().all(|piece| *piece <= PIECE), "{pieces:?}");
        pieces
    }

    #[tokio::test]
    async fn last_http2_byte_waits_until_the_rest_fits_the_window() {
        let document = "x".repeat(LENGTH);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n{document}");
        for body in [answered(answer.into_bytes()).await, Body::Full(document.into())] {
            let pieces = pieces(body, Version::HTTP_2).await;
            assert_eq!(pieces.last(), Some(&1), "{pieces:?}");
        }
    }

    #[tokio::test]
    async fn long_document_is_sent_in_pieces_over_http1() {
        pieces(Body::Full("x".repeat(LENGTH).into()), Version::HTTP_11).await;
    }

    const LENGTH: usize = 40_000;
}
