//! The namespaces of a Karmada installation.

use crate::name::is_label;

/// The settings of a Karmada installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The namespace of the clusters' Secrets and heartbeat Leases (`karmadactl register
    /// --cluster-namespace`).
    pub cluster_namespace: String,
    /// The namespace of the agents' election Leases (`karmadactl register --namespace`).
    pub agent_namespace: String,
    /// Whether agents may list and watch the Cluster objects of all clusters, as karmada-agent does.
    pub agents_list_clusters: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            cluster_namespace: CLUSTER_NAMESPACE.to_owned(),
            agent_namespace: AGENT_NAMESPACE.to_owned(),
            agents_list_clusters: false,
        }
    }
}

impl Layout {
    /// Refuses namespaces in which two clusters would have an object of the same name.
    ///
    /// # Errors
    /// A namespace is not a DNS label, is an execution namespace, or both are the same.
    pub fn checked(self) -> Result<Self, InvalidLayout> {
        for namespace in [&self.cluster_namespace, &self.agent_namespace] {
            if !is_label(namespace) {
                return Err(InvalidLayout::NoNamespace(namespace.clone()));
            }
            if namespace.starts_with(EXECUTION) {
                return Err(InvalidLayout::Execution(namespace.clone()));
            }
        }
        if self.cluster_namespace == self.agent_namespace {
            return Err(InvalidLayout::Same(self.cluster_namespace));
        }
        Ok(self)
    }
}

/// Why a layout does not separate the objects of clusters.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidLayout {
    #[error("{0:?} is no name of a namespace")]
    NoNamespace(String),
    #[error("{0:?} would be the execution namespace of a cluster")]
    Execution(String),
    #[error("the clusters and the agents need two namespaces, and both are {0:?}")]
    Same(String),
}

/// The namespace of a cluster's Works.
pub fn execution_namespace(cluster: &str) -> String {
    format!("{EXECUTION}{cluster}")
}

/// The prefix of the namespaces of the clusters' Works.
pub(crate) const EXECUTION: &str = "karmada-es-";
/// Karmada's default.
pub const CLUSTER_NAMESPACE: &str = crate::origin::KARMADA_NAMESPACE;
/// Karmada's default.
pub const AGENT_NAMESPACE: &str = "karmada-system";
