//! Determines how the clusters of a command are reached: members through the host, and contexts as kubectl
//! reaches them.

use jiff::Timestamp;

use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::{ClusterContext, User};
use crate::error::Failure;

/// The host of a command.
#[derive(Clone, Debug)]
pub(crate) struct HostReach {
    /// The host itself, with the caller's credential.
    pub(crate) host: ClusterContext,
    /// The context for requests to members, with the caller's credential.
    pub(crate) through: ClusterContext,
    /// The same context before a credential plugin ran.
    pub(crate) found: ClusterContext,
}

impl HostReach {
    /// A host to which no request is sent.
    pub(crate) fn unused(host: &ClusterContext) -> Self {
        Self { host: host.clone(), through: host.clone(), found: host.clone() }
    }

    /// When the credential of a plugin expires, if the plugin has named a time.
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        if let User::Inline(_, _, expires) = self.through.user { expires } else { None }
    }

    /// The context whose credential plugin supplied the credential, if any. The plugin can supply a new one.
    pub(crate) fn plugin(&self) -> Option<&ClusterContext> {
        matches!(self.through.user, User::Inline(..)).then_some(&self.found)
    }
}

/// The routes to all clusters of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    /// `None` if all clusters are contexts.
    pub(crate) host: Option<HostReach>,
}

impl Reach {
    /// The context that reaches a cluster.
    pub(crate) fn of<'a>(&'a self, cluster: &'a ClusterId) -> Result<&'a ClusterContext, Failure> {
        match (cluster, &self.host) {
            (ClusterId::Context(context), _) => Ok(&context.cluster),
            (ClusterId::Member(_), Some(host)) => Ok(&host.through),
            (ClusterId::Member(name), None) => {
                Err(Failure::new(format!("internal error: no host was found for cluster {name}")))
            }
        }
    }

    /// `host "context" (server)`, for messages.
    pub(crate) fn describe(&self) -> String {
        self.host.as_ref().map_or_else(|| "your kubeconfig".to_owned(), |host| host.host.describe())
    }
}
