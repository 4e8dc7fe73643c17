//! Finds the objects that an uninstall deletes: the objects of every kind of installation that have the
//! plugin's label, and those that the sidecar created.

use std::net::{Ipv4Addr, Ipv6Addr};

use kubectl_mc_api::manifests::{Certificates, ISSUER, Parameters, Reach, SERVED, SKIP_MIRROR};
use kubectl_mc_api::names::{
    ACCESS, AGENTS, FLEET_GROUP_VERSION, HOST_GRANT, HOST_UID, IMPERSONATOR, KUBECTL_MC, MANAGED_BY,
    SECRET_TYPE, SIDECAR,
};
use kubectl_mc_api::{ClusterName, path};
use serde_json::{Value, json};

use super::{get, made};
use crate::apply::object::Object;
use crate::cluster::connection::Connection;
use crate::cluster::fields::items;
use crate::error::Failure;

/// The registered members.
pub(crate) struct Members {
    pub(crate) clusters: Vec<String>,
    /// The ClusterAccesses, whose bindings are on the members.
    pub(crate) accesses: Vec<String>,
    /// The members' Secrets and MemberClusters, and the ClusterAccesses.
    pub(crate) objects: Vec<Value>,
}

pub(crate) async fn members(client: &kube::Client, namespace: &str) -> Result<Members, Failure> {
    let list = get(client, path::MEMBER_CLUSTERS_PATH).await?;
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let clusters = items(&list).map(name).collect::<Vec<_>>();
    let of_members = format!("fieldSelector=type%3D{SECRET_TYPE}");
    let secrets = get(client, &format!("/api/v1/namespaces/{namespace}/secrets?{of_members}")).await?;
    let secrets = items(&secrets).map(|secret| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name(secret), "namespace": namespace}})
    });
    let registrations = clusters.iter().map(|name| {
        json!({
            "apiVersion": FLEET_GROUP_VERSION,
            "kind": "MemberCluster",
            "metadata": {"name": name},
        })
    });
    // The list is deleted in reverse order, so the leader can first remove its bindings from the members.
    let accesses = get(client, path::CLUSTER_ACCESSES_PATH).await?;
    let accesses = items(&accesses).map(name).collect::<Vec<_>>();
    let objects_of_accesses = accesses.iter().map(|name| {
        json!({
            "apiVersion": FLEET_GROUP_VERSION,
            "kind": "ClusterAccess",
            "metadata": {"name": name},
        })
    });
    let objects = secrets.chain(registrations).chain(objects_of_accesses).collect();
    Ok(Members { clusters, accesses, objects })
}

/// The plugin's objects on the host, in the order of their creation.
pub(crate) async fn host(host: &Connection, namespace: &str) -> Result<Vec<Value>, Failure> {
    let client = &host.client;
    let parameters = parameters(namespace);
    let mut candidates = made(parameters.host())?;
    let registration = candidates.pop();
    let cert_manager = parameters.with_certificates(Certificates::CertManager);
    // Listed before their creators, because deletion runs in reverse order.
    candidates.extend(made_by_cert_manager(namespace));
    // Addresses of both families, for the names of their EndpointSlices.
    let any = vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    for other in [cert_manager.host(), parameters.host_of_remote(&Reach::Addresses(any, 1))] {
        for object in made(other)? {
            let is_known = |known: &Value| {
                known["kind"] == object["kind"] && known["metadata"]["name"] == object["metadata"]["name"]
            };
            if !candidates.iter().chain(&registration).any(is_known) {
                candidates.push(object);
            }
        }
    }
    candidates.extend(grants(client).await?);
    candidates.extend(registration);
    let mut ours = labelled(host, candidates).await?;
    ours.splice(1.min(ours.len())..1.min(ours.len()), made_by_the_sidecar(client, namespace).await?);
    Ok(ours)
}

/// The plugin's objects on the host that belong to another issuer of the serving certificate, in the order of
/// their creation.
pub(crate) async fn of_other_certificates(
    host: &Connection,
    parameters: &Parameters,
) -> Result<Vec<Value>, Failure> {
    let mut candidates = Vec::new();
    if parameters.values.certificates != Certificates::CertManager {
        // Listed before their creators, because deletion runs in reverse order.
        candidates.extend(made_by_cert_manager(&parameters.namespace));
    }
    for other in [Certificates::SelfManaged, Certificates::CertManager] {
        if other != parameters.values.certificates {
            let objects = parameters.with_certificates(other).of_certificates();
            candidates.extend(made(objects)?);
        }
    }
    labelled(host, candidates).await
}

