//! Sends the sidecar's own requests to a member. Only these have a credential of the sidecar without a
//! caller's identity. No other module makes them, and neither path nor headers contain anything from a
//! caller's request:
//!
//! - probes, GET of `/readyz`, `/version`, and a SelfSubjectReview ([`Upstream::open`])
//! - what the member's grant lacks, by SelfSubjectAccessReviews ([`super::grant`])
//! - the requests of `<name>.manager`, which may not impersonate ([`client`])
//!
//! They use the same route as callers' requests: the same proxy, TLS and breaker.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kubectl_mc_api::ClusterName;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{Mutex, OnceCell, Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tower_service::Service;

use super::Upstream;
use super::connection::{self, Connection};
use super::outgoing::{self, Outgoing};
use super::stream::BeforeHead;
use crate::base::json_values;
use crate::outbound::tunnel::purpose::Purpose;
use crate::outbound::tunnel::registry::AgentTunnels;

mod failure;

pub use failure::{Failure, Kind, NO_AGENT};

/// A connection for the sidecar's own requests, one after the other.
pub struct Own<'a> {
    upstream: &'a Upstream,
    open: Open,
}

/// A connection and its driver.
struct Open {
    sender: http1::SendRequest<Outgoing>,
    before_head: BeforeHead,
    _task: AbortOnDropHandle<()>,
}

impl Open {
    async fn send(&mut self, request: Request<Outgoing>) -> Result<Response<Incoming>, Failure> {
        self.before_head.begin();
        let response = self.sender.send_request(request).await.map_err(|e| Failure::of_asking(&e))?;
        self.before_head.end();
        Ok(response)
    }
}

/// A complete answer of a member.
#[derive(Debug)]
pub struct Answer {
    pub status: http::StatusCode,
    pub body: Bytes,
}

impl Upstream {
    /// Opens a connection, even while the breaker is open: this may detect that the member has recovered.
    pub async fn open(&self) -> Result<Own<'_>, Failure> {
        let io = self
            .connector
            .connect(Purpose::Requests)
            .await
            .map_err(|error| Failure::of_connecting(error.as_ref()))?;
        let before_head = io.inner().hook().clone();
        // A member may send data before it receives a request.
        before_head.begin();
        let (sender, connection) = http1::handshake(io).await.map_err(|error| Failure::of_asking(&error))?;
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            // The answers report how the connection ended.
            let _ = connection.await;
        }));
        Ok(Own { upstream: self, open: Open { sender, before_head, _task: task } })
    }

    /// A request with the sidecar's own identity.
    pub(super) fn own_request(
        &self,
        method: Method,
        path: &str,
        query: Option<&str>,
        body: Outgoing,
    ) -> Option<Request<Outgoing>> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.connection.target(path, query).ok()?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.connection.host());
        if let Some(token) = self.connection.authorization() {
            headers.insert(header::AUTHORIZATION, token);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        Some(request)
    }
}

impl Own<'_> {
    /// Sends a GET for a path, and waits for the complete answer.
    pub async fn get(&mut self, path: &str) -> Result<Answer, Failure> {
        self.ask(Method::GET, path, outgoing::nothing()).await
    }

    /// Sends a POST with a document.
    pub async fn post(&mut self, path: &str, document: Vec<u8>) -> Result<Answer, Failure> {
        self.ask(Method::POST, path, outgoing::document(document)).await
    }

    async fn ask(&mut self, method: Method, path: &str, body: Outgoing) -> Result<Answer, Failure> {
        let asked = async {
            let request =
                self.upstream.own_request(method, path, None, body).ok_or_else(Failure::unusable)?;
            // The member, or a proxy on the way, may close the connection after each answer.
            if self.open.sender.ready().await.is_err() {
                self.open = self.upstream.open().await?.open;
            }
            let response = self.open.send(request).await?;
            self.upstream.breaker.answered();
            let status = response.status();
            let body = read(response.into_body(), MAX_ANSWER).await?;
            Ok(Answer { status, body })
        };
        timeout(TIMEOUT, asked).await.unwrap_or_else(|_| Err(Failure::late()))
    }
}

async fn read(body: Incoming, max: usize) -> Result<Bytes, Failure> {
    let body = Limited::new(body, max).collect().await;
    Ok(body.map_err(|error| Failure::of_connecting(error.as_ref()))?.to_bytes())
}

/// Whether the member accepts the credential in a Secret's data, over the route that requests will use.
pub async fn accepts(
    cluster: &ClusterName,
    data: &BTreeMap<String, ByteString>,
    tunnels: &Arc<AgentTunnels>,
) -> Result<bool, TryError> {
    let connection = Connection::parse(data)?;
    let upstream = Upstream::new(cluster.clone(), connection, Gauge::default(), tunnels)?;
    let answer = upstream.open().await?.get("/readyz").await?;
    Ok(answer.status != StatusCode::UNAUTHORIZED)
}

