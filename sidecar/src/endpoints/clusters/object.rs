//! Selects the fields of a MemberCluster that the view shows: name, labels, server, version, last
//! answer and conditions. Annotations and managed fields are left out: annotations may contain the
//! whole applied manifest, and managed fields matter only to writers.

use std::collections::BTreeMap;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use kubectl_mc_api::path::PROXY_GROUP_VERSION;
use kubectl_mc_api::{MemberCluster, MemberClusterStatus, Origin};
use serde::Serialize;

/// One cluster at one resourceVersion, encoded once for all readers.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) version: u64,
    pub(super) object: Object,
    pub(super) json: Bytes,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Object {
    kind: &'static str,
    api_version: &'static str,
    pub(super) metadata: Metadata,
    pub(super) status: Status,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    pub(super) resource_version: String,
    pub(super) creation_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_seen: Option<Time>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Condition>,
}

impl Cluster {
    /// The same cluster at another resourceVersion, for example that of its deletion.
    pub(super) fn at(&self, version: u64) -> Self {
        let mut object = self.object.clone();
        object.metadata.resource_version = version.to_string();
        Self::new(version, object)
    }

    pub(super) fn name(&self) -> &str {
        &self.object.metadata.name
    }

    /// The inventory that the cluster belongs to.
    pub(super) fn origin(&self) -> Origin {
        self.object.metadata.origin()
    }

    fn new(version: u64, object: Object) -> Self {
        let json = serde_json::to_vec(&object).expect("a cluster has string keys and no failing parts");
        Self { version, object, json: json.into() }
    }
}

impl From<MemberCluster> for Cluster {
    fn from(mut member: MemberCluster) -> Self {
        let version = resource_version(&member);
        let status = member.status.take().unwrap_or_default();
        let metadata = Metadata {
            name: member.name_any(),
            uid: member.metadata.uid,
            resource_version: version.to_string(),
            creation_timestamp: member.metadata.creation_timestamp,
            labels: member.metadata.labels.unwrap_or_default(),
        };
        let MemberClusterStatus { namespace: _, server, version: kubernetes, uid: _, last_seen, conditions } =
            status;
        let status = Status { server, version: kubernetes, last_seen, conditions };
        Self::new(version, Object { kind: KIND, api_version: PROXY_GROUP_VERSION, metadata, status })
    }
}

impl Metadata {
    pub(super) fn origin(&self) -> Origin {
        Origin::of_labels(&self.labels)
    }
}

impl Status {
    pub(super) fn ready(&self) -> Option<&Condition> {
        self.condition("Ready")
    }

    pub(super) fn reachable(&self) -> Option<&Condition> {
        self.condition("Reachable")
    }

    /// Only for members with an agent.
    pub(super) fn connected(&self) -> Option<&Condition> {
        self.condition("Connected")
    }

    fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }
}

/// A member's resourceVersion. Versions are numbers, in the order of the changes (KEP-5504).
pub(super) fn resource_version(member: &MemberCluster) -> u64 {
    member.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

pub(super) const KIND: &str = "Cluster";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::registry::fixtures::member;
    use super::*;

    #[test]
    fn cluster_shows_its_labels_and_status_only() {
        let mut m1 = member("m1", 7, &[("env", "prod")]);
        m1.metadata.uid = Some("u-1".to_owned());
        m1.metadata.annotations = Some([("secret".to_owned(), "manifest".to_owned())].into());
        m1.metadata.managed_fields = Some(vec![Default::default()]);
        m1.metadata.creation_timestamp = Some(Time("2026-01-02T03:04:05Z".parse().unwrap()));
        m1.status = serde_json::from_value(json!({
            "namespace": "kubectl-mc-system",
            "server": "https://203.0.113.7:6443",
            "version": "v1.36.3",
            "lastSeen": "2026-01-02T03:04:05Z",
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ok", "message": "",
                            "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        }))
        .unwrap();
        let shown: serde_json::Value = serde_json::from_slice(&Cluster::from(m1).json).unwrap();
        assert_eq!(
            shown,
            json!({
                "kind": "Cluster",
                "apiVersion": "proxy.kubectl-mc.dev/v1alpha1",
                "metadata": {"name": "m1", "uid": "u-1", "resourceVersion": "7",
                             "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"env": "prod"}},
                "status": {
                    "server": "https://203.0.113.7:6443",
                    "version": "v1.36.3",
                    "lastSeen": "2026-01-02T03:04:05Z",
                    "conditions": [{"type": "Ready", "status": "True", "reason": "Ok", "message": "",
                                    "lastTransitionTime": "2026-01-02T03:04:05Z"}],
                },
            })
        );
    }

    #[test]
    fn deleted_cluster_has_the_version_of_its_deletion() {
        let gone = Cluster::from(member("m1", 7, &[])).at(12);
        assert_eq!(gone.version, 12);
        let shown: serde_json::Value = serde_json::from_slice(&gone.json).unwrap();
        assert_eq!(shown["metadata"]["resourceVersion"], "12");
    }
}
