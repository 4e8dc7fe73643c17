//! Forwards requests to a hub's own API server. The sidecar serves the whole API group, answers the proxy to
//! members itself, and forwards all other requests with the caller's identity. The server accepts
//! this identity from the sidecar as it does from the host's front proxy, because of a client
//! certificate from a CA that only this server trusts.
//!
//! - [`agents`]: limits what an agent of Karmada may do
//! - [`agent_writes`]: sends the writes of agents in the form that these limits allow
//! - [`documents`]: discovery and OpenAPI of the group, cached while the server is unreachable

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, Limited};
use k8s_openapi::ByteString;
use kubectl_mc_api::direct::Server;
use kubectl_mc_api::{ClusterName, Hop};
use prometheus_client::metrics::gauge::Gauge;
use serde_json::Value;
use tokio::time::timeout_at;

use crate::endpoints::discovery::Documents;
use crate::head::headers::{self, HOP, Loop};
use crate::head::request_info::HubObjects;
use crate::identity::Identity;
use crate::identity::front_proxy_headers::Headers;
use crate::identity::impersonation::member;
use crate::limits::in_flight::{self, MemberBounds, Permit};
use crate::limits::upload::Upload;
use crate::outbound::body::Body;
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::outbound::upstream::connection::Connection;
use crate::outbound::upstream::outgoing::{self, Outgoing};
use crate::outbound::upstream::prepared::Prepared;
use crate::outbound::upstream::{self, MemberBody, Over, Upstream};

mod agent_writes;
mod agents;
mod documents;

use agents::{Action, Caller};

/// How to reach the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub server: Server,
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The namespace of the Secrets that Clusters reference.
    pub namespace: String,
}

/// The server behind the sidecar.
pub struct HubServer {
    config: Config,
    tunnels: Arc<AgentTunnels>,
    upstream: ArcSwap<Upstream>,
    files: ArcSwap<Data>,
    name: ClusterName,
    bounds: MemberBounds,
}

type Data = BTreeMap<String, ByteString>;

impl HubServer {
    /// # Errors
    ///
    /// A file cannot be read, or its content is not what its flag requires.
    pub fn new(
        config: Config,
        tunnels: &Arc<AgentTunnels>,
        bounds: MemberBounds,
    ) -> Result<Arc<Self>, ConfigError> {
        let files = config.read()?;
        let name: ClusterName = NAME.parse().map_err(|_| ConfigError::Name)?;
        let upstream = upstream(name.clone(), &files, tunnels)?;
        let (upstream, files) = (ArcSwap::from_pointee(upstream), ArcSwap::from_pointee(files));
        Ok(Arc::new(Self { config, tunnels: tunnels.clone(), upstream, files, name, bounds }))
    }

    /// Admits a request. A slow server can take at most the share of one member.
    pub async fn admit(
        &self,
        caller: in_flight::Caller,
        due: Option<Instant>,
    ) -> Result<Permit, in_flight::Error> {
        self.bounds.admit(&self.name, caller, due).await
    }

    /// Keeps the group's documents and the certificates up to date, until the process ends.
    pub async fn follow(self: Arc<Self>, published: Arc<ArcSwap<Documents>>) {
        documents::follow(&self, &published).await;
    }

