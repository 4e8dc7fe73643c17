//! How the clusters of a command are reached: members through the host, contexts as kubectl reaches them.

use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::{ClusterContext, User};
use crate::error::Explain;

/// The host of a command.
#[derive(Clone, Debug)]
pub(crate) struct HostReach {
    /// The host itself, with the caller's credential.
    pub(crate) host: ClusterContext,
    /// The context by which members are reached, with the caller's credential.
    pub(crate) through: ClusterContext,
    /// The same before a credential plugin was run for it.
    pub(crate) found: ClusterContext,
}

impl HostReach {
    /// A host to which nothing is sent.
    pub(crate) fn unused(host: &ClusterContext) -> Self {
        Self { host: host.clone(), through: host.clone(), found: host.clone() }
    }

    /// The context whose credential plugin gave the credential, if one did: it can give another.
    pub(crate) fn plugin(&self) -> Option<&ClusterContext> {
        matches!(self.through.user, User::Inline(..)).then_some(&self.found)
    }
}

/// The ways to all clusters of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    /// None when all clusters are contexts.
    pub(crate) host: Option<HostReach>,
}

impl Reach {
    /// The context by which a cluster is reached.
    pub(crate) fn of<'a>(&'a self, cluster: &'a ClusterId) -> Result<&'a ClusterContext, NoHost> {
        match (cluster, &self.host) {
            (ClusterId::Context(context), _) => Ok(&context.cluster),
            (ClusterId::Member(_), Some(host)) => Ok(&host.through),
            (ClusterId::Member(name), None) => Err(NoHost { cluster: name.to_string() }),
        }
    }

    /// `host "context" (server)`, for messages.
    pub(crate) fn describe(&self) -> String {
        self.host.as_ref().map_or_else(|| "your kubeconfig".to_owned(), |host| host.host.describe())
    }
}

/// A defect of this program: the host is found whenever a member is chosen.
#[derive(Debug, thiserror::Error)]
#[error("internal error: no host was found for cluster {cluster}")]
pub(crate) struct NoHost {
    cluster: String,
}

impl Explain for NoHost {}
