//! `/livez`, `/readyz` and `/metrics` by plain HTTP on a port of their own, for probes and Prometheus.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::body::Body;
use crate::handler;
use crate::request_info::Health;

/// Serves until `stop`.
pub async fn run(listener: TcpListener, app: Arc<App>, tasks: TaskTracker, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        // Both arms are cancel-safe: accept() loses no connection.
        let stream = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => {
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let (app, stop) = (app.clone(), stop.clone());
        tasks.spawn(async move {
            let _permit = permit;
            let service = service_fn(move |request: Request<Incoming>| {
                let response = respond(&app, &request);
                async { Ok::<_, Infallible>(response) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                _ = timeout(ANSWER_TIMEOUT, connection) => {}
            }
        });
    }
}

fn respond(app: &App, request: &Request<Incoming>) -> Response<Body> {
    let code = |code| {
        let mut response = Response::new(Body::Empty);
        *response.status_mut() = code;
        response
    };
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/livez" | "/healthz") => handler::health(app, Health::Live),
        (&Method::GET | &Method::HEAD, "/readyz") => handler::health(app, Health::Ready),
        (&Method::GET | &Method::HEAD, "/metrics") => handler::metrics(app),
        (&Method::GET | &Method::HEAD, _) => code(StatusCode::NOT_FOUND),
        _ => code(StatusCode::METHOD_NOT_ALLOWED),
    }
}

/// Probes and scrapers are few, but who occupies a place must not keep them out …
const MAX_CONNECTIONS: usize = 512;
/// … for longer than this: a probe that waits long takes the process for dead.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Mostly too many open files, which no haste will mend.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
