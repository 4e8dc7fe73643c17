//! Reads the direct endpoint that the host publishes, and sends the requests that check whether it is usable.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use kube::config::{AuthInfo, Cluster};
use kubectl_mc_api::direct::{self, CONFIG_MAP, NAMESPACE};
use kubectl_mc_api::path::PROXY_GROUP_VERSION;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::argv::Scanned;
use crate::cluster::client::{self, ClientError, Reply};
use crate::cluster::context::ClusterContext;
use crate::cluster::transport;
use crate::env::Env;
use crate::server_text::ServerText;

/// The published endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    pub(super) server: String,
    /// CA certificates (PEM); `None` means those of the system.
    authority: Option<String>,
}

/// Why the direct endpoint is not used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0}")]
    NotSuitable(&'static str),
    #[error("the host publishes no direct endpoint")]
    NotPublished,
    #[error("cannot read ConfigMap {NAMESPACE}/{CONFIG_MAP} of the host: {0}")]
    NotRead(ServerText),
    #[error("cannot reach {server}: {reason}")]
    NotReached { server: String, reason: ServerText },
    #[error("{server} does not accept the credential of the host")]
    NotAccepted { server: String },
    #[error("{0}")]
    Client(String),
    /// One of the above, found by an earlier command.
    #[error("{0} (found by an earlier command)")]
    Remembered(ServerText),
}

impl Fault {
    pub(super) fn client(error: ClientError) -> Self {
        Self::Client(crate::error::chain(&error))
    }
}

impl Endpoint {
    /// Reads the publication.
    pub(super) async fn read(host: &ClusterContext, scanned: &Scanned, env: &Env) -> Result<Self, Fault> {
        let path = direct::path();
        let reply = get(host, scanned, env, &path, READ_TIMEOUT)
            .await
            .map_err(|reason| Fault::NotRead(reason.into()))?;
        match reply.status {
            StatusCode::OK => Self::of(&reply).ok_or(Fault::NotPublished),
            // The Role for reading is created with the ConfigMap, so a refusal means that there is no
            // ConfigMap.
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => Err(Fault::NotPublished),
            _ => Err(Fault::NotRead(reply.message())),
        }
    }

    fn of(reply: &Reply) -> Option<Self> {
        let (server, authority) = direct::published(&reply.json())?;
        Some(Self { server: server.url().to_owned(), authority })
    }

    /// Whether the endpoint still accepts connections. Behind a proxy this cannot be checked.
    pub(super) fn connect(&self, env: &Env) -> Result<(), Fault> {
        let fault = |reason: String| Fault::NotReached { server: self.server.clone(), reason: reason.into() };
        let url: http::Uri =
            self.server.parse().map_err(|error: http::uri::InvalidUri| fault(error.to_string()))?;
        if transport::proxy_from_environment(&url, env).map_err(fault)?.is_some() {
            return Ok(());
        }
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
        let addresses = (host, url.port_u16().unwrap_or(443)).to_socket_addrs();
        let addresses: Vec<_> = addresses.map_err(|error| fault(error.to_string()))?.collect();
        let mut last = "no address".to_owned();
        for address in addresses.iter().take(MOST_ADDRESSES) {
            match TcpStream::connect_timeout(address, REACH_TIMEOUT / 2) {
                Ok(_) => return Ok(()),
                Err(error) => last = error.to_string(),
            }
        }
        Err(fault(last))
    }

    /// Whether the endpoint presents a certificate of its CA. Sends no credential.
    pub(super) async fn reach(&self, host: &ClusterContext, env: &Env) -> Result<(), Fault> {
        let mut context = self.context(host);
        for entry in &mut context.kubeconfig.auth_infos {
            entry.auth_info = Some(AuthInfo::default());
        }
        let answer = get(&context, &Scanned::default(), env, "/readyz", REACH_TIMEOUT).await;
        let reason = match answer {
            Ok(reply) if reply.status == StatusCode::OK => return Ok(()),
            Ok(reply) => reply.message(),
            Err(reason) => reason.into(),
        };
        Err(Fault::NotReached { server: self.server.clone(), reason })
    }

    /// Whether the endpoint authenticates the caller. Does not check the caller's rights.
    pub(super) async fn try_credential(
        &self,
        host: &ClusterContext,
        scanned: &Scanned,
        env: &Env,
    ) -> Result<(), Fault> {
        let path = format!("/apis/{PROXY_GROUP_VERSION}/clusters?limit=1");
        let server = self.server.clone();
        match get(&self.context(host), scanned, env, &path, READ_TIMEOUT).await {
            Ok(reply) if reply.status == StatusCode::UNAUTHORIZED => Err(Fault::NotAccepted { server }),
            Ok(_) => Ok(()),
            Err(reason) => Err(Fault::NotReached { server, reason: reason.into() }),
        }
    }

    /// The host's context with this server, for requests to members.
    pub(super) fn context(&self, host: &ClusterContext) -> ClusterContext {
        let cluster = Cluster {
            server: Some(self.server.clone()),
            certificate_authority_data: self.authority.as_ref().map(|pem| STANDARD.encode(pem)),
            proxy_url: host.cluster.proxy_url.clone(),
            disable_compression: host.cluster.disable_compression,
            extensions: host.cluster.extensions.clone(),
            ..Cluster::default()
        };
        host.clone().through(self.server.clone(), cluster)
    }
}

/// Sends a GET with a timeout.
async fn get(
    context: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
    path: &str,
    within: Duration,
) -> Result<Reply, String> {
    let answer = async {
        let client = client::connection(context, scanned, env).await?;
        client::get_by(&client, path, "application/json").await
    };
    match timeout(within, answer).await {
        Ok(answer) => answer.map_err(|error| error.reason()),
        Err(_) => Err(format!("no answer within {within:?}")),
    }
}

/// For a name with addresses in both families.
const MOST_ADDRESSES: usize = 2;
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Short enough for an interactive user, and only needed once every few minutes.
const REACH_TIMEOUT: Duration = Duration::from_millis(700);
