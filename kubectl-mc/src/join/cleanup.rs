//! Finds the objects of a join on both sides, which an unjoin deletes.

use kubectl_mc_api::manifests::{Agent, HostConnection};
use kubectl_mc_api::names::{
    ACCESS, AGENT_NAMESPACE, CLUSTER, HOST_GRANT, HOST_UID, IMPERSONATOR, KUBECTL_MC, MANAGED_BY,
    MEMBER_GRANT, NAMESPACE, SECRET_TYPE,
};
use kubectl_mc_api::{ClusterName, path};
use serde_json::{Value, json};

use super::agent::account;
use super::agent::found::Found;
use super::objects;
use crate::cluster::connection::{Connection, ConnectionError};
use crate::cluster::fields::items;

/// Objects of one side, in the order of their creation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remains {
    pub(crate) objects: Vec<Value>,
    /// The foreign objects because of which the member's namespace stays.
    pub(crate) kept_for: Vec<String>,
}

/// The registration, its Secrets, the controllers' ConfigMaps, and the grants for this cluster.
pub(crate) async fn on_host(
    host: &Connection,
    namespace: &str,
    name: &ClusterName,
) -> Result<Remains, ConnectionError> {
    let named = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    let mut objects =
        labelled(host, &["clusterroles", "clusterrolebindings"], &format!("{HOST_GRANT}={name}")).await?;
    objects.extend([
        named("ConfigMap", &name.learnt_config_map()),
        named("Secret", &name.manager_secret()),
        named("Secret", &name.member_secret()),
    ]);
    objects.extend(agent_on_host(host, name).await?);
    objects.push(objects::member_cluster(name, &[], None));
    Ok(Remains { objects, kept_for: Vec::new() })
}

/// The account of the cluster's agent, if there is one, and the Secret of a token that never expires.
pub(crate) async fn agent_on_host(
    host: &Connection,
    name: &ClusterName,
) -> Result<Vec<Value>, ConnectionError> {
    let is_there = host.readable(&account::path_of(name)).await?.is_some();
    Ok(if is_there { vec![account::object(name), account::token_secret(name)] } else { Vec::new() })
}

/// The agent on the member. If another tool installed it, only its Secret.
pub(crate) async fn agent_on_member(member: &Connection) -> Result<Remains, ConnectionError> {
    let found = Found::of(member).await?;
    if found.namespace.is_none() {
        return Ok(Remains::default());
    }
    let secret = HostConnection::default().secret();
    if let Some(owner) = found.owner() {
        let kept_for = vec![format!("the agent of {owner}")];
        return Ok(Remains { objects: vec![secret], kept_for });
    }
    // Only the names in the manifest are needed.
    let any = "any".parse().ok().and_then(|name| Agent::new(name, "").objects().ok()).unwrap_or_default();
    let (namespaces, mut objects): (Vec<_>, Vec<_>) =
        any.into_iter().partition(|object| object["kind"] == "Namespace");
    objects.push(secret);
    let kept_for = strangers(member, AGENT_NAMESPACE, &objects).await?;
    if kept_for.is_empty() && !found.has_foreign_namespace() {
        objects.splice(0..0, namespaces);
    }
    Ok(Remains { objects, kept_for })
}

/// The objects of the manifest, the objects that the controllers derived from them in other namespaces, and
/// grants, including those of ClusterAccesses.
pub(crate) async fn on_member(member: &Connection, manifest: Vec<Value>) -> Result<Remains, ConnectionError> {
    let (namespaces, others): (Vec<_>, Vec<_>) =
        manifest.into_iter().partition(|object| object["kind"] == "Namespace");
    let kept_for = strangers(member, NAMESPACE, &others).await?;
    let namespace = member.get(&format!("/api/v1/namespaces/{NAMESPACE}")).await?;
    let mut objects = Vec::new();
    if kept_for.is_empty() && namespace.is_some() && !objects::is_foreign(namespace.as_ref()) {
        objects.extend(namespaces);
    }
    objects.extend(others);
    let ours = format!("{MANAGED_BY}={KUBECTL_MC}");
    let of_namespaces = labelled(member, &["roles", "rolebindings"], &ours).await?;
    objects.extend(of_namespaces.into_iter().filter(|object| {
        object["metadata"]["name"] == IMPERSONATOR && object["metadata"]["namespace"] != NAMESPACE
    }));
    // The member may be a host itself, whose objects stay.
    for label in [MEMBER_GRANT, &format!("{ACCESS}=true")] {
        objects.extend(labelled(member, &["rolebindings", "clusterrolebindings"], label).await?);
    }
    Ok(Remains { objects, kept_for })
}

