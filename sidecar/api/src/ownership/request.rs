//! A request of an agent, as an authorizer sees it, and the answer.

use std::fmt;

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
