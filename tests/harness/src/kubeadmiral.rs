//! Sets up KubeAdmiral's inventory on the bed's host: the definition of its FederatedCluster, members as its
//! join registers them (kubewharf/kubeadmiral: `pkg/controllers/federatedcluster/clusterjoin.go`),
//! and the group `aggregated.kubeadmiral.io`, which the host routes to the test's own sidecar.

use std::path::Path;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::bed::{bed, host, member};
use crate::karmada::account_in;
use crate::own_fleet::OwnFleet;
use crate::own_service;
use crate::own_sidecar::OwnSidecar;
use crate::tool::Tool;
use crate::turn::Turn;
use crate::wait::{SOON, eventually};

/// The namespace of KubeAdmiral's Secrets, and of its account on members.
pub const NAMESPACE: &str = "kube-admiral-system";
/// The collection below which members are served.
pub const AGGREGATIONS: &str = "/apis/aggregated.kubeadmiral.io/v1alpha1/aggregations";

/// A host that has KubeAdmiral's inventory, and a sidecar that reads it and serves its group. One test has it
/// at a time.
pub struct KubeAdmiral {
    pub fleet: OwnFleet,
    pub sidecar: OwnSidecar,
    pub host: Api,
    _folder: TempDir,
    _turn: Turn,
}

impl KubeAdmiral {
    /// `deploy` has the manifests of the sidecar's additional rights, and of the group.
    pub fn start(name: &str, deploy: &Path) -> Result<Self> {
        let (turn, host, fleet) = (Turn::take("kubeadmiral")?, host()?, OwnFleet::new(name)?);
        host.apply(&format!("{DEFINITIONS}/federatedclusters.core.kubeadmiral.io"), &definition())?;
        namespace(&host)?;
        let rights = deploy.join("kubeadmiral.yaml");
        Tool::admin(&bed()?.host)?.ok(&["apply", "-f", &rights.display().to_string()])?;
        eventually("FederatedClusters are served", SOON, || host.get(CLUSTERS).map(Some))?;
        let folder = tempfile::tempdir()?;
        let sidecar = fleet.replica(folder.path(), &["--inventory=membercluster,kubeadmiral"])?;
        let admiral = Self { fleet, sidecar, host, _folder: folder, _turn: turn };
        admiral.register_group(&deploy.join("kubeadmiral-apiservice.yaml"))?;
        Ok(admiral)
    }

    /// Lets the host route the group to this sidecar.
    fn register_group(&self, manifest: &Path) -> Result<()> {
        let service = own_service::reference(&self.host, &self.fleet.namespace, &self.sidecar)?;
        let manifest = manifest.display().to_string();
        let read = ["create", "--dry-run=client", "-o", "json", "-f", &manifest];
        let mut registration: Value = serde_json::from_str(&Tool::admin(&bed()?.host)?.ok(&read)?)?;
        let spec = &mut registration["spec"];
        spec["caBundle"] = STANDARD.encode(std::fs::read(&self.sidecar.sidecar.ca_certificate)?).into();
        spec["service"] = service;
        self.host.apply(API_SERVICE, &registration)?;
        own_service::available(&self.host, API_SERVICE)
    }

    /// Registers a member of the bed as KubeAdmiral does, with an account that may do everything
    /// there.
    pub fn join(&self, name: &str, of_bed: &str) -> Result<()> {
        let cluster = member(of_bed)?;
        let api = Api::admin(cluster)?;
        namespace(&api)?;
        let (token, bundle) = account_in(&api, NAMESPACE, ACCOUNT)?;
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT},
            "rules": [
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["get"]},
            ],
        });
        api.apply(&format!("{rbac}/clusterroles/{ACCOUNT}"), &role)?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        });
        api.apply(&format!("{rbac}/clusterrolebindings/{ACCOUNT}"), &binding)?;
        let data = json!({"certificate-authority-data": bundle, "service-account-token-data": token});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data});
        self.host.apply(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}"), &secret)?;
        self.cluster(name, cluster.server.trim_start_matches("https://"), &json!({}))
    }

    /// A FederatedCluster as KubeAdmiral's documentation has it, with some fields of its spec changed.
    pub fn cluster(&self, name: &str, endpoint: &str, changes: &Value) -> Result<()> {
        let mut spec = json!({
            "apiEndpoint": endpoint, "insecure": false, "useServiceAccount": true, "secretRef": {"name": name},
        });
        for (key, value) in changes.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let cluster = json!({
            "apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "FederatedCluster", "spec": spec,
            "metadata": {"name": name, "labels": {"env": "admiral"}},
        });
        self.host.apply(&format!("{CLUSTERS}/{name}"), &cluster)?;
        Ok(())
    }

    pub fn unjoin(&self, name: &str) -> Result<()> {
        self.host.delete(&format!("{CLUSTERS}/{name}"))?;
        Ok(())
    }
}

impl Drop for KubeAdmiral {
    fn drop(&mut self) {
        // A group without a server disturbs the host's discovery.
        let _ = self.host.delete(API_SERVICE);
    }
}

fn namespace(api: &Api) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api.apply(&format!("/api/v1/namespaces/{NAMESPACE}"), &namespace)?;
    Ok(())
}

/// The part of the schema that the tests need.
fn definition() -> Value {
    let (text, flag) = (json!({"type": "string"}), json!({"type": "boolean"}));
    let reference = json!({"type": "object", "required": ["name"], "properties": {"name": text}});
    let spec = json!({
        "type": "object", "required": ["apiEndpoint", "secretRef", "useServiceAccount"],
        "properties": {
            "apiEndpoint": text, "insecure": flag, "useServiceAccount": flag, "secretRef": reference,
        },
    });
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "federatedclusters.core.kubeadmiral.io"},
        "spec": {
            "group": "core.kubeadmiral.io", "scope": "Cluster",
            "names": {
                "plural": "federatedclusters", "singular": "federatedcluster", "kind": "FederatedCluster",
                "listKind": "FederatedClusterList", "shortNames": ["fcluster"],
            },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

const ACCOUNT: &str = "kubeadmiral-member";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CLUSTERS: &str = "/apis/core.kubeadmiral.io/v1alpha1/federatedclusters";
const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.aggregated.kubeadmiral.io";
