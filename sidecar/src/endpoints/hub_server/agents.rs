//! Limits what a Karmada agent may do with Clusters, where RBAC on the host cannot: RBAC has no selectors,
//! and admission does not see the objects of an aggregated API server.
//!
//! - A list, watch or deletion of the collection is restricted to the agent's own Cluster by a field
//!   selector.
//! - Every other request must be for the agent's own Cluster, and must have one of the forms in
//!   [`Action::parse`].
//! - A write is applied to the stored Cluster, and the result is compared with it ([`rules`]). The
//!   server gets a document from the sidecar with only the allowed changes, which is valid only for
//!   the compared version ([`mod@write`]).

use kubectl_mc_api::Origin;
use kubectl_mc_api::ownership::subject::{GROUP, Subject, is_cluster};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::head::query::Query;
use crate::head::request_info::{HubObjects, Verb};
use crate::identity::Identity;

mod merge_patch;
mod rules;
mod write;

pub(super) use write::{Judged, Write};

/// A caller, as these rules distinguish callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller<'a> {
    /// A caller without restrictions from these rules.
    Any,
    /// The agent of this cluster.
    Agent(&'a str),
}

impl<'a> Caller<'a> {
    /// # Errors
    ///
    /// The caller is in the group of the agents, but is not the agent of any cluster.
    pub(super) fn of(identity: &'a Identity) -> Result<Self, Refused> {
        match Subject::parse(&identity.user, &identity.groups) {
            Subject::NoAgent => Ok(Self::Any),
            Subject::Agent(cluster) if is_cluster(cluster) => Ok(Self::Agent(cluster)),
            Subject::Agent(_) | Subject::Generator | Subject::Unknown => {
                Err(Refused::NoCluster(identity.user.clone()))
            }
        }
    }
}

/// The query of a request for a collection, restricted to the agent's own Cluster.
pub(super) fn own_only(cluster: &str, query: Option<&str>) -> String {
    let asked = Query::new(query).first("fieldSelector").filter(|selector| !selector.is_empty());
    let own = format!("metadata.name={cluster}");
    let selector = asked.map_or_else(|| own.clone(), |asked| format!("{asked},{own}"));
    // Go ignores a query with too many pairs, so a server would not see the selector either.
    let others = query.filter(|query| query.matches('&').count() < MAX_PAIRS).unwrap_or_default();
    // Every spelling of the key is removed, because a server uses the first value.
    let others = others.split('&').filter(|pair| !pair.is_empty() && !is_field_selector(pair));
    let selector = format!("fieldSelector={}", utf8_percent_encode(&selector, NON_ALPHANUMERIC));
    std::iter::once(selector).chain(others.map(str::to_owned)).collect::<Vec<_>>().join("&")
}

fn is_field_selector(pair: &str) -> bool {
    Query::new(Some(pair)).first("fieldSelector").is_some()
}

/// A request of an agent that these rules know. Any other one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// For the collection; restricted by a selector.
    Collection,
    Read,
    Delete,
    Write(Part),
}

/// The target of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A new Cluster.
    New,
    /// The Cluster itself.
    Object,
    /// Its status. Karmada's server would also store the other fields of the document.
    Status,
}

impl Action {
    /// # Errors
    ///
    /// The request is for another Cluster, or its form is not in this list.
    pub(super) fn parse(cluster: &str, objects: &HubObjects) -> Result<Self, Refused> {
        let object = &objects.object;
        if matches!(objects.verb, Verb::List | Verb::Watch | Verb::DeleteCollection) {
            return Ok(Self::Collection);
        }
        let part = match (objects.verb, &*object.subresource) {
            (Verb::Create, "") if object.name.is_empty() => return Ok(Self::Write(Part::New)),
            _ if object.name != cluster => return Err(Refused::Another { cluster: cluster.to_owned() }),
            (Verb::Get, _) => return Ok(Self::Read),
            (Verb::Update | Verb::Patch | Verb::Delete, "") => Part::Object,
            (Verb::Update | Verb::Patch, "status") => Part::Status,
            _ => return Err(Refused::form(objects)),
        };
        // No segment may follow the subresource.
        if objects.path.as_str().trim_end_matches('/') != part.path(cluster) {
            return Err(Refused::form(objects));
        }
        Ok(if objects.verb == Verb::Delete { Self::Delete } else { Self::Write(part) })
    }
}

impl Part {
    /// The canonical path that is sent.
    pub(super) fn path(self, cluster: &str) -> String {
        let collection = Origin::Karmada.collection();
        match self {
            Self::New => collection.to_owned(),
            Self::Object => format!("{collection}/{cluster}"),
            Self::Status => format!("{collection}/{cluster}/status"),
        }
    }
}

/// Why an agent may not do this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "user {0:?} is in group {GROUP} and is the agent of no cluster: it may not use clusters.cluster.karmada.io"
    )]
    NoCluster(String),
    #[error("the agent of cluster {cluster} may use Cluster {cluster} only")]
    Another { cluster: String },
    #[error(
        "an agent may create, get, update, patch and delete its Cluster, and get, update and patch its status: not {0}"
    )]
    Form(String),
    #[error("an agent may set spec.{field} of its Cluster to {bound} only")]
    Reference { field: &'static str, bound: String },
    #[error("an agent registers its Cluster without {field}")]
    Registration { field: String },
    #[error(
        "the agent of cluster {cluster} may not change {field}: an administrator does, with \
         kubectl edit clusters.cluster.karmada.io {cluster}"
    )]
    Kept { field: String, cluster: String },
    #[error(
        "an agent's write of a Cluster is a JSON object, and its patch is an application/merge-patch+json"
    )]
    NotJson,
    #[error("an agent's write of a Cluster has {MAX_WRITE} bytes and {MAX_VALUES} values at most")]
    TooLarge,
}

impl Refused {
    fn form(objects: &HubObjects) -> Self {
        Self::Form(format!("{} {}", objects.verb, objects.path.as_str()))
    }
}

/// More than any client sends, and far below Go's limit of 10,000.
const MAX_PAIRS: usize = 100;
/// The size that etcd accepts in one request.
pub(super) const MAX_WRITE: usize = 1536 * 1024;
/// At most about 15 MB in memory. A Cluster with the API resources of a member has a few thousand
/// values.
const MAX_VALUES: usize = 50_000;

#[cfg(test)]
mod tests;
