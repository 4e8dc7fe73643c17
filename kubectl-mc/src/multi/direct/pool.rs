//! Manages the connection pool to all members: one login, and as few connections to the host as HTTP/2
//! allows.
//!
//! kube-apiserver allows 100 streams per connection, and hyper opens no second connection when they are used
//! up. So long-lived streams (watches, followed logs) are spread over several connections.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{HttpConnector, capture_connection};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use tokio::sync::Semaphore;
use tower::{BoxError, Layer, Service};

use crate::argv::Scanned;
use crate::cluster::client::{self, CONNECT_TIMEOUT, ClientError};
use crate::cluster::context::ClusterContext;
use crate::cluster::transport::Transport;
use crate::env::Env;
use crate::error::causes;
use crate::log::Log;

/// Creates a client for up to `streams` concurrent streams, without connecting.
pub(super) async fn open(
    host: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
    streams: usize,
) -> Result<kube::Client, ClientError> {
    let log = Log::new(env);
    let setup = |error: kube::Error| ClientError::Setup(Box::new(error));
    let transport = client::transport(host, scanned, env).await?;
    if transport.proxy.is_some() {
        // The client for proxies uses HTTP/1.1 with a connection for each request.
        let client = client::without_credential(&transport, None)?;
        let client = client::authorized(client, transport.authorization, None);
        return Ok(client::logged(client, &host.server, log));
    }
    let connections = streams.div_ceil(STREAMS).max(1);
    // Loaded once, because certificates may come from files.
    let tls = transport.tls().map_err(setup)?;
    let shards = (0..connections).map(|_| Shard::new(&transport, tls.clone())).collect();
    let config = transport.config();
    let service = config.base_uri_layer().layer(Shards(shards));
    let service = config.extra_headers_layer().map_err(setup)?.layer(service);
    let client = kube::Client::new(service, config.default_namespace);
    let client = client::authorized(client, transport.authorization, None);
    Ok(client::logged(client, &host.server, log))
}

/// Whether the host did not process the request because it was closing the connection, so that a retry is
/// safe. The host closes connections from time to time, and whenever it rejects a credential.
pub(super) fn was_not_seen(error: &(dyn Error + 'static)) -> bool {
    let reason = causes(error).find_map(|cause| cause.downcast_ref::<h2::Error>());
    reason.is_some_and(|error| match error.reason() {
        Some(h2::Reason::NO_ERROR) => error.is_go_away(),
        reason => !error.is_go_away() && reason == Some(h2::Reason::REFUSED_STREAM),
    })
}

/// Selects one of several connections: an extension of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamId(pub(super) usize);

#[derive(Clone)]
struct Shards(Arc<[Shard]>);

/// One connection.
struct Shard {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    /// The first request goes alone until it is connected. Before that, the client does not know whether
    /// other requests can share the connection, and each would open its own.
    first: Semaphore,
    tried: AtomicBool,
}

impl Shard {
    fn new(transport: &Transport, tls: rustls::ClientConfig) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        // HTTP/1.1 has no ping.
        tcp.set_keepalive(Some(PING));
        tcp.set_keepalive_interval(Some(PROBE));
        tcp.set_keepalive_retries(Some(PROBES));
        let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        if let Some(name) = &transport.server_name {
            https = https.with_server_name_resolver(FixedServerNameResolver::new(name.clone()));
        }
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(STREAM_WINDOW * CONNECTION_STREAMS)
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PONG)
            .build(https.enable_all_versions().wrap_connector(tcp));
        Self { client, first: Semaphore::new(1), tried: AtomicBool::new(false) }
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, legacy::Error> {
        if self.tried.load(Ordering::Relaxed) {
            return self.client.request(request).await;
        }
        // The semaphore is never closed; the first request opens the connection.
        let turn = self.first.acquire().await;
        if self.tried.load(Ordering::Relaxed) {
            drop(turn);
            return self.client.request(request).await;
        }
        let mut connection = capture_connection(&mut request);
        let mut response = self.client.request(request);
        let early = tokio::select! {
            biased;
            response = &mut response => Some(response),
            _ = connection.wait_for_connection_metadata() => None,
        };
        self.tried.store(true, Ordering::Relaxed);
        drop(turn);
        match early {
            Some(response) => response,
            None => response.await,
        }
    }
}

impl Service<Request<Body>> for Shards {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shards = Arc::clone(&self.0);
        let stream = request.extensions().get::<StreamId>().map_or(0, |stream| stream.0);
        Box::pin(async move { Ok(shards[stream / STREAMS % shards.len()].send(request).await?) })
    }
}

/// Number of long-lived streams per connection; the remaining ones are for short requests.
const STREAMS: usize = 80;
/// The limit of kube-apiserver.
const CONNECTION_STREAMS: u32 = 100;
/// A stream without a reader must not block the others on its connection, so the connection's window is large
/// enough for all of them.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The value of client-go, so that a lost host is detected in time.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);
/// The interval and the number of the probes after [`PING`] without data.
const PROBE: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;
