//! Builds the ClusterProfile of a member (cluster-inventory-api: `apis/v1alpha1/clusterprofile_types.go`).

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use kube::core::DynamicObject;
use kubectl_mc_api::direct::Server;
use kubectl_mc_api::names::{KUBECTL_MC, SIDECAR};
use kubectl_mc_api::{ClusterName, path};
use serde_json::{Value, json};

use crate::members::inventory::fleet::Registered;

/// How consumers reach the host.
pub(super) struct Host {
    pub(super) server: Server,
    /// PEM. Without it, consumers use their system roots.
    pub(super) ca: Option<String>,
}

/// The content of a member's profile.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Profile {
    labels: BTreeMap<String, String>,
    owner: Value,
    status: Value,
}

impl Profile {
    /// The name and the profile; `None` for a member without a name, a uid or a creation time.
    pub(super) fn of(registered: &Registered, host: &Host) -> Option<(String, Self)> {
        let member = &registered.member;
        let name: ClusterName = member.metadata.name.as_deref()?.parse().ok()?;
        let uid = member.metadata.uid.as_deref()?;
        let mut labels = member.labels().clone();
        labels.insert(MANAGER_LABEL.to_owned(), CLUSTER_MANAGER.to_owned());
        let owner = json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster", "name": name, "uid": uid,
        });
        let status = member.status.as_ref();
        let mut cluster = json!({"server": format!("{}{}", host.server.url(), path::member_root(&name))});
        if let Some(ca) = &host.ca {
            cluster["certificate-authority-data"] = STANDARD.encode(ca).into();
        }
        let properties = registered.uid().map(|uid| json!({"name": CLUSTER_ID, "value": uid}));
        let mut said = json!({
            "conditions": [control_plane_healthy(registered)?],
            "accessProviders": [{"name": CLUSTER_MANAGER, "cluster": cluster}],
            "properties": properties.into_iter().collect::<Vec<_>>(),
        });
        if let Some(version) = status.and_then(|status| status.version.as_deref()) {
            said["version"] = json!({"kubernetes": version});
        }
        Some((name.to_string(), Self { labels, owner, status: said }))
    }

    /// The object without its status, for server-side apply.
    pub(super) fn object(&self, name: &str) -> Value {
        json!({
            "apiVersion": API_VERSION,
            "kind": "ClusterProfile",
            "metadata": {"name": name, "labels": self.labels, "ownerReferences": [self.owner]},
            "spec": {"displayName": name, "clusterManager": {"name": CLUSTER_MANAGER}},
        })
    }

    /// The status, for server-side apply.
    pub(super) fn status(&self, name: &str) -> Value {
        json!({
            "apiVersion": API_VERSION,
            "kind": "ClusterProfile",
            "metadata": {"name": name},
            "status": self.status,
        })
    }

    /// Whether an object has all fields of the profile. Additional fields of others are ignored.
    pub(super) fn is_in(&self, object: &DynamicObject) -> bool {
        let labels = object.labels();
        let has_labels = self.labels.iter().all(|(key, value)| labels.get(key) == Some(value));
        has_labels && !self.has_left(object) && is_within(&self.status, &object.data["status"])
    }

    /// Whether the object has a label that an earlier version of the profile wrote and that this
    /// one lacks.
    fn has_left(&self, object: &DynamicObject) -> bool {
        let ours = object.managed_fields().iter().filter(|entry| entry.manager.as_deref() == Some(SIDECAR));
        let labels =
            ours.filter_map(|entry| entry.fields_v1.as_ref()?.0.pointer("/f:metadata/f:labels")?.as_object());
        let mut labels = labels.flatten().filter_map(|(key, _)| key.strip_prefix("f:"));
        labels.any(|label| !self.labels.contains_key(label))
    }
}

/// Whether each field and each list item of `wanted` is in `found`, in any order.
fn is_within(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted.iter().all(|(key, value)| {
            found.get(key).map_or_else(|| is_empty(value), |found| is_within(value, found))
        }),
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.iter().all(|wanted| found.iter().any(|found| is_within(wanted, found)))
        }
        (wanted, found) => wanted == found,
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Condition `Reachable` of the member, under upstream's name.
fn control_plane_healthy(registered: &Registered) -> Option<Value> {
    let member = &registered.member;
    let conditions = member.status.as_ref().map_or(&[][..], |status| &status.conditions[..]);
    let condition = match conditions.iter().find(|condition| condition.type_ == "Reachable") {
        Some(condition) => Condition { type_: CONTROL_PLANE_HEALTHY.to_owned(), ..condition.clone() },
        None => Condition {
            type_: CONTROL_PLANE_HEALTHY.to_owned(),
            status: "Unknown".to_owned(),
            reason: "NotProbed".to_owned(),
            message: "the sidecar has not probed the member yet".to_owned(),
            last_transition_time: member.metadata.creation_timestamp.clone()?,
            observed_generation: None,
        },
    };
    // The generation is that of the MemberCluster, not of the profile.
    serde_json::to_value(Condition { observed_generation: None, ..condition }).ok()
}

const API_VERSION: &str = "multicluster.x-k8s.io/v1alpha1";
pub(super) const CLUSTER_MANAGER: &str = KUBECTL_MC;
const MANAGER_LABEL: &str = "x-k8s.io/cluster-manager";
const CONTROL_PLANE_HEALTHY: &str = "ControlPlaneHealthy";
/// The id of a cluster (KEP-2149): the uid of its kube-system.
const CLUSTER_ID: &str = "cluster.clusterset.k8s.io";
