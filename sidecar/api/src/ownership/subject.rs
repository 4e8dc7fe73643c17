//! Parses the identities of Karmada's agents (karmada: `pkg/karmadactl/register/register.go`).

use crate::name::is_label;

/// The group of all agents.
pub const GROUP: &str = "system:karmada:agents";
/// The prefix of an agent's user name; the name of its cluster follows.
pub const PREFIX: &str = "system:karmada:agent:";
/// The identity that creates the RBAC of a new agent. All registrations share it.
pub const GENERATOR: &str = "system:karmada:agent:rbac-generator";

/// The prefix of a bootstrap token's user name; its id follows (Kubernetes: "Authenticating with Bootstrap
/// Tokens").
pub const BOOTSTRAP_USER: &str = "system:bootstrap:";
/// The prefix of the groups of Karmada's bootstrap tokens.
pub const BOOTSTRAP_OF_KARMADA: &str = "system:bootstrappers:karmada:";
/// The group of every bootstrap token of Karmada (karmada: `pkg/karmadactl/util/bootstraptoken/agent`).
pub const BOOTSTRAP_GROUP: &str = "system:bootstrappers:karmada:default-cluster-token";
/// The prefix of the group of a bootstrap token that enrolls one cluster; the cluster's name follows.
pub const BOOTSTRAP_OF_CLUSTER: &str = "system:bootstrappers:karmada:cluster:";

/// The identity of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// Neither the user nor a group is an agent's.
    NoAgent,
    /// The agent of this cluster.
    Agent(&'a str),
    Generator,
    /// The user and the groups do not name one cluster's agent.
    Unknown,
}

impl<'a> Subject<'a> {
    pub fn parse<G: AsRef<str>>(user: &'a str, groups: &[G]) -> Self {
        let is_in_group = groups.iter().any(|group| group.as_ref() == GROUP);
        match (user.strip_prefix(PREFIX), is_in_group) {
            (None, false) => Self::NoAgent,
            (Some(_), true) if user == GENERATOR => Self::Generator,
            (Some(cluster), true) if is_cluster(cluster) => Self::Agent(cluster),
            _ => Self::Unknown,
        }
    }
}

/// The user name of a cluster's agent.
pub fn user(cluster: &str) -> String {
    format!("{PREFIX}{cluster}")
}

/// Whether the objects of a cluster of this name cannot be confused with those of another cluster.
///
/// Karmada accepts any DNS label of up to 48 characters. A cluster `a-impersonator` would own Secret
/// `a-impersonator`, which holds the credential of cluster `a`. An agent of cluster `rbac-generator` would
/// have the generator's user name.
pub fn is_cluster(name: &str) -> bool {
    name.len() <= 48
        && is_label(name)
        && !name.ends_with(IMPERSONATOR)
        && format!("{PREFIX}{name}") != GENERATOR
}

/// The suffix of the Secret with a cluster's impersonation credential.
pub(crate) const IMPERSONATOR: &str = "-impersonator";