    /// Forwards a request and streams the answer. The head must arrive before the request is `due`, if it has
    /// a deadline.
    pub async fn respond(
        &self,
        objects: &HubObjects,
        request: Request<Upload>,
        identity: &Identity,
        due: Option<Instant>,
    ) -> Result<Response<Body>, Error> {
        let caller = Caller::of(identity)?;
        let (parts, body) = request.into_parts();
        let answered = async {
            let (path, query) = (objects.path.as_str(), parts.uri.query());
            let action = match caller {
                Caller::Agent(cluster) => Some((cluster, Action::parse(cluster, objects)?)),
                Caller::Any => None,
            };
            match action {
                Some((cluster, Action::Collection)) => {
                    let query = agents::own_only(cluster, query);
                    self.forward(&parts, path, Some(&query), identity, outgoing::callers(body)).await
                }
                Some((cluster, Action::Write(part))) => {
                    agent_writes::respond(self, cluster, part, &parts, identity, body).await
                }
                Some((_, Action::Read | Action::Delete)) | None => {
                    self.forward(&parts, path, query, identity, outgoing::callers(body)).await
                }
            }
        };
        let mut response = match due {
            None => answered.await?,
            Some(due) => timeout_at(due.into(), answered).await.unwrap_or(Err(Error::Late))?,
        };
        headers::clean_response(response.headers_mut(), false);
        response.headers_mut().insert(HOP, HeaderValue::from_static(Hop::KarmadaServer.as_str()));
        Ok(response)
    }

    /// Sends a request. A read is sent once more if the connection had already been closed (RFC
    /// 9112, 9.3.1).
    async fn forward(
        &self,
        parts: &Parts,
        path: &str,
        query: Option<&str>,
        identity: &Identity,
        body: Outgoing,
    ) -> Result<Response<Body>, Error> {
        let is_safe = matches!(parts.method, Method::GET | Method::HEAD) && body.is_end_stream();
        let upstream = self.upstream.load_full();
        let prepare = |body| {
            let mut sent = headers::forwarded(&parts.headers, false);
            sent.insert(header::VIA, headers::via(&parts.headers, parts.version)?);
            prepared(&upstream, parts.method.clone(), path, query, sent, identity, body)
        };
        let mut answered = upstream.send(prepare(body)?, Over::Any).await;
        if is_safe && matches!(answered, Err(upstream::Error::Stale { .. })) {
            answered = upstream.send(prepare(outgoing::nothing())?, Over::New).await;
        }
        Ok(answered?.map(Body::Upstream))
    }

    /// A document of the server, as this user may read it; `None` if it does not exist.
    async fn get(&self, path: &str, identity: &Identity) -> Result<Option<Value>, Error> {
        let bytes = self.get_as(path, "application/json", identity).await?;
        bytes
            .map(|bytes| serde_json::from_slice(&bytes))
            .transpose()
            .map_err(|_| Error::invalid("it sent no JSON"))
    }

    async fn get_as(
        &self,
        path: &str,
        accept: &'static str,
        identity: &Identity,
    ) -> Result<Option<Bytes>, Error> {
        let response = self.ask(path, accept, identity).await?;
        match response.status() {
            StatusCode::OK => Ok(Some(whole(response).await?)),
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(Error::Invalid(format!("it answered {status} to GET {path}"))),
        }
    }

    /// The server's answer to a GET of this user.
    async fn ask(
        &self,
        path: &str,
        accept: &'static str,
        identity: &Identity,
    ) -> Result<Response<MemberBody>, Error> {
        let upstream = self.upstream.load_full();
        let ask = || {
            let mut sent = HeaderMap::new();
            sent.insert(header::ACCEPT, HeaderValue::from_static(accept));
            prepared(&upstream, Method::GET, path, None, sent, identity, outgoing::nothing())
        };
        let mut answered = upstream.send(ask()?, Over::Any).await;
        if matches!(answered, Err(upstream::Error::Stale { .. })) {
            answered = upstream.send(ask()?, Over::New).await;
        }
        Ok(answered?)
    }

    /// Loads new certificates.
    fn reload(&self) -> Result<(), ConfigError> {
        let files = self.config.read()?;
        if files != **self.files.load() {
            self.upstream.store(Arc::new(upstream(self.name.clone(), &files, &self.tunnels)?));
            self.files.store(Arc::new(files));
        }
        Ok(())
    }
}

/// The document in an answer.
async fn whole(response: Response<MemberBody>) -> Result<Bytes, Error> {
    let body = Limited::new(response.into_body(), MAX_DOCUMENT).collect().await;
    Ok(body.map_err(|error| Error::Invalid(error.to_string()))?.to_bytes())
}

