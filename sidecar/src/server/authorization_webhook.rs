//! The port of the authorization webhook: mutual TLS, HTTP/1.1 and one path. The only client is the host's
//! kube-apiserver, so a connection whose certificate is not its is closed after the handshake.
//!
//! Connections have places by address as those of the secure port have. Every wait for a peer has a timeout.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kubectl_mc_api::ownership::Layout;
use rustls::ServerConfig;
use rustls::server::ResolvesServerCert;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::endpoints::authorize::{self, Metrics};
use crate::identity::trust::Trust;
use crate::request::body::Body;
use crate::server::places::{Place, Places, Proof};
use crate::server::tls;

/// The webhook of this process.
pub struct AuthorizationWebhook {
    pub layout: Layout,
    /// Whose front proxy may ask: the host's kube-apiserver.
    pub clients: Arc<ArcSwap<Trust>>,
    pub metrics: Metrics,
    places: Arc<Places>,
}

impl AuthorizationWebhook {
    pub fn new(layout: Layout, clients: Arc<ArcSwap<Trust>>, metrics: Metrics) -> Self {
        Self { layout, clients, metrics, places: Arc::default() }
    }

    /// Accepts connections until `shutdown`; those that are open end with their request.
    pub async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        certificates: Arc<dyn ResolvesServerCert>,
        connections: TaskTracker,
        shutdown: CancellationToken,
    ) {
        let acceptor = TlsAcceptor::from(Arc::new(server_config(certificates)));
        loop {
            // Both arms are cancel-safe: accept() loses no connection.
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(error = %error, "cannot accept a connection to the authorization webhook");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(place) = self.places.connection(address) else {
                self.metrics.refused.inc();
                continue;
            };
            let (webhook, acceptor, shutdown) = (self.clone(), acceptor.clone(), shutdown.clone());
            connections.spawn(async move {
                if let Err(error) = webhook.serve(stream, address, place, acceptor, shutdown).await {
                    debug!(client.address = %address, error = %error, "connection to the authorization webhook ended");
                }
            });
        }
    }

    async fn serve(
        self: Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        place: Place,
        acceptor: TlsAcceptor,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        stream.set_nodelay(true)?;
        let stream = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await??;
        let proven = self.clients.load().prove(stream.get_ref().1.peer_certificates().unwrap_or_default());
        if !proven.front_proxy || !place.after_handshake(Proof::FrontProxy) {
            self.metrics.refused.inc();
            let reason = proven.refused.unwrap_or_else(|| "it shows no certificate".to_owned());
            return Err(format!("not the host's kube-apiserver at {address}: {reason}").into());
        }
        let service = service_fn(|request| {
            let webhook = self.clone();
            async move { Ok::<_, Infallible>(webhook.answer(request).await) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MAX_HEADER);
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            biased;
            ended = connection.as_mut() => return Ok(ended?),
            () = shutdown.cancelled() => {}
            // The certificate is verified once for each connection.
            () = sleep(CONNECTION_AGE) => {}
        }
        connection.as_mut().graceful_shutdown();
        Ok(timeout(GRACE, connection).await??)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        match (request.uri().path(), request.method()) {
            ("/authorize", &Method::POST) => {}
            ("/authorize", _) => return authorize::refused(StatusCode::METHOD_NOT_ALLOWED, "only POST"),
            _ => return authorize::refused(StatusCode::NOT_FOUND, "only /authorize"),
        }
        let body = Limited::new(request.into_body(), MAX_BODY).collect();
        let body: Bytes = match timeout(BODY_TIMEOUT, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) => {
                debug!(error = %error, "cannot read a review");
                return closing(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large or ended early");
            }
            Err(_) => return closing(StatusCode::REQUEST_TIMEOUT, "the review did not arrive in time"),
        };
        authorize::answer(&self.layout, &self.metrics, &body)
    }
}

/// The rest of the body is not read.
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

/// A review has the groups and the extra fields of one user: a kube-apiserver takes heads of 1 MiB from users.
const MAX_BODY: usize = 1024 * 1024;
const MAX_HEADER: usize = 16 * 1024;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Of a head, and of the time without one.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// A kube-apiserver gives up after 3 s.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTION_AGE: Duration = Duration::from_secs(600);
const GRACE: Duration = Duration::from_secs(5);
/// Mostly too many open files, which no haste will mend.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
