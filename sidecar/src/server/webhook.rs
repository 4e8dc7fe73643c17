//! Serves the webhooks' ports: TLS, HTTP/1.1 and a path for each webhook. The client is the host's
//! kube-apiserver.
//!
//! - Authorization: a connection whose certificate is not the kube-apiserver's is closed after the handshake.
//! - Admission: a kube-apiserver sends no certificate unless it is configured to, so callers are unknown.
//!
//! Connections and requests have slots by address, separate from those of the secure port. Each body has a
//! size limit and, where callers are unknown, so do all bodies together. Every wait for a peer has a timeout.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kubectl_mc_api::ownership::Layout;
use prometheus_client::metrics::gauge::Gauge;
use rustls::ServerConfig;
use rustls::server::ResolvesServerCert;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use crate::base::tcp;
use crate::base::workers::Workers;
use crate::connection::places::{Place, Places, Proof};
use crate::connection::tls;
use crate::endpoints::admission;
use crate::endpoints::authorize;
use crate::identity::trust::Trust;
use crate::outbound::body::Body;

/// The webhooks of one port.
pub struct Webhook {
    service: Service,
    /// In this trust, the front proxy is the host's kube-apiserver.
    clients: Arc<ArcSwap<Trust>>,
    places: Arc<Places>,
}

/// What a port serves.
pub enum Service {
    Authorization { layout: Layout, metrics: authorize::Metrics },
    Admission { metrics: admission::Metrics, large: Semaphore },
}

impl Service {
    pub fn admission(metrics: admission::Metrics) -> Self {
        Self::Admission { metrics, large: Semaphore::new(LARGE_BODIES) }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Authorization { .. } => "authorization",
            Self::Admission { .. } => "admission",
        }
    }

    /// Counts a refused connection or body.
    fn refused(&self) {
        match self {
            Self::Authorization { metrics, .. } => metrics.refused.inc(),
            Self::Admission { metrics, .. } => metrics.limited.inc(),
        };
    }
}

impl Webhook {
    pub fn new(service: Service, clients: Arc<ArcSwap<Trust>>) -> Self {
        Self { service, clients, places: Arc::default() }
    }

