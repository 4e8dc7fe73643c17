//! The platforms' kubeconfigs, and the cluster information that kubeadm publishes.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::api::Api;
use harness::both_sides::Alone;
use harness::caller::Caller;
use serde_json::{Value, json};

/// The host's administrator, with a context for the member as a platform writes it.
pub(super) fn with_member(alone: &Alone, name: &str, server: &str, user: &Value) -> Result<Caller> {
    let ca = Kubeconfig::of(alone)?.ca;
    Caller::certificate("e2e-join-admin", &["system:masters"])?.edit(|config| {
        let entries = [
            ("clusters", json!({"cluster": {"server": server, "certificate-authority-data": ca}})),
            ("users", json!({"user": user})),
            ("contexts", json!({"context": {"cluster": name, "user": name}})),
        ];
        for (list, mut entry) in entries {
            entry["name"] = name.into();
            config[list].as_array_mut().into_iter().for_each(|list| list.push(entry.clone()));
        }
    })
}

/// The CA and the user of the cluster administrator's kubeconfig.
pub(super) struct Kubeconfig {
    /// `certificate-authority-data`
    pub(super) ca: String,
    pub(super) user: Value,
}

impl Kubeconfig {
    pub(super) fn of(alone: &Alone) -> Result<Self> {
        let config: Value = serde_json::from_slice(&std::fs::read(&alone.cluster.kubeconfig)?)?;
        let ca = STANDARD.encode(std::fs::read(&alone.cluster.ca_certificate)?);
        Ok(Self { ca, user: config["users"][0]["user"].clone() })
    }
}

/// The cluster information that kubeadm, and so kind, publishes for nodes that join.
pub(super) struct ClusterInfo<'a>(&'a Alone);

impl<'a> ClusterInfo<'a> {
    pub(super) fn publish(alone: &'a Alone, server: &str) -> Result<Self> {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config",
            "clusters": [{"name": "", "cluster": {"server": server}}],
        });
        let info = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info"},
            "data": {"kubeconfig": kubeconfig.to_string()},
        });
        Api::admin(alone.cluster)?.apply(CLUSTER_INFO, &info)?;
        Ok(Self(alone))
    }
}

impl Drop for ClusterInfo<'_> {
    fn drop(&mut self) {
        let _ = Api::admin(self.0.cluster).and_then(|api| api.delete(CLUSTER_INFO));
    }
}

const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