fn prepared(
    upstream: &Upstream,
    method: Method,
    path: &str,
    query: Option<&str>,
    headers: HeaderMap,
    identity: &Identity,
    body: Outgoing,
) -> Result<Prepared, Error> {
    let uri = upstream.connection().target(path, query).map_err(upstream::Error::Target)?;
    let request = outgoing::request(method, uri, headers, body);
    Ok(Prepared::for_hub_server(request, upstream.connection(), &Headers::new(identity)?)?)
}

fn upstream(name: ClusterName, files: &Data, tunnels: &Arc<AgentTunnels>) -> Result<Upstream, ConfigError> {
    let connection = Connection::parse(files)?;
    Ok(Upstream::new(name, connection, Gauge::default(), tunnels)?)
}

impl Config {
    /// The files, in the format of a member's Secret.
    fn read(&self) -> Result<Data, ConfigError> {
        let file = |key: &str, flag: &'static str, path: &Path| {
            let read = std::fs::read(path);
            let data = read.map_err(|error| ConfigError::File { flag, path: path.to_owned(), error })?;
            Ok::<_, ConfigError>((key.to_owned(), ByteString(data)))
        };
        Ok(BTreeMap::from([
            ("server".to_owned(), ByteString(self.server.to_string().into_bytes())),
            file("ca.crt", "karmada-server-ca-file", &self.ca)?,
            file("tls.crt", "karmada-server-client-certificate", &self.certificate)?,
            file("tls.key", "karmada-server-client-key", &self.key)?,
        ]))
    }
}

/// Why no connection to the server can be configured.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("--{flag}: cannot read {}: {error}", path.display())]
    File { flag: &'static str, path: PathBuf, error: std::io::Error },
    #[error("the connection to {NAME}: {0}")]
    Connection(#[from] upstream::connection::Error),
    #[error("{NAME} is not a name")]
    Name,
}

/// Why the hub's server did not answer a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{NAME} is unreachable: {0}")]
    Unreachable(String),
    #[error("{NAME} did not answer before the request's deadline")]
    Late,
    #[error(
        "{NAME} does not accept the sidecar as a front proxy: the file of its --requestheader-client-ca-file must have \
         the CA of the sidecar's --karmada-server-client-certificate"
    )]
    Untrusted,
    #[error("{NAME} sent an invalid response: {0}")]
    Invalid(String),
    #[error("the request's body ended early")]
    BrokenBody,
    #[error(
        "Operation cannot be fulfilled on clusters.cluster.karmada.io {0:?}: the object has been modified; \
         please apply your changes to the latest version and try again"
    )]
    Conflict(String),
    #[error(transparent)]
    Refused(#[from] agents::Refused),
    #[error(transparent)]
    Identity(#[from] member::Error),
    #[error(transparent)]
    Loop(#[from] Loop),
}

impl Error {
    fn invalid(what: &str) -> Self {
        Self::Invalid(what.to_owned())
    }
}

impl From<upstream::Error> for Error {
    fn from(error: upstream::Error) -> Self {
        match error {
            upstream::Error::Credential { .. } => Self::Untrusted,
            upstream::Error::Unreachable { reason, .. } | upstream::Error::Stale { reason, .. } => {
                Self::Unreachable(reason)
            }
            upstream::Error::Open { cause, .. } => Self::Unreachable(cause.to_string()),
            upstream::Error::Malformed { reason, .. } => Self::Invalid(reason),
            upstream::Error::Redirect { status, .. } => Self::Invalid(format!("it redirects ({status})")),
            other => Self::Invalid(other.to_string()),
        }
    }
}

pub use agents::Refused;

/// The name of Karmada's server.
const NAME: &str = Hop::KarmadaServer.as_str();
/// The group's OpenAPI version 2 has about 200 KiB.
const MAX_DOCUMENT: usize = 8 * 1024 * 1024;
/// Interval between reloads of the documents and the certificates.
const INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
