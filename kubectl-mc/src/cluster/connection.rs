//! Opens a connection to the cluster of a kubeconfig context, with the caller's credential, for the verbs
//! that write.

use crate::argv::Scanned;
use crate::cluster::client;
use crate::cluster::context::ClusterContext;
use crate::cluster::context::HostOptions;
use crate::env::Env;
use crate::error::{Context, Failure};

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
pub(crate) async fn connect(options: &HostOptions, env: &Env) -> Result<Connection, Failure> {
    to(ClusterContext::load(options, env)?, env).await
}

/// Connects to a cluster whose context is already loaded.
pub(crate) async fn to(cluster: ClusterContext, env: &Env) -> Result<Connection, Failure> {
    let client = client::connection(&cluster, &Scanned::default(), env).await;
    let client = client.context(|| format!("cannot use {}", cluster.context_name()))?;
    Ok(Connection { client, cluster })
}

/// Runs a command that sends requests. Only such commands start an async runtime.
pub(crate) fn run<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context(|| "cannot start")?.block_on(command)
}
