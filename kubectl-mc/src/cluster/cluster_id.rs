//! Identifies a cluster of a command: a member behind the host, or the cluster of a kubeconfig context.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kubectl_mc_api::ClusterName;

use crate::cluster::context::cluster_context::ClusterContext;
use crate::server_text::escaped;

/// A cluster that commands run on.
#[derive(Clone, Debug)]
pub(crate) enum ClusterId {
    /// Reached through the host.
    Member(ClusterName),
    /// Reached as kubectl reaches it, without a host.
    Context(Arc<KubeconfigContext>),
}

/// A context of the kubeconfig. Its name may contain any character.
#[derive(Debug)]
pub(crate) struct KubeconfigContext {
    name: String,
    label: String,
    pub(crate) cluster: ClusterContext,
}

impl KubeconfigContext {
    pub(crate) fn new(name: &str, cluster: ClusterContext) -> Self {
        Self { name: name.to_owned(), label: escaped(name), cluster }
    }

    /// Whether this is an unreadable file, which takes the place of its contexts.
    pub(crate) fn is_unread_file(&self) -> bool {
        self.cluster.context.is_none() && self.cluster.check_usable().is_err()
    }

    /// The name as in the kubeconfig, prefixed with the file's name if files of `--kubeconfig-dir`
    /// have equal names. It is unescaped, so never print it to a terminal.
    pub(crate) fn raw_name(&self) -> &str {
        &self.name
    }
}

impl ClusterId {
    /// The displayed name.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Member(name) => name.as_str(),
            Self::Context(context) => &context.label,
        }
    }

    /// The name in the notation of `--cluster`, independent of other flags.
    pub(crate) fn as_term(&self) -> String {
        match self {
            Self::Member(name) => name.to_string(),
            Self::Context(context) => format!("{CONTEXT_PREFIX}{}", context.name),
        }
    }

    /// The flag that makes `--cluster` accept the displayed name.
    pub(crate) fn contexts_flag(&self) -> &'static str {
        match self {
            Self::Member(_) => "",
            Self::Context(_) => "--contexts ",
        }
    }

    /// The name of the member, if it is one.
    pub(crate) fn member(&self) -> Option<&ClusterName> {
        match self {
            Self::Member(name) => Some(name),
            Self::Context(_) => None,
        }
    }

    /// The context, if it is one.
    pub(crate) fn context(&self) -> Option<&KubeconfigContext> {
        match self {
            Self::Member(_) => None,
            Self::Context(context) => Some(context),
        }
    }

    /// The path of the cluster's API below the server of its context.
    pub(crate) fn root(&self, through: &ClusterContext) -> String {
        self.member().map(|name| through.hub.root(name)).unwrap_or_default()
    }

    /// Sorts members before contexts, each by name.
    fn key(&self) -> (bool, &str) {
        match self {
            Self::Member(name) => (false, name.as_str()),
            Self::Context(context) => (true, &context.name),
        }
    }
}

impl From<ClusterName> for ClusterId {
    fn from(name: ClusterName) -> Self {
        Self::Member(name)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for ClusterId {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ClusterId {}

impl PartialOrd for ClusterId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ClusterId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Hash for ClusterId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

#[cfg(test)]
impl std::str::FromStr for ClusterId {
    type Err = kubectl_mc_api::InvalidClusterName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::Member)
    }
}

/// Prefix of a `--cluster` term for contexts. Cluster names never contain a colon.
pub(crate) const CONTEXT_PREFIX: &str = "context:";