/// Why a credential could not be tested.
#[derive(Debug, thiserror::Error)]
pub enum TryError {
    #[error(transparent)]
    Connection(#[from] connection::Error),
    #[error(transparent)]
    Failure(#[from] Failure),
}

/// A client of the member's API with the connection and the credential in a Secret, for controllers. Its
/// requests run one after the other over one connection, which ends with the last clone. Controllers serve
/// hundreds of members, and the handshake is most of the cost of a small request.
pub fn client(
    cluster: &ClusterName,
    secret: &Secret,
    tunnels: &Arc<AgentTunnels>,
) -> Result<kube::Client, connection::Error> {
    let connection = Connection::parse(&secret.data.clone().unwrap_or_default())?;
    let upstream = Arc::new(Upstream::new(cluster.clone(), connection, Gauge::default(), tunnels)?);
    Ok(Client::over(upstream, &LARGE))
}

#[derive(Clone)]
struct Client {
    upstream: Arc<Upstream>,
    /// The lock serializes the requests; `None` before the first request and after a broken connection.
    idle: Arc<Mutex<Option<Open>>>,
    /// The permit of a client that has received a large response. It is held until the end of the client, because the
    /// objects of the response are in memory for about as long.
    large: Arc<OnceCell<SemaphorePermit<'static>>>,
    places: &'static Semaphore,
}

impl Client {
    fn over(upstream: Arc<Upstream>, places: &'static Semaphore) -> kube::Client {
        let (idle, large) = Default::default();
        kube::Client::new(Self { upstream, idle, large, places }, "default")
    }

    /// The previous request's connection, if it still works, or a new one.
    async fn open(&self, before: Option<Open>) -> Result<Open, Failure> {
        if let Some(mut open) = before
            && open.sender.ready().await.is_ok()
        {
            return Ok(open);
        }
        Ok(self.upstream.open().await?.open)
    }

    /// Reads a response with objects. A large one needs a permit before it is read to its end or parsed.
    async fn objects(&self, body: Incoming) -> Result<Bytes, Failure> {
        let mut body = Limited::new(body, MAX_OBJECTS);
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Failure::of_connecting(error.as_ref()))?;
            read.extend_from_slice(frame.data_ref().map_or(&[], Bytes::as_ref));
            if read.len() > SMALL_ANSWER {
                self.take_place().await?;
            }
        }
        if !json_values::are_at_most(SMALL_VALUES, &read) {
            self.take_place().await?;
        }
        match json_values::are_at_most(MAX_VALUES, &read) {
            true => Ok(read.freeze()),
            false => Err(Failure::too_many_values()),
        }
    }

    async fn take_place(&self) -> Result<(), Failure> {
        self.large.get_or_try_init(|| self.places.acquire()).await.map(drop).map_err(|_| Failure::late())
    }

    /// Reads the whole answer, so that the timeout also applies if a member withholds a part of it.
    async fn ask(self, request: Request<Outgoing>) -> Result<Response<Full<Bytes>>, Failure> {
        let mut idle = self.idle.lock().await;
        let asked = async {
            let mut open = self.open(idle.take()).await?;
            let (head, body) = open.send(request).await?.into_parts();
            self.upstream.breaker.answered();
            let body = self.objects(body).await?;
            Ok((open, Response::from_parts(head, Full::new(body))))
        };
        let (open, response) = timeout(TIMEOUT, asked).await.unwrap_or_else(|_| Err(Failure::late()))?;
        *idle = Some(open);
        Ok(response)
    }
}

impl Service<Request<kube::client::Body>> for Client {
    type Response = Response<Full<Bytes>>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(|error| Failure::of_connecting(&error))?;
            let body = outgoing::document(body.to_bytes().to_vec());
            // kube writes a question mark even without a query.
            let query = head.uri.query().filter(|query| !query.is_empty());
            let asked = client.upstream.own_request(head.method, head.uri.path(), query, body);
            let mut asked = asked.ok_or_else(Failure::unusable)?;
            for name in [header::CONTENT_TYPE, header::ACCEPT] {
                if let Some(value) = head.headers.get(&name) {
                    asked.headers_mut().insert(name, value.clone());
                }
            }
            client.ask(asked).await
        })
    }
}

/// Timeout of a complete answer. A slower kube-apiserver counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 64 * 1024;
/// For objects that a controller reads from a member: they are read completely, and an untrusted
/// member must not exhaust the sidecar's memory.
const MAX_OBJECTS: usize = 8 * 1024 * 1024;
/// At most about 100 MB, as empty RoleBindings. The roles and bindings of thousands of namespaces
/// have fewer values.
const MAX_VALUES: usize = 250_000;
/// These take at most about 8 MB as objects.
const SMALL_VALUES: usize = 20_000;
const SMALL_ANSWER: usize = 256 * 1024;
/// The permits for large responses, shared by all members.
static LARGE: Semaphore = Semaphore::const_new(2);

#[cfg(test)]
pub(crate) mod tests;