/// The plugin's objects in a cluster for parts of a direct endpoint or of a hub's inventory that this
/// installation does not have.
pub(crate) async fn of_other_values(
    cluster: &Connection,
    parameters: &Parameters,
) -> Result<Vec<Value>, Failure> {
    let mut candidates = made(parameters.without_direct())?;
    candidates.extend(made(parameters.without_hubs())?);
    labelled(cluster, candidates).await
}

/// The plugin's objects in the cluster that runs the sidecars for another host.
pub(crate) async fn elsewhere(runs_on: &Connection, namespace: &str) -> Result<Vec<Value>, Failure> {
    let parameters = parameters(namespace);
    let mut candidates = made(parameters.remote(""))?;
    let cert_manager = parameters.with_certificates(Certificates::CertManager);
    candidates.extend(made_by_cert_manager(namespace));
    candidates.extend(made(cert_manager.of_certificates())?);
    labelled(runs_on, candidates).await
}

/// The objects of access grants, including those of ClusterAccesses.
async fn grants(client: &kube::Client) -> Result<Vec<Value>, Failure> {
    let mut objects = Vec::new();
    let kinds = [("ClusterRole", "clusterroles"), ("ClusterRoleBinding", "clusterrolebindings")];
    for ((kind, plural), label) in
        kinds.iter().flat_map(|kind| [HOST_GRANT, ACCESS].map(|label| (kind, label)))
    {
        let selected = format!("labelSelector={MANAGED_BY}%3D{KUBECTL_MC}%2C{label}");
        let list = get(client, &format!("/apis/rbac.authorization.k8s.io/v1/{plural}?{selected}")).await?;
        objects.extend(items(&list).map(|found| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": found["metadata"]["name"]},
            })
        }));
    }
    Ok(objects)
}

/// The serving certificate and its authority.
fn made_by_cert_manager(namespace: &str) -> [Value; 2] {
    [ISSUER, SERVED].map(|name| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}})
    })
}

/// The sidecar's Lease and its ConfigMaps with observed users.
async fn made_by_the_sidecar(client: &kube::Client, namespace: &str) -> Result<Vec<Value>, Failure> {
    let metadata = |name: &str| json!({"name": name, "namespace": namespace});
    let mut objects =
        vec![json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata(SIDECAR)})];
    let maps = get(client, &format!("/api/v1/namespaces/{namespace}/configmaps")).await?;
    let names = items(&maps).filter_map(|map| map["metadata"]["name"].as_str());
    let learnt = names.filter(|name| ClusterName::of_learnt_config_map(name).is_some());
    objects.extend(
        learnt.map(|name| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name)})),
    );
    Ok(objects)
}

/// The existing objects with the plugin's label. A namespace stays if this cluster is also a member of
/// another host: a join annotates it, and a manual registration has the impersonator's account in it.
async fn labelled(cluster: &Connection, candidates: Vec<Value>) -> Result<Vec<Value>, Failure> {
    let mut ours = Vec::new();
    for candidate in candidates {
        let Some(found) = Object::new(candidate.clone())?.get(cluster).await? else {
            continue;
        };
        let metadata = &found["metadata"];
        let is_ours = metadata["labels"][MANAGED_BY] == KUBECTL_MC;
        let is_members = candidate["kind"] == "Namespace"
            && (!metadata["annotations"][HOST_UID].is_null() || is_member(cluster, &candidate).await?);
        // Kubernetes copies the labels of a Service to the Endpoints that it creates.
        let is_of_a_selector = candidate["kind"] == "Endpoints" && metadata["labels"][SKIP_MIRROR].is_null();
        if is_ours && !is_members && !is_of_a_selector {
            ours.push(candidate);
        }
    }
    Ok(ours)
}

/// Whether the namespace has a member's account. An agent's account may have the same name.
async fn is_member(cluster: &Connection, namespace: &Value) -> Result<bool, Failure> {
    if namespace["metadata"]["name"] == AGENTS {
        return Ok(false);
    }
    let metadata = json!({"name": IMPERSONATOR, "namespace": namespace["metadata"]["name"]});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    Ok(Object::new(account)?.get(cluster).await?.is_some())
}

/// Parameters with every optional part.
fn parameters(namespace: &str) -> Parameters {
    let mut parameters = Parameters { namespace: namespace.to_owned(), ..Parameters::new(String::new()) };
    parameters.values.metrics.service.enabled = true;
    parameters.values.metrics.pod_monitor.enabled = true;
    parameters.values.metrics.rules.enabled = true;
    parameters.values.metrics.dashboard.enabled = true;
    parameters.with_direct_endpoint().with_hubs()
}
