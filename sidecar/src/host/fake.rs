//! A fake of the host's API for tests, with fixed answers and a request counter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;

/// A client of a host that answers each request with `answer(body)`, and the number of requests. With status 0
/// it does not answer.
pub(crate) fn host(
    answer: impl Fn(&Value) -> (u16, Value) + Send + Sync + 'static,
) -> (kube::Client, Arc<AtomicUsize>) {
    host_by_path(move |_, body| answer(body))
}

/// The same with `answer(path, body)`.
pub(crate) fn host_by_path(
    answer: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static,
) -> (kube::Client, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, answer) = (asked.clone(), Arc::new(answer));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (count, answer) = (count.clone(), answer.clone());
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            // Lets other tasks send requests while this one is open.
            tokio::task::yield_now().await;
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
            let (code, value) = answer(&path, &serde_json::from_slice(&body).unwrap_or_default());
            if code == 0 {
                std::future::pending::<()>().await;
            }
            let response = Response::builder().status(code).body(Body::from(value.to_string().into_bytes()));
            response.map_err(std::io::Error::other)
        }
    });
    (kube::Client::new(service, "default"), asked)
}
