//! Karmada's inventory on the bed's host: its own aggregated API server, where the bed has one for the host (`--karmada host`),
//! else a definition of its Cluster; and members as `karmadactl join` and Karmada's
//! unified-auth controller make them (karmada-io/karmada: `pkg/util/credential.go`, `pkg/controllers/unifiedauth`).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testbed::Cluster;

use crate::api::Api;
use crate::bed::{bed, host, member};
use crate::own_fleet::OwnFleet;
use crate::own_sidecar::OwnSidecar;
use crate::tool::Tool;
use crate::turn::Turn;
use crate::wait::{SOON, eventually};

/// Where `karmadactl join` has its accounts and Secrets, on the host and on members.
pub const NAMESPACE: &str = "karmada-cluster";

/// A host that has Karmada's inventory, and a sidecar that reads it. One test has it at a time.
pub struct Karmada {
    pub fleet: OwnFleet,
    pub sidecar: OwnSidecar,
    pub host: Api,
    _turn: Turn,
}

impl Karmada {
    /// `rights` is the manifest of what the sidecar may do besides.
    pub fn start(name: &str, rights: &str, flags: &[&str]) -> Result<Self> {
        let (turn, host, fleet) = (Turn::take("karmada")?, host()?, OwnFleet::new(name)?);
        if bed()?.host.karmada.is_none() {
            host.apply(&format!("{DEFINITIONS}/clusters.cluster.karmada.io"), &definition())?;
        }
        namespace(&host)?;
        Tool::admin(&bed()?.host)?.ok(&["apply", "-f", rights])?;
        eventually("Karmada's Clusters are served", SOON, || host.get(CLUSTERS).map(Some))?;
        for cluster in host.get(CLUSTERS)?["items"].as_array().into_iter().flatten() {
            host.delete(&cluster_path(cluster["metadata"]["name"].as_str().context("no name")?))?;
        }
        let sidecar = fleet.sidecar(&[&["--inventory=membercluster,karmada"], flags].concat())?;
        Ok(Self { fleet, sidecar, host, _turn: turn })
    }

    /// Registers a member of the bed as Karmada does in push mode.
    pub fn join(&self, name: &str, of_bed: &str) -> Result<()> {
        let cluster = member(of_bed)?;
        let api = Api::admin(cluster)?;
        namespace(&api)?;
        let (token, bundle) = account(&api, "karmada-impersonator")?;
        let (admin, _) = account(&api, &format!("karmada-{name}"))?;
        let data = json!({"caBundle": bundle, "token": admin});
        self.secret(name, &data)?;
        self.secret(&format!("{name}-impersonator"), &json!({"token": token}))?;
        self.cluster(name, &cluster.server, &json!({}))
    }

    /// One of Karmada's Secrets; the values of `data` are encoded.
    pub fn secret(&self, name: &str, data: &Value) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "data": data,
            "metadata": {"name": name, "labels": {"karmada.io/system": "true"}},
        });
        self.host.apply(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}"), &secret)?;
        Ok(())
    }

    /// A Cluster as it is made by a join, with some fields of its spec changed.
    pub fn cluster(&self, name: &str, server: &str, changes: &Value) -> Result<()> {
        let reference = |name: &str| json!({"namespace": NAMESPACE, "name": name});
        let mut spec = json!({
            "syncMode": "Push", "apiEndpoint": server, "secretRef": reference(name),
            "impersonatorSecretRef": reference(&format!("{name}-impersonator")),
        });
        for (key, value) in changes.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "spec": spec,
            "metadata": {"name": name, "labels": {"env": "karmada"}},
        });
        self.host.apply(&cluster_path(name), &cluster)?;
        Ok(())
    }

    pub fn unjoin(&self, name: &str) -> Result<()> {
        self.host.delete(&cluster_path(name))?;
        Ok(())
    }

    /// Lets these subjects be impersonated on a member, as Karmada's unified-auth controller does: by kind, and without the
    /// namespaces of service accounts.
    pub fn unified_auth(of_bed: &str, users: &[&str], accounts: &[&str], groups: &[&str]) -> Result<()> {
        let api = Api::admin(member(of_bed)?)?;
        let rule = |resource: &str, names: &[&str]| json!({"apiGroups": [""], "resources": [resource], "resourceNames": names, "verbs": ["impersonate"]});
        let rules = [("users", users), ("serviceaccounts", accounts), ("groups", groups)];
        let rules: Vec<_> = rules
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(kind, names)| rule(kind, names))
            .collect();
        let metadata = json!({"name": "karmada-impersonator", "labels": {"karmada.io/system": "true"}});
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules,
        });
        api.apply(&format!("{rbac}/clusterroles/karmada-impersonator"), &role)?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "karmada-impersonator"},
            "subjects": [{"kind": "ServiceAccount", "name": "karmada-impersonator", "namespace": NAMESPACE}],
        });
        api.apply(&format!("{rbac}/clusterrolebindings/karmada-impersonator"), &binding)?;
        Ok(())
    }
}

/// The server of a member of the bed.
pub fn server(of_bed: &str) -> Result<&'static str> {
    let cluster: &'static Cluster = member(of_bed)?;
    Ok(&cluster.server)
}

fn namespace(api: &Api) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api.apply(&format!("/api/v1/namespaces/{NAMESPACE}"), &namespace)?;
    Ok(())
}

fn account(api: &Api, name: &str) -> Result<(Value, Value)> {
    account_in(api, NAMESPACE, name)
}

/// The token of a service account that is made, and the authority beside it, both encoded.
pub(crate) fn account_in(api: &Api, namespace: &str, name: &str) -> Result<(Value, Value)> {
    let path = |kind: &str| format!("/api/v1/namespaces/{namespace}/{kind}/{name}");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    api.apply(&path("serviceaccounts"), &account)?;
    let annotations = json!({"kubernetes.io/service-account.name": name});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": name, "annotations": annotations},
    });
    api.apply(&path("secrets"), &secret)?;
    eventually("the account has a token", SOON, || {
        let data = api.get(&path("secrets"))?["data"].clone();
        Ok((!data["token"].is_null()).then(|| (data["token"].clone(), data["ca.crt"].clone())))
    })
}

fn cluster_path(name: &str) -> String {
    format!("{CLUSTERS}/{name}")
}

/// What of the schema matters here. Karmada serves the kind by an aggregated API server.
fn definition() -> Value {
    let text = json!({"type": "string"});
    let reference = json!({"type": "object", "properties": {"namespace": text, "name": text}});
    let spec = json!({
        "type": "object", "required": ["syncMode"],
        "properties": {
            "id": text, "syncMode": {"type": "string", "enum": ["Push", "Pull"]}, "apiEndpoint": text,
            "secretRef": reference, "impersonatorSecretRef": reference,
            "insecureSkipTLSVerification": {"type": "boolean"}, "proxyURL": text,
            "proxyHeader": {"type": "object", "additionalProperties": text},
            "provider": text, "region": text,
        },
    });
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "clusters.cluster.karmada.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": "cluster.karmada.io", "scope": "Cluster",
            "names": {"plural": "clusters", "singular": "cluster", "kind": "Cluster", "listKind": "ClusterList"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
