//! Opens a connection to the cluster of a kubeconfig context, with the caller's credential, for the verbs
//! that write.

use crate::argv::Scanned;
use crate::cluster::client::{self, ClientError};
use crate::cluster::context::HostOptions;
use crate::cluster::context::{ClusterContext, HostError};
use crate::env::Env;
use crate::error::{Explain, Failure};

/// A cluster with an open connection.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: kube::Client,
    /// The context of the cluster.
    pub(crate) cluster: ClusterContext,
}

/// A cluster to write to, and its role in the command, for messages.
#[derive(Clone, Copy)]
pub(crate) struct NamedCluster<'a> {
    /// `host` or `member`.
    pub(crate) role: &'static str,
    pub(crate) at: &'a Connection,
}

impl Connection {
    pub(crate) fn target(&self, role: &'static str) -> NamedCluster<'_> {
        NamedCluster { role, at: self }
    }
}

impl NamedCluster<'_> {
    /// For messages: `member, context "m1" (https://…)`.
    pub(crate) fn describe(&self) -> String {
        format!("{}, {}", self.role, self.at.cluster.context_name())
    }
}

/// Connects to the cluster of a context: the named one, the current one, or the pod's own cluster.
pub(crate) async fn connect(options: &HostOptions, env: &Env) -> Result<Connection, ConnectError> {
    to(ClusterContext::load(options, env)?, env).await
}

/// Connects to a cluster whose context is already loaded.
pub(crate) async fn to(cluster: ClusterContext, env: &Env) -> Result<Connection, ConnectError> {
    match client::connection(&cluster, &Scanned::default(), env).await {
        Ok(client) => Ok(Connection { client, cluster }),
        Err(source) => Err(ConnectError::Client { context: cluster.context_name(), source }),
    }
}

/// Runs a command that sends requests. Only such commands start an async runtime.
pub(crate) fn run<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(ConnectError::Runtime)?.block_on(command)
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Context(#[from] HostError),
    #[error("cannot use {context}")]
    Client { context: String, source: ClientError },
    #[error("cannot start")]
    Runtime(#[source] std::io::Error),
}

impl ConnectError {
    /// The same connection for a context that is not the host of the command.
    pub(crate) fn in_role(self, role: &'static str) -> Self {
        match self {
            Self::Context(error) => Self::Context(error.in_role(role)),
            error => error,
        }
    }
}

impl Explain for ConnectError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Context(error) => error.hint(),
            Self::Client { .. } | Self::Runtime(_) => None,
        }
    }

    fn status(&self) -> crate::exit::ExitStatus {
        match self {
            Self::Context(error) => error.status(),
            Self::Client { .. } | Self::Runtime(_) => crate::exit::ExitStatus::Failed,
        }
    }
}
