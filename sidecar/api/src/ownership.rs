//! Decides whether a request of a Karmada agent touches only objects of its own cluster. The decision is a
//! pure function of the caller and the request. It does no lookups, so it never depends on stale data.
//!
//! It denies or has no opinion, and never allows: RBAC grants. A request that matches no row of the table is
//! denied. The attributes are those of a SubjectAccessReview (authorization.k8s.io/v1).
//!
//! - [`subject`]: the user names of agents, as `karmadactl register` writes them into certificates
//! - [`table`]: the requests that an agent needs, by kind, verb, place and name
//! - [`generator`]: the same for the identity that `karmadactl register` uses to create an agent's RBAC
//! - [`rbac`]: the roles and bindings that grant an agent these requests
//! - [`registration`]: the wider rules that `karmadactl register` writes
//! - [`matrix`]: requests of every kind, verb and target, to test and to verify a host

use std::fmt;

pub mod generator;
pub mod matrix;
pub mod rbac;
pub mod registration;
pub mod subject;
pub mod table;

use crate::name::is_label;
use subject::Subject;
use table::{Names, Place};

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

/// Why a layout does not keep the objects of clusters apart.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidLayout {
    #[error("{0:?} is no name of a namespace")]
    NoNamespace(String),
    #[error("{0:?} would be the execution namespace of a cluster")]
    Execution(String),
    #[error("the clusters and the agents need two namespaces, and both are {0:?}")]
    Same(String),
}

/// A request, as an authorizer sees it.
#[derive(Clone, Copy, Debug)]
pub enum Attributes<'a> {
    Resource(Resource<'a>),
    NonResource { verb: &'a str, path: &'a str },
}

/// A request for an object or a list. Absent values are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resource<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub selection: Selection<'a>,
}

/// The selection of a list's field selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection<'a> {
    /// There is no field selector, or the host does not send it (before Kubernetes 1.32).
    #[default]
    Everything,
    /// Exactly `metadata.name=NAME`.
    Name(&'a str),
    /// Any other selector.
    Other,
}

/// The answer of the authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The next authorizer decides.
    NoOpinion,
    Deny(Reason),
}

/// Why a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    UnknownSubject,
    NotNeeded,
    OtherNamespace,
    OtherObject,
    WithoutSelector,
    OtherPath,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownSubject => {
                "the user and its groups are not those of one cluster's agent (system:karmada:agent:CLUSTER in \
                 system:karmada:agents)"
            }
            Self::NotNeeded => "an agent does not need this verb on this resource",
            Self::OtherNamespace => "the namespace is not one in which the agent's cluster has this kind",
            Self::OtherObject => "the object does not belong to the agent's cluster",
            Self::WithoutSelector => {
                "the agent may list and watch only its own object: fieldSelector metadata.name=CLUSTER"
            }
            Self::OtherPath => "an agent may get only discovery and health checks",
        })
    }
}

/// Decides about a request of this user, who is in these groups.
pub fn decide<G: AsRef<str>>(
    layout: &Layout,
    user: &str,
    groups: &[G],
    attributes: &Attributes<'_>,
) -> Decision {
    let subject = match Subject::parse(user, groups) {
        Subject::NoAgent => return Decision::NoOpinion,
        Subject::Unknown => return Decision::Deny(Reason::UnknownSubject),
        subject @ (Subject::Agent(_) | Subject::Generator) => subject,
    };
    match attributes {
        Attributes::NonResource { verb, path } => {
            if *verb == "get" && is_public(path) {
                Decision::NoOpinion
            } else {
                Decision::Deny(Reason::OtherPath)
            }
        }
        Attributes::Resource(request) if table::is_self_review(request) => Decision::NoOpinion,
        Attributes::Resource(request) => match subject {
            Subject::Agent(cluster) => agent(layout, cluster, request),
            _ => generator::decide(layout, request),
        },
    }
}

/// Rows for the same kind and verb differ in place and name; one matching row is enough.
fn agent(layout: &Layout, cluster: &str, request: &Resource<'_>) -> Decision {
    let mut reason = Reason::NotNeeded;
    for row in table::AGENT.iter().filter(|row| row.is_about(request)) {
        if !row.place.holds(layout, cluster, request.namespace) {
            if reason == Reason::NotNeeded {
                reason = Reason::OtherNamespace;
            }
            continue;
        }
        match names(layout, cluster, row.names, request) {
            Ok(()) => return Decision::NoOpinion,
            Err(other) => reason = other,
        }
    }
    Decision::Deny(reason)
}

fn names(layout: &Layout, cluster: &str, names: Names, request: &Resource<'_>) -> Result<(), Reason> {
    let is_own = |name: &str| names.holds(cluster, name);
    let is_right = match request.verb {
        // A POST has no name in its attributes. The host's admission checks the name of the new object.
        "create" => request.name.is_empty() || is_own(request.name),
        "list" | "watch" if names == Names::Any => true,
        "list" | "watch" => {
            let is_all_allowed = names == Names::Cluster && layout.agents_list_clusters;
            // The host copies the name from the selector, even if it does not send the selector itself.
            let is_selected = match request.selection {
                Selection::Name(name) => is_own(name) && (request.name.is_empty() || is_own(request.name)),
                Selection::Everything => !request.name.is_empty() && is_own(request.name),
                Selection::Other => false,
            };
            return if is_all_allowed || is_selected { Ok(()) } else { Err(Reason::WithoutSelector) };
        }
        _ => !request.name.is_empty() && is_own(request.name),
    };
    if is_right { Ok(()) } else { Err(Reason::OtherObject) }
}

impl Place {
    fn holds(self, layout: &Layout, cluster: &str, namespace: &str) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Cluster => namespace.is_empty(),
            Self::ClusterNamespace => namespace == layout.cluster_namespace,
            Self::AgentNamespace => namespace == layout.agent_namespace,
            Self::Execution => namespace.strip_prefix(EXECUTION) == Some(cluster),
            Self::Default => namespace == "default",
        }
    }
}

/// Discovery and health checks, as `system:discovery` and `system:public-info-viewer` grant them.
fn is_public(path: &str) -> bool {
    const EXACT: [&str; 8] =
        ["/api", "/apis", "/openapi", "/version", "/version/", "/healthz", "/livez", "/readyz"];
    const BELOW: [&str; 6] = ["/api/", "/apis/", "/openapi/", "/healthz/", "/livez/", "/readyz/"];
    let is_plain = !path.split('/').any(|segment| segment == ".." || segment == ".");
    is_plain && (EXACT.contains(&path) || BELOW.iter().any(|prefix| path.starts_with(prefix)))
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
/// The annotation with the cluster that an object belongs to.
pub const OWNER: &str = "clusterrestriction.karmada.io/owner";

/// The paths of the admission webhooks.
pub mod admission_path {
    /// Validates CertificateSigningRequests.
    pub const ENROLLMENT: &str = "/enrollment";
    /// Sets the owner annotation.
    pub const OWNER: &str = "/owner";
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
