//! Lists the requests that an agent needs (karmada: `pkg/karmadactl/register/register.go`,
//! `cmd/agent/app/agent.go`, `pkg/controllers/certificate`). The decision and the generated RBAC use this
//! table.

use super::layout::EXECUTION;
use super::request::Resource;
use super::subject::IMPERSONATOR;

/// The verbs that an agent needs on one kind in one place.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: &'static str,
    pub verbs: &'static [&'static str],
    pub place: Place,
    pub names: Names,
}

/// Where the objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In no namespace.
    Cluster,
    /// In the namespace of the clusters' Secrets.
    ClusterNamespace,
    /// In the namespace of the agents' election Leases.
    AgentNamespace,
    /// In the namespace of the cluster's Works.
    Execution,
    Default,
    /// In each namespace and across all namespaces.
    Everywhere,
}

/// The objects' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Any,
    /// `CLUSTER`
    Cluster,
    /// `CLUSTER` and `CLUSTER-impersonator`
    Secrets,
    /// `karmada-agent-CLUSTER`
    Election,
    /// `CLUSTER-` and five random characters
    Request,
    /// Any except the execution namespaces of other clusters.
    Namespaces,
}

impl Row {
    /// Whether the row is about the kind and the verb of a request.
    pub fn is_about(&self, request: &Resource<'_>) -> bool {
        self.group == request.group
            && self.resource == request.resource
            && self.subresource == request.subresource
            && self.verbs.contains(&request.verb)
    }

    /// `clusters.cluster.karmada.io/status`
    pub fn kind(&self) -> String {
        kind(self.group, self.resource, self.subresource)
    }
}

impl Names {
    /// Whether an object of this name belongs to the cluster.
    pub(super) fn holds(self, cluster: &str, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Cluster => name == cluster,
            Self::Secrets => name == cluster || name.strip_suffix(IMPERSONATOR) == Some(cluster),
            Self::Election => name.strip_prefix(ELECTION) == Some(cluster),
            Self::Request => {
                let rest = name.strip_prefix(cluster).and_then(|rest| rest.strip_prefix('-'));
                rest.is_some_and(|rest| rest.len() == 5 && rest.bytes().all(|b| b.is_ascii_alphanumeric()))
            }
            Self::Namespaces => name.strip_prefix(EXECUTION).is_none_or(|owner| owner == cluster),
        }
    }

    /// The names, if there is a fixed list of them.
    pub fn listed(self, cluster: &str) -> Option<Vec<String>> {
        match self {
            Self::Any | Self::Request | Self::Namespaces => None,
            Self::Cluster => Some(vec![cluster.to_owned()]),
            Self::Secrets => Some(vec![cluster.to_owned(), format!("{cluster}{IMPERSONATOR}")]),
            Self::Election => Some(vec![format!("{ELECTION}{cluster}")]),
        }
    }
}

/// The name of a kind, as RBAC and kubectl write it.
pub(super) fn kind(group: &str, resource: &str, subresource: &str) -> String {
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    let subresource = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
    format!("{resource}{group}{subresource}")
}

/// Whether the request is a self review (SelfSubjectAccessReview and others).
pub(super) fn is_self_review(request: &Resource<'_>) -> bool {
    request.verb == "create"
        && request.subresource.is_empty()
        && matches!(
            (request.group, request.resource),
            ("authorization.k8s.io", "selfsubjectaccessreviews" | "selfsubjectrulesreviews")
                | ("authentication.k8s.io", "selfsubjectreviews")
        )
}

/// All requests that an agent needs in addition to discovery and self reviews.
#[rustfmt::skip]
pub const AGENT: &[Row] = &[
    row(CLUSTER, "clusters", "", &["get", "list", "watch", "create", "delete"], Place::Cluster, Names::Cluster),
    row(CLUSTER, "clusters", "status", &["update"], Place::Cluster, Names::Cluster),
    row("", "secrets", "", &["get", "create", "patch"], Place::ClusterNamespace, Names::Secrets),
    row(LEASES, "leases", "", &["get", "create", "update"], Place::ClusterNamespace, Names::Cluster),
    row(LEASES, "leases", "", &["get", "create", "update"], Place::AgentNamespace, Names::Election),
    row(WORK, "works", "", &["get", "list", "watch", "create", "update", "delete"], Place::Execution, Names::Any),
    row(WORK, "works", "status", &["update", "patch"], Place::Execution, Names::Any),
    row(CSR, "certificatesigningrequests", "", &["get", "create"], Place::Cluster, Names::Request),
    // Karmada's approver checks whether the requester may renew its own certificate.
    row(CSR, "certificatesigningrequests", "selfclusteragent", &["create"], Place::Cluster, Names::Any),
    row(CONFIG, "resourceinterpreterwebhookconfigurations", "", READ, Place::Cluster, Names::Any),
    row(CONFIG, "resourceinterpretercustomizations", "", READ, Place::Cluster, Names::Any),
    // An authorizer sees a request for a namespace with that namespace in its attributes.
    row("", "namespaces", "", &["get"], Place::Everywhere, Names::Namespaces),
    row("", "services", "", &["list", "watch"], Place::Everywhere, Names::Any),
    row("", "events", "", &["create", "update", "patch"], Place::Execution, Names::Any),
    row("", "events", "", &["create", "update", "patch"], Place::Default, Names::Any),
];

const fn row(
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    verbs: &'static [&'static str],
    place: Place,
    names: Names,
) -> Row {
    Row { group, resource, subresource, verbs, place, names }
}

const READ: &[&str] = &["get", "list", "watch"];
const CLUSTER: &str = "cluster.karmada.io";
const WORK: &str = "work.karmada.io";
const CONFIG: &str = "config.karmada.io";
const CSR: &str = "certificates.k8s.io";
const LEASES: &str = "coordination.k8s.io";
/// The prefix of the Lease by which the replicas of one agent elect a leader.
const ELECTION: &str = "karmada-agent-";