    pub fn name(&self) -> &'static str {
        self.service.name()
    }

    /// Accepts connections until `shutdown`; open connections end with their request.
    pub async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        certificates: Arc<dyn ResolvesServerCert>,
        workers: &Workers,
        connections: TaskTracker,
        shutdown: CancellationToken,
    ) {
        let acceptor = TlsAcceptor::from(Arc::new(server_config(certificates)));
        while let Some((stream, address)) = tcp::accept(&listener, &shutdown).await {
            let Some(place) = self.places.connection(address).map(Arc::new) else {
                self.service.refused();
                continue;
            };
            // The stream must register with the worker's reactor.
            let Ok(stream) = stream.into_std() else { continue };
            let (webhook, acceptor, shutdown) = (self.clone(), acceptor.clone(), shutdown.clone());
            let worker = workers.least_busy();
            let busy = worker.busy(Gauge::default());
            let served = async move {
                let _busy = busy;
                if let Err(error) = webhook.serve(stream, address, place, acceptor, shutdown).await {
                    debug!(client.address = %address, error = %error, "connection to a webhook ended");
                }
            };
            connections.spawn_on(served, worker.runtime());
        }
    }

    async fn serve(
        self: Arc<Self>,
        stream: std::net::TcpStream,
        address: SocketAddr,
        place: Arc<Place>,
        acceptor: TlsAcceptor,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let stream = TcpStream::from_std(stream)?;
        stream.set_nodelay(true)?;
        let stream = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await??;
        let proven = self.clients.load().prove(stream.get_ref().1.peer_certificates().unwrap_or_default());
        let (proof, may_ask) = match (proven.front_proxy, &self.service) {
            (true, _) => (Proof::FrontProxy, true),
            (false, Service::Admission { .. }) => (Proof::Nothing, true),
            (false, Service::Authorization { .. }) => (Proof::Nothing, false),
        };
        if !may_ask || !place.after_handshake(proof) {
            self.service.refused();
            let reason = proven.refused.unwrap_or_else(|| "it shows no certificate".to_owned());
            return Err(format!("not the host's kube-apiserver at {address}: {reason}").into());
        }
        let service = service_fn(|request| {
            let (webhook, place) = (self.clone(), place.clone());
            async move { Ok::<_, Infallible>(webhook.answer(request, &place).await) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MAX_HEADER);
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            biased;
            ended = connection.as_mut() => return Ok(ended?),
            () = shutdown.cancelled() => {}
            // The certificate is verified once for each connection, so the connection has a maximum age.
            () = sleep(CONNECTION_AGE) => {}
        }
        connection.as_mut().graceful_shutdown();
        Ok(timeout(GRACE, connection).await??)
    }

    async fn answer(&self, request: Request<Incoming>, place: &Place) -> Response<Body> {
        let is_post = request.method() == Method::POST;
        match &self.service {
            Service::Authorization { .. } if request.uri().path() != "/authorize" => {
                closing(StatusCode::NOT_FOUND, "only /authorize")
            }
            _ if !is_post => closing(StatusCode::METHOD_NOT_ALLOWED, "only POST"),
            Service::Authorization { layout, metrics } => match read(request, MAX_REVIEW).await {
                Ok(body) => authorize::answer(layout, metrics, &body),
                Err(response) => response,
            },
            Service::Admission { metrics, large } => {
                let Some(webhook) = admission::Webhook::at(request.uri().path()) else {
                    return closing(StatusCode::NOT_FOUND, "there is no such webhook");
                };
                let limited = |status, text| {
                    metrics.limited.inc();
                    closing(status, text)
                };
                // A kube-apiserver always sends the length.
                let Some(length) = request.body().size_hint().exact() else {
                    return limited(StatusCode::LENGTH_REQUIRED, "the review has no length");
                };
                let Ok(_place) = place.request() else {
                    return limited(StatusCode::SERVICE_UNAVAILABLE, "too many reviews");
                };
                let most = if webhook == admission::Webhook::Owner { MAX_OBJECT } else { SMALL };
                // Limits how many large bodies of unknown callers are in memory.
                let is_large = length > SMALL as u64 && length <= most as u64;
                let _large = match is_large.then(|| large.try_acquire()) {
                    Some(Err(_)) => {
                        return limited(StatusCode::SERVICE_UNAVAILABLE, "too many large reviews");
                    }
                    permit => permit,
                };
                match read(request, most).await {
                    Ok(body) => admission::answer(webhook, metrics, &body),
                    Err(response) => {
                        metrics.limited.inc();
                        response
                    }
                }
            }
        }
    }
}

/// The body of a review, if it has at most this length and arrives in time.
async fn read(request: Request<Incoming>, most: usize) -> Result<Bytes, Response<Body>> {
    let body = Limited::new(request.into_body(), most).collect();
    match timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => {
            debug!(error = %error, "cannot read a review");
            Err(closing(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large or ended early"))
        }
        Err(_) => Err(closing(StatusCode::REQUEST_TIMEOUT, "the review did not arrive in time")),
    }
}

/// A response that closes the connection, because the rest of the body is not read.
fn closing(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = authorize::refused(status, text);
    response.headers_mut().insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
    response
}

fn server_config(certificates: Arc<dyn ResolvesServerCert>) -> ServerConfig {
    let mut config = tls::server_config(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A review contains the groups and the extra fields of one user; a kube-apiserver accepts heads of 1 MiB
/// from users.
const MAX_REVIEW: usize = 1024 * 1024;
/// A review of a certificate request has a few KiB.
const SMALL: usize = 64 * 1024;
/// A kube-apiserver accepts objects of 3 MiB.
const MAX_OBJECT: usize = 4 * 1024 * 1024;
/// Concurrent reviews above [`SMALL`], with 64 MiB in total.
const LARGE_BODIES: usize = 16;
const MAX_HEADER: usize = 16 * 1024;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a head, and of the wait for one.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// A kube-apiserver gives up after 3 s.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTION_AGE: Duration = Duration::from_secs(600);
const GRACE: Duration = Duration::from_secs(5);
