//! Panics in a handler, on a real connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use http_body_util::{BodyExt, Either, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::server::conn;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prometheus_client::registry::Registry;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::{Mutex, oneshot};

use super::*;
use crate::limits::cutoff::Listed;
use crate::telemetry::requests::Metrics;

mod audit;
pub(crate) mod chain;
mod debug;
mod traces;

/// A body of one word, which optionally panics when it is polled again.
struct LastWord {
    word: Option<Bytes>,
    told: oneshot::Receiver<()>,
}

impl http_body::Body for LastWord {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(word) = self.word.take() {
            return Poll::Ready(Some(Ok(Frame::data(word))));
        }
        let _ = ready!(Pin::new(&mut self.told).poll(cx));
        panic!("the body");
    }
}

/// `/head` panics before there is an answer, `/body` in the middle of it; other paths are served.
async fn respond(
    metrics: Arc<Metrics>,
    tell: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
    request: Request<Incoming>,
) -> Result<Response<Either<Guarded, Guarded<LastWord>>>, Infallible> {
    let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
    let audit_id = AuditId::of(&mut HeaderMap::new());
    let record = Record::begin(metrics, peer, Listed::alone(), request.method(), audit_id);
    Ok(match request.uri().path() {
        "/head" => answered(&record, request.version(), pin!(async { panic!("the handler") }))
            .await
            .map(Either::Left),
        "/body" => {
            let told = tell.lock().await.take().unwrap();
            let body = LastWord { word: Some(Bytes::from_static(b"word")), told };
            Response::new(Either::Right(Guarded::watched(body, record)))
        }
        _ => {
            let fine = async { Ok(Response::new(Body::Full(Bytes::from_static(b"fine")))) };
            answered(&record, request.version(), pin!(fine)).await.map(Either::Left)
        }
    })
}

/// A client's connection to a server, and the server's metrics.
fn connection() -> (TokioIo<DuplexStream>, TokioIo<DuplexStream>, Arc<Metrics>, Registry) {
    let (client, server) = duplex(64 * 1024);
    let mut registry = crate::observe::metrics::registry();
    let metrics = Arc::new(Metrics::register(&mut registry));
    (TokioIo::new(client), TokioIo::new(server), metrics, registry)
}

fn request(path: &str) -> Request<Empty<Bytes>> {
    Request::builder().uri(format!("http://x{path}")).header("host", "x").body(Empty::new()).unwrap()
}

async fn is_a_status_of_a_panic(response: Response<Incoming>) {
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(response.headers().contains_key("audit-id"));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status["reason"], "InternalError");
    let message = "This request caused mc-sidecar to panic. Look in the logs for details.";
    assert_eq!(status["message"], message);
}

#[tokio::test]
async fn fault_80_panic_is_500_and_the_http1_connection_continues() {
    let (client, server, metrics, counted) = connection();
    let service = service_fn(move |request| respond(metrics.clone(), Arc::default(), request));
    tokio::spawn(conn::http1::Builder::new().serve_connection(server, service));
    let (mut sender, connection) = http1::handshake(client).await.unwrap();
    tokio::spawn(connection);
    is_a_status_of_a_panic(sender.send_request(request("/head")).await.unwrap()).await;
    let next = sender.send_request(request("/fine")).await.unwrap();
    assert_eq!(next.into_body().collect().await.unwrap().to_bytes(), "fine");
    let text = crate::observe::metrics::text(&counted);
    assert!(text.contains("mc_sidecar_panics_total 1"), "{text}");
    assert!(text.contains(r#"code="500",cluster="",hop="sidecar"} 1"#), "{text}");
}

#[tokio::test]
async fn fault_80_panic_in_one_stream_breaks_only_that_stream() {
    let (client, server, metrics, counted) = connection();
    let (tell, told) = oneshot::channel();
    let told = Arc::new(Mutex::new(Some(told)));
    let service = service_fn(move |request| respond(metrics.clone(), told.clone(), request));
    tokio::spawn(conn::http2::Builder::new(TokioExecutor::new()).serve_connection(server, service));
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), client).await.unwrap();
    tokio::spawn(connection);
    let mut broken = sender.send_request(request("/body")).await.unwrap().into_body();
    assert_eq!(broken.frame().await.unwrap().unwrap().into_data().unwrap(), "word");
    let other = sender.send_request(request("/fine")).await.unwrap();
    tell.send(()).unwrap();
    assert!(broken.frame().await.unwrap().is_err(), "its end is not one in good order");
    assert_eq!(other.into_body().collect().await.unwrap().to_bytes(), "fine");
    is_a_status_of_a_panic(sender.send_request(request("/head")).await.unwrap()).await;
    let text = crate::observe::metrics::text(&counted);
    assert!(text.contains("mc_sidecar_panics_total 2"), "{text}");
}

/// Each step moves the future, and each HTTP/2 stream keeps memory for it until its end.
#[test]
fn request_future_is_small() {
    fn future<A, B, C, D, F: Future>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }
    assert!(future(handle) <= 8 * 1024, "{} bytes: box what is rarely awaited", future(handle));
}
