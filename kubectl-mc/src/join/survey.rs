//! Reads the state of both sides before a join. [`super::preflight`] draws the conclusions.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use jiff::Timestamp;
use kubectl_mc_api::names::{API_SERVICE, FLEET_GROUP, IMPERSONATOR, MANAGER, NAMESPACE};
use kubectl_mc_api::{ClusterName, path};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::bindable_roles;
use super::refusals::{self, Variables};
use crate::cluster::connection::{Connection, ConnectionError};
use crate::cluster::fields::into_items;
use crate::cluster::own_server;

/// The state of the host before a join.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostSurvey {
    /// The uid of kube-system, which identifies the cluster; empty if the caller may not read it.
    pub(crate) uid: String,
    /// The namespace of the sidecar and its Secrets.
    pub(crate) namespace: String,
    pub(crate) clock: Option<Timestamp>,
    pub(crate) sidecar: Sidecar,
    /// All registered clusters.
    pub(crate) registered: Vec<Value>,
    /// Rights that the caller lacks, in words.
    pub(crate) missing: Vec<String>,
}

/// Whether the host serves the API group of the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sidecar {
    #[default]
    Installed,
    Missing,
    Unavailable(String),
}

/// The state of the future member.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberSurvey {
    pub(crate) uid: String,
    /// Such as `v1.36.3`.
    pub(crate) version: String,
    /// Whether it serves ValidatingAdmissionPolicies, the default since Kubernetes 1.30.
    pub(crate) validates: bool,
    pub(crate) clock: Option<Timestamp>,
    /// Whether it serves `serviceaccounts/token`.
    pub(crate) token_request: bool,
    /// The namespace of the sidecar's accounts.
    pub(crate) namespace: Option<Value>,
    /// Whether the impersonator's account exists.
    pub(crate) has_account: bool,
    /// The ConfigMap with the policy of the member's administrators.
    pub(crate) policy: Option<Value>,
    /// The refusals of the administrators, from the member's policy.
    pub(crate) refusals: Variables,
    /// The names of the ClusterAccess bindings that the manager may write there since an earlier join.
    pub(crate) bindings: BTreeSet<String>,
    pub(crate) missing: Vec<String>,
    /// The address that the member itself publishes, if requested.
    pub(crate) own_server: Option<String>,
}

impl HostSurvey {
    pub(crate) async fn of(host: &Connection) -> Result<Self, ConnectionError> {
        let (version, uid) = (version(host).await?, uid(host).await?);
        let (sidecar, namespace) = (sidecar(host).await?, namespace(host).await?);
        let registered = match sidecar {
            Sidecar::Missing => Vec::new(),
            _ => into_items(host.readable(path::MEMBER_CLUSTERS_PATH).await?.unwrap_or_default()),
        };
        let to_secrets = [(&["get", "create", "patch"][..], "", "secrets", "", namespace.as_str())];
        let rights = attributes(RIGHTS_ON_HOST).chain(attributes(&to_secrets));
        let missing = missing(host, rights.collect()).await?;
        Ok(Self { uid, namespace, clock: version.1, sidecar, registered, missing })
    }

    /// A registered cluster.
    pub(crate) fn cluster(&self, name: &ClusterName) -> Option<&Value> {
        self.registered.iter().find(|cluster| cluster["metadata"]["name"] == name.as_str())
    }
}

