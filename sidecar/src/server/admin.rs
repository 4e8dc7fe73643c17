//! Serves `/livez` and `/readyz` over plain HTTP on a separate port, for probes.
//!
//! `/metrics` contains the names of members, so this port serves it only on a loopback address.
//! Otherwise the secure port serves it, to callers whom the host authorizes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::tcp;
use crate::head::request_info::Health;
use crate::outbound::body::{self, Body};
use crate::request::handler;
use crate::request::services::Services;

/// Answers a request without waiting.
pub type Respond = dyn Fn(&Request<Incoming>) -> Response<Body> + Send + Sync;

/// Serves connections until `stop`. A new one is always accepted: if there are too many, the oldest
/// is closed, because a client that has sent its request is answered at once.
pub async fn run(listener: TcpListener, respond: Arc<Respond>, tasks: TaskTracker, stop: CancellationToken) {
    let mut connections: VecDeque<AbortHandle> = VecDeque::with_capacity(MAX_CONNECTIONS);
    while let Some((stream, _)) = tcp::accept(&listener, &stop).await {
        if connections.len() == MAX_CONNECTIONS
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        let (respond, stop) = (respond.clone(), stop.clone());
        let connection = tasks.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let response = respond(&request);
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
        connections.push_back(connection.abort_handle());
    }
}

/// The sidecar's answers on this port.
pub fn of_services(services: Arc<Services>, listener: &TcpListener) -> Arc<Respond> {
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    Arc::new(move |request| respond(&services, request, is_local))
}

fn respond(services: &Services, request: &Request<Incoming>, is_local: bool) -> Response<Body> {
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/livez" | "/healthz") => handler::health(services, Health::Live),
        (&Method::GET | &Method::HEAD, "/readyz") => handler::health(services, Health::Ready),
        (&Method::GET | &Method::HEAD, "/metrics") if is_local => handler::metrics(services),
        (&Method::GET | &Method::HEAD, "/metrics") => {
            body::response(StatusCode::NOT_FOUND, Body::Full(METRICS_HINT.into()))
        }
        (&Method::GET | &Method::HEAD, _) => body::response(StatusCode::NOT_FOUND, Body::Empty),
        _ => body::response(StatusCode::METHOD_NOT_ALLOWED, Body::Empty),
    }
}

const METRICS_HINT: &str = "metrics are served here on a loopback address only: use https and the secure port, \
                            with a token of a caller who may get /metrics (ClusterRole kubectl-mc-metrics)\n";
/// Probes and scrapers need few.
const MAX_CONNECTIONS: usize = 256;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::request::handler::tests::chain::any_app;

    /// The answer of an admin port bound to this address, requested over loopback while there are
    /// idle connections, the oldest of which is closed.
    async fn get(address: IpAddr, path: &str, idle: usize) -> String {
        let listener = TcpListener::bind(SocketAddr::new(address, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let respond = of_services(any_app(), &listener);
        let server = tokio::spawn(run(listener, respond, tasks, stop.clone()));
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        let mut kept = Vec::new();
        for _ in 0..idle {
            kept.push(connect().await.unwrap());
        }
        let mut stream = connect().await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        if let Some(oldest) = kept.first_mut() {
            assert!(oldest.read(&mut [0]).await.is_ok_and(|read| read == 0), "more are open than the limit");
        }
        stop.cancel();
        server.await.unwrap();
        answer
    }

    #[tokio::test]
    async fn plain_metrics_are_served_on_loopback_only() {
        let loopback = get(Ipv4Addr::LOCALHOST.into(), "/metrics", 0).await;
        assert!(loopback.starts_with("HTTP/1.1 200") && loopback.contains("mc_sidecar_"), "{loopback}");
        let anywhere = get(Ipv4Addr::UNSPECIFIED.into(), "/metrics", 0).await;
        assert!(anywhere.starts_with("HTTP/1.1 404") && !anywhere.contains("mc_sidecar_"), "{anywhere}");
        assert!(anywhere.contains("kubectl-mc-metrics"), "{anywhere}");
        let live = get(Ipv4Addr::UNSPECIFIED.into(), "/livez", 0).await;
        assert!(live.starts_with("HTTP/1.1 200"), "{live}");
    }
    #[tokio::test]
    async fn probe_is_answered_beside_idle_connections() {
        let get = get(Ipv4Addr::LOCALHOST.into(), "/livez", MAX_CONNECTIONS);
        let live = timeout(PROBE_TIMEOUT, get).await.expect("the kubelet would restart the sidecar");
        assert!(live.starts_with("HTTP/1.1 200"), "{live}");
    }

    /// The default of a probe's `timeoutSeconds`.
    const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
}
