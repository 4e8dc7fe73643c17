//! Lists requests of every kind, verb and target, for the golden file of the decision and for the reviews
//! that verify a host.

use super::table::kind;
use super::{Attributes, Decision, Layout, Resource, Selection, decide, execution_namespace, subject};

/// One request of a cluster's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: &'static str,
    pub namespace: String,
    pub name: String,
    pub target: Target,
    /// A label that distinguishes the objects of one kind.
    pub object: &'static str,
}

/// The object that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The object of the agent's own cluster.
    Own,
    /// The object of another cluster.
    Other,
    /// An object of no cluster, in the namespace of the own object.
    Absent,
    /// No name, in the namespace of the own object.
    None,
    /// No name and no namespace.
    All,
}

impl Target {
    pub fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Other => "other's",
            Self::Absent => "absent",
            Self::None => "none",
            Self::All => "all",
        }
    }
}

impl Cell {
    /// The request as an authorizer sees it.
    pub fn attributes(&self) -> Attributes<'_> {
        let is_list = ["list", "watch"].contains(&self.verb);
        Attributes::Resource(Resource {
            verb: self.verb,
            group: self.group,
            resource: self.resource,
            subresource: self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            selection: match is_list && !self.name.is_empty() {
                true => Selection::Name(&self.name),
                false => Selection::Everything,
            },
        })
    }

    /// The decision about the request for the agent of this cluster.
    pub fn decide(&self, layout: &Layout, cluster: &str) -> Decision {
        decide(layout, &subject::user(cluster), &[subject::GROUP], &self.attributes())
    }

    /// `clusters.cluster.karmada.io/status`
    pub fn kind(&self) -> String {
        kind(self.group, self.resource, self.subresource)
    }
}

/// All requests of the agent of `cluster` about these subresources, with `other` as the other cluster.
pub fn cells(layout: &Layout, cluster: &str, other: &str, subresources: &[&'static str]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for object in OBJECTS {
        for subresource in subresources {
            for target in TARGETS {
                let ((namespace, name), (_, others)) =
                    ((object.place)(layout, cluster), (object.place)(layout, other));
                // The object of another cluster is in that cluster's namespace.
                let others_namespace = (object.place)(layout, other).0;
                let (namespace, name) = match target {
                    Target::Own => (namespace, name),
                    Target::Other => (others_namespace, others),
                    Target::Absent => (namespace, "absent".to_owned()),
                    Target::None => (namespace, String::new()),
                    Target::All if namespace.is_empty() => continue,
                    Target::All => (String::new(), String::new()),
                };
                cells.extend(VERBS.iter().map(|&verb| Cell {
                    verb,
                    group: object.group,
                    resource: object.resource,
                    subresource,
                    namespace: namespace.clone(),
                    name: name.clone(),
                    target: *target,
                    object: object.label,
                }));
            }
        }
    }
    cells
}

/// An object of a cluster.
struct Object {
    group: &'static str,
    resource: &'static str,
    label: &'static str,
    /// Namespace and name.
    place: fn(&Layout, &str) -> (String, String),
}

#[rustfmt::skip]
const OBJECTS: &[Object] = &[
    Object { group: "cluster.karmada.io", resource: "clusters", label: "", place: |_, cluster| named(cluster) },
    Object { group: "", resource: "secrets", label: "",
        place: |layout, cluster| (layout.cluster_namespace.clone(), cluster.to_owned()) },
    Object { group: "", resource: "secrets", label: "impersonator",
        place: |layout, cluster| (layout.cluster_namespace.clone(), format!("{cluster}-impersonator")) },
    Object { group: "coordination.k8s.io", resource: "leases", label: "heartbeat",
        place: |layout, cluster| (layout.cluster_namespace.clone(), cluster.to_owned()) },
    Object { group: "coordination.k8s.io", resource: "leases", label: "election",
        place: |layout, cluster| (layout.agent_namespace.clone(), format!("karmada-agent-{cluster}")) },
    Object { group: "work.karmada.io", resource: "works", label: "",
        place: |_, cluster| (execution_namespace(cluster), "work".to_owned()) },
    Object { group: "certificates.k8s.io", resource: "certificatesigningrequests", label: "",
        place: |_, cluster| named(&format!("{cluster}-x2x2x")) },
    Object { group: "config.karmada.io", resource: "resourceinterpreterwebhookconfigurations", label: "",
        place: |_, _| named("interpreter") },
    Object { group: "config.karmada.io", resource: "resourceinterpretercustomizations", label: "",
        place: |_, _| named("interpreter") },
    Object { group: "", resource: "namespaces", label: "",
        place: |_, cluster| (execution_namespace(cluster), execution_namespace(cluster)) },
    Object { group: "", resource: "services", label: "", place: |_, _| ("default".to_owned(), "kubernetes".to_owned()) },
    Object { group: "", resource: "events", label: "execution",
        place: |_, cluster| (execution_namespace(cluster), "event".to_owned()) },
    Object { group: "", resource: "events", label: "default", place: |_, _| ("default".to_owned(), "event".to_owned()) },
];

fn named(name: &str) -> (String, String) {
    (String::new(), name.to_owned())
}

const TARGETS: &[Target] = &[Target::Own, Target::Other, Target::Absent, Target::None, Target::All];
/// Every verb of the API, and the verbs that guard RBAC, impersonation and certificates.
pub const VERBS: &[&str] = &[
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "impersonate",
    "escalate",
    "bind",
    "approve",
];
/// The object itself, the common subresources, and one that does not exist.
pub const SUBRESOURCES: &[&str] = &["", "status", "finalizers", "nonsense"];
