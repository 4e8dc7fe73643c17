//! Limits what a Karmada agent may do with Clusters, where RBAC on the host cannot: RBAC has no selectors,
//! and admission does not see the objects of an aggregated API server.
//!
//! - A list, watch or deletion of the collection is restricted to the agent's own Cluster by a field
//!   selector.
//! - A write must keep the references to Secrets that the name requires. An agent sets the member's address
//!   only once, when it registers the Cluster; afterwards only an administrator may change it.

use http::{HeaderMap, Method, header};
use kubectl_mc_api::ownership::subject::{GROUP, Subject, is_cluster};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::identity::Identity;
use crate::json_values;
use crate::request::query::Query;
use crate::request::request_info::{HubObjects, Verb};

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

/// Whether a request is for a collection.
pub(super) fn is_of_collection(objects: &HubObjects) -> bool {
    matches!(objects.verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
}

/// Whether a request's body must be checked. Only the object itself has the fields, not its subresources.
pub(super) fn is_checked(objects: &HubObjects) -> bool {
    matches!(objects.verb, Verb::Create | Verb::Update | Verb::Patch) && objects.object.subresource.is_empty()
}

/// The content of a write.
#[derive(Debug)]
pub(super) struct Write {
    document: Value,
    is_json_patch: bool,
    is_create: bool,
}

impl Write {
    /// # Errors
    ///
    /// The document is not JSON.
    pub(super) fn read(method: &Method, headers: &HeaderMap, body: &[u8]) -> Result<Self, Refused> {
        let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
        if !json_values::are_at_most(MAX_VALUES, body) {
            return Err(Refused::TooLarge);
        }
        let document = serde_json::from_slice(body).map_err(|_| Refused::NotJson)?;
        let is_json_patch = media_type.eq_ignore_ascii_case("application/json-patch+json");
        Ok(Self { document, is_json_patch, is_create: *method == Method::POST })
    }

    /// The document as it was checked. The caller's own text may name a key twice: a server merges both
    /// values, and the check has seen only the last.
    pub(super) fn into_body(self) -> Vec<u8> {
        self.document.to_string().into_bytes()
    }

    /// Whether the decision depends on the current Cluster.
    pub(super) fn needs_current(&self) -> bool {
        !self.is_create && !self.is_json_patch
    }

    /// Refuses a write that would redirect the agent's Cluster. `current` is the Cluster before the write.
    pub(super) fn check(
        &self,
        cluster: &str,
        namespace: &str,
        current: Option<&Value>,
    ) -> Result<(), Refused> {
        if self.is_json_patch {
            return self.check_operations();
        }
        let named = self.document.pointer("/metadata/name").and_then(Value::as_str);
        if self.is_create && named != Some(cluster) {
            return Err(Refused::Another { cluster: cluster.to_owned() });
        }
        let spec = &self.document["spec"];
        for (field, name) in
            [("secretRef", cluster.to_owned()), ("impersonatorSecretRef", format!("{cluster}{IMPERSONATOR}"))]
        {
            let reference = &spec[field];
            let is_bound = reference["namespace"] == namespace && reference["name"] == *name;
            if !reference.is_null() && !is_bound {
                return Err(Refused::Reference { field, bound: format!("{namespace}/{name}") });
            }
        }
        for field in ["apiEndpoint", "proxyURL"] {
            let (new, old) = (&spec[field], current.map(|current| &current["spec"][field]));
            let is_left = match old {
                _ if self.is_create => field != "apiEndpoint" || is_https(new),
                Some(old) => new == old || (new.is_null() || *new == "") && (old.is_null() || *old == ""),
                None => new.is_null(),
            };
            // A merge patch keeps a field that it does not name.
            let is_named = spec.get(field).is_some();
            if is_named && !is_left {
                return Err(Refused::Moved { field, cluster: cluster.to_owned() });
            }
        }
        Ok(())
    }

    fn check_operations(&self) -> Result<(), Refused> {
        let operations = self.document.as_array().ok_or(Refused::NotJson)?;
        let paths = operations.iter().flat_map(|operation| [&operation["path"], &operation["from"]]);
        for path in paths.filter_map(Value::as_str) {
            // RFC 6901: only ~ and / can be escaped, so none of these fields can have another spelling.
            let field = FIELDS.into_iter().find(|field| {
                let rest = path.strip_prefix("/spec/").and_then(|rest| rest.strip_prefix(*field));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            if let Some(field) = field.or_else(|| matches!(path, "" | "/spec").then_some("secretRef")) {
                return Err(Refused::Operation { path: path.to_owned(), field });
            }
        }
        Ok(())
    }
}

fn is_https(endpoint: &Value) -> bool {
    endpoint.is_null()
        || endpoint.as_str().is_some_and(|text| text.is_empty() || text.starts_with("https://"))
}

const FIELDS: [&str; 4] = ["secretRef", "impersonatorSecretRef", "apiEndpoint", "proxyURL"];
const IMPERSONATOR: &str = "-impersonator";

/// Why an agent may not do this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "user {0:?} is in group {GROUP} and is the agent of no cluster: it may not use clusters.cluster.karmada.io"
    )]
    NoCluster(String),
    #[error("the agent of cluster {cluster} may create Cluster {cluster} only")]
    Another { cluster: String },
    #[error("an agent may set spec.{field} of its Cluster to {bound} only")]
    Reference { field: &'static str, bound: String },
    #[error(
        "the agent of cluster {cluster} may not change spec.{field}: an administrator does, with \
         kubectl edit clusters.cluster.karmada.io {cluster}"
    )]
    Moved { field: &'static str, cluster: String },
    #[error("an agent may not patch {path:?}, which could change spec.{field} of its Cluster")]
    Operation { path: String, field: &'static str },
    #[error("an agent's write of a Cluster must be JSON")]
    NotJson,
    #[error("an agent's write of a Cluster has {MAX_WRITE} bytes and {MAX_VALUES} values at most")]
    TooLarge,
}

/// More than any client sends, and far below Go's limit of 10,000.
const MAX_PAIRS: usize = 100;
/// As much as etcd accepts in one request.
pub(super) const MAX_WRITE: usize = 1536 * 1024;
/// Some 15 MB at most, in memory. A Cluster with the API resources of a member has a few thousand values.
const MAX_VALUES: usize = 50_000;

#[cfg(test)]
mod tests;