impl MemberSurvey {
    pub(crate) async fn of(member: &Connection, wants_server: bool) -> Result<Self, ConnectionError> {
        let ((version, clock), uid) = (version(member).await?, uid(member).await?);
        let token_request = serves(member, "/api/v1", "serviceaccounts/token").await?;
        let validates = validates(member).await?;
        let mut rights: Vec<Value> = attributes(RIGHTS_ON_MEMBER).collect();
        let policy = member.readable(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{MANAGER}")).await?;
        let manager = format!("/apis/{RBAC}/v1/clusterroles/{MANAGER}");
        let bindings = bindable_roles::bindings(member.readable(&manager).await?.as_ref());
        let mut refusals = Variables::new();
        if validates {
            let manager = format!("/apis/{ADMISSION}/v1/validatingadmissionpolicies/{MANAGER}");
            refusals = refusals::chosen(policy.as_ref(), member.readable(&manager).await?.as_ref());
            rights.extend(attributes(RIGHTS_TO_VALIDATE));
        }
        Ok(Self {
            uid,
            version: version["gitVersion"].as_str().unwrap_or("of an unknown version").to_owned(),
            validates,
            clock,
            token_request,
            namespace: member.readable(&format!("/api/v1/namespaces/{NAMESPACE}")).await?,
            has_account: exists(member, &format!("serviceaccounts/{IMPERSONATOR}")).await?,
            policy,
            refusals,
            bindings,
            missing: missing(member, rights).await?,
            own_server: if wants_server { own_server(member).await } else { None },
        })
    }
}

/// Whether a member serves ValidatingAdmissionPolicies.
pub(crate) async fn validates(member: &Connection) -> Result<bool, ConnectionError> {
    serves(member, &format!("/apis/{ADMISSION}/v1"), "validatingadmissionpolicies").await
}

/// Whether a cluster serves a resource of this group and version.
async fn serves(side: &Connection, version: &str, resource: &str) -> Result<bool, ConnectionError> {
    let served = side.get(version).await?.unwrap_or_default();
    Ok(served["resources"].as_array().is_some_and(|list| list.iter().any(|one| one["name"] == resource)))
}

/// Version and clock. This is the first request to a side, so it detects an unreachable server.
async fn version(side: &Connection) -> Result<(Value, Option<Timestamp>), ConnectionError> {
    let answer = side.send(Method::GET, "/version", None).await?;
    if !answer.status.is_success() {
        return Err(side.refused("get /version".to_owned(), &answer));
    }
    Ok((answer.json(), answer.date))
}

/// The uid of kube-system, which is unique to each cluster and never changes.
pub(crate) async fn uid(side: &Connection) -> Result<String, ConnectionError> {
    let namespace = side.readable("/api/v1/namespaces/kube-system").await?.unwrap_or_default();
    Ok(namespace["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
}

/// The namespace of the service behind the aggregated API.
pub(crate) async fn namespace(host: &Connection) -> Result<String, ConnectionError> {
    let service =
        host.readable(&format!("/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}")).await?;
    let service = service.unwrap_or_default();
    Ok(service["spec"]["service"]["namespace"].as_str().unwrap_or(NAMESPACE).to_owned())
}

/// Whether the namespace of the sidecar's accounts has this object.
async fn exists(member: &Connection, object: &str) -> Result<bool, ConnectionError> {
    Ok(member.readable(&format!("/api/v1/namespaces/{NAMESPACE}/{object}")).await?.is_some())
}

async fn sidecar(host: &Connection) -> Result<Sidecar, ConnectionError> {
    let answer = host.send(Method::GET, &format!("{}?limit=1", path::CLUSTERS_PATH), None).await?;
    Ok(match answer.status {
        StatusCode::NOT_FOUND => Sidecar::Missing,
        status if status.is_server_error() => Sidecar::Unavailable(answer.message().to_string()),
        // A caller without the right to list clusters may still join one.
        _ => Sidecar::Installed,
    })
}

/// Which of these rights the caller lacks. The reviews run in parallel, because a cluster may be far away.
pub(super) async fn missing(side: &Connection, rights: Vec<Value>) -> Result<Vec<String>, ConnectionError> {
    let mut reviews = JoinSet::new();
    for (at, attributes) in rights.into_iter().enumerate() {
        let side = side.clone();
        reviews.spawn(async move { Ok((at, in_words(&attributes), side.may(&attributes).await?)) });
    }
    let mut missing = Vec::new();
    for review in reviews.join_all().await {
        let (at, words, allowed) = review?;
        if !allowed {
            missing.push((at, words));
        }
    }
    missing.sort();
    Ok(missing.into_iter().map(|(_, words)| words).collect())
}

/// Such as `patch clusterroles.rbac.authorization.k8s.io`.
fn in_words(attributes: &Value) -> String {
    let text = |field: &str| attributes[field].as_str().filter(|text| !text.is_empty());
    let mut words = format!("{} {}", text("verb").unwrap_or("?"), text("resource").unwrap_or("?"));
    if let Some(subresource) = text("subresource") {
        words = format!("{words}/{subresource}");
    }
    if let Some(group) = text("group") {
        words = format!("{words}.{group}");
    }
    if let Some(namespace) = text("namespace") {
        words = format!("{words} in {namespace}");
    }
    words
}

/// The address that kubeadm, kind and others publish for joining nodes, or else the endpoint of the API
/// server.
pub(super) async fn own_server(side: &Connection) -> Option<String> {
    let info = side.get(own_server::CLUSTER_INFO).await.ok().flatten();
    if let Some(published) = info.as_ref().and_then(own_server::published) {
        return Some(published);
    }
    let slice = side.get(own_server::ENDPOINTS).await.ok().flatten()?;
    own_server::of_endpoints(&slice)
}

/// verbs, group, resource, subresource, namespace
pub(super) type Rights<'a> = (&'a [&'a str], &'a str, &'a str, &'a str, &'a str);

/// The attributes of a review of each right, in order.
pub(super) fn attributes(rights: &[Rights<'_>]) -> impl Iterator<Item = Value> {
    rights.iter().flat_map(|&(verbs, group, resource, subresource, namespace)| {
        verbs.iter().map(move |verb| {
            json!({
                "verb": verb, "group": group, "resource": resource, "subresource": subresource,
                "namespace": namespace,
            })
        })
    })
}

pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const RIGHTS_ON_HOST: &[Rights<'static>] = &[
    (&["get"], "", "namespaces", "", ""),
    (&["list", "get", "create", "patch"], FLEET_GROUP, "memberclusters", "", ""),
];

const RIGHTS_ON_MEMBER: &[Rights<'static>] = &[
    (&["get", "create", "patch"], "", "namespaces", "", ""),
    (&["create", "patch"], "", "serviceaccounts", "", NAMESPACE),
    (&["create", "patch"], "", "configmaps", "", NAMESPACE),
    (&["create"], "", "serviceaccounts", "token", NAMESPACE),
    (&["create", "patch"], RBAC, "clusterroles", "", ""),
    (&["create", "patch"], RBAC, "clusterrolebindings", "", ""),
    (&["create", "patch"], RBAC, "roles", "", NAMESPACE),
    (&["create", "patch"], RBAC, "rolebindings", "", NAMESPACE),
];

const RIGHTS_TO_VALIDATE: &[Rights<'static>] = &[
    (&["get", "create", "patch"], ADMISSION, "validatingadmissionpolicies", "", ""),
    (&["create", "patch"], ADMISSION, "validatingadmissionpolicybindings", "", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_reads_as_in_kubectl_auth_can_i() {
        let words = |rights: Rights<'_>| attributes(&[rights]).map(|one| in_words(&one)).collect::<Vec<_>>();
        assert_eq!(
            words((&["create"], "", "serviceaccounts", "token", NAMESPACE)),
            ["create serviceaccounts/token in kubectl-mc-system"]
        );
        assert_eq!(
            words((&["get", "patch"], RBAC, "clusterroles", "", "")),
            ["get clusterroles.rbac.authorization.k8s.io", "patch clusterroles.rbac.authorization.k8s.io"]
        );
    }
}