/// Removes the plugin's annotations from a namespace that stays.
pub(crate) async fn forget(member: &Connection) -> Result<(), ConnectionError> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}");
    if member.get(&path).await?.is_some() {
        member.merge(&path, &json!({"metadata": {"annotations": {HOST_UID: null, CLUSTER: null}}})).await?;
    }
    Ok(())
}

/// The foreign objects in a namespace, which would be deleted with the namespace.
async fn strangers(
    member: &Connection,
    namespace: &str,
    ours: &[Value],
) -> Result<Vec<String>, ConnectionError> {
    let mut strangers = Vec::new();
    for (kind, path) in OF_NAMESPACE {
        let list = member.get(&path.replace("{}", namespace)).await?.unwrap_or_default();
        for object in items(&list) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let is_ours = ours.iter().any(|own| own["kind"] == *kind && own["metadata"]["name"] == name);
            // Tokens of the plugin's accounts, created before Kubernetes 1.24 or by hand.
            let of_account =
                object["metadata"]["annotations"]["kubernetes.io/service-account.name"].is_string();
            // Owned objects are deleted with their owners.
            let is_owned = object["metadata"]["ownerReferences"].is_array();
            if !is_ours && !of_account && !is_owned && !MADE_BY_KUBERNETES.contains(&name) {
                strangers.push(format!("{}/{name}", kind.to_lowercase()));
            }
        }
    }
    Ok(strangers)
}

/// The RBAC objects with a label.
pub(super) async fn labelled(
    side: &Connection,
    plurals: &[&str],
    selector: &str,
) -> Result<Vec<Value>, ConnectionError> {
    let mut found = Vec::new();
    for plural in plurals {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}?labelSelector={selector}");
        let list = side.get(&path).await?.unwrap_or_default();
        let kind =
            list["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or_default().to_owned();
        for object in items(&list) {
            let mut metadata = json!({"name": object["metadata"]["name"]});
            if object["metadata"]["namespace"].is_string() {
                metadata["namespace"] = object["metadata"]["namespace"].clone();
            }
            found.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
            }));
        }
    }
    Ok(found)
}

/// Whether Secrets of a cluster exist without its MemberCluster.
pub(crate) async fn has_secrets(
    host: &Connection,
    namespace: &str,
    name: &ClusterName,
) -> Result<bool, ConnectionError> {
    for secret in [name.member_secret(), name.manager_secret()] {
        let secret = host.get(&path::secret(namespace, &secret)).await?;
        if secret.is_some_and(|secret| secret["type"] == SECRET_TYPE) {
            return Ok(true);
        }
    }
    Ok(false)
}

const OF_NAMESPACE: &[(&str, &str)] = &[
    ("Pod", "/api/v1/namespaces/{}/pods"),
    ("Deployment", "/apis/apps/v1/namespaces/{}/deployments"),
    ("Service", "/api/v1/namespaces/{}/services"),
    ("ServiceAccount", "/api/v1/namespaces/{}/serviceaccounts"),
    ("Secret", "/api/v1/namespaces/{}/secrets"),
    ("ConfigMap", "/api/v1/namespaces/{}/configmaps"),
];

/// Objects that Kubernetes or OpenShift creates in every namespace.
const MADE_BY_KUBERNETES: &[&str] =
    &["default", "kube-root-ca.crt", "openshift-service-ca.crt", "builder", "deployer"];
