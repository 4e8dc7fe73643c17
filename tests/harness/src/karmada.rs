//! Sets up Karmada's inventory on the bed's host: Karmada's own aggregated API server if the bed
//! has one for the host (`--karmada host`), otherwise a CustomResourceDefinition of its Cluster.
//! Members are registered in the same way as by `karmadactl join` and Karmada's unified-auth
//! controller (karmada-io/karmada: `pkg/util/credential.go`, `pkg/controllers/unifiedauth`).

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::Cluster;

use crate::api::Api;
use crate::bed::{bed, host, member};
use crate::caller::Caller;
use crate::own_fleet::OwnFleet;
use crate::own_service;
use crate::own_sidecar::OwnSidecar;
use crate::plain_requests::get;
use crate::relay::Relay;
use crate::tool::Tool;
use crate::turn::Turn;
use crate::wait::{SOON, eventually};

/// The namespace of the accounts and Secrets of `karmadactl join`, on the host and on members.
pub const NAMESPACE: &str = "karmada-cluster";

/// A host that has Karmada's inventory, and a sidecar that reads it. One test has it at a time.
pub struct Karmada {
    pub fleet: OwnFleet,
    pub sidecar: OwnSidecar,
    pub host: Api,
    _turn: Turn,
}

impl Karmada {
    /// `rights` is the manifest of the sidecar's additional rights.
    pub fn start(name: &str, rights: &str, flags: &[&str]) -> Result<Self> {
        Self::with(name, rights, |fleet, inventory| fleet.sidecar(&[inventory, flags].concat()))
    }

    fn with(
        name: &str,
        rights: &str,
        sidecar: impl FnOnce(&OwnFleet, &[&str]) -> Result<OwnSidecar>,
    ) -> Result<Self> {
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
        let sidecar = sidecar(&fleet, &["--inventory=membercluster,karmada"])?;
        Ok(Self { fleet, sidecar, host, _turn: turn })
    }

    /// Registers a member of the bed as Karmada does in push mode.
    pub fn join(&self, name: &str, of_bed: &str) -> Result<()> {
        let cluster = member(of_bed)?;
        let api = Api::admin(cluster)?;
        namespace(&api)?;
        let (token, bundle) = account(&api, "karmada-impersonator")?;
        let (admin, _) = account(&api, &format!("karmada-{name}"))?;
        all_rights(&api, &format!("karmada-{name}"))?;
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

    /// A Cluster as a join creates it, with some fields of its spec changed.
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

    /// Lets these subjects be impersonated on a member, as Karmada's unified-auth controller does: by kind,
    /// and without the namespaces of service accounts.
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

/// The same, with a sidecar in front of Karmada's own server. The test decides when the host routes
/// the API group to the sidecar.
pub struct InPlace {
    karmada: Karmada,
    relay: Option<Relay>,
    /// The patch that makes the host route the group to Karmada's server.
    replaced: Value,
    _folder: TempDir,
}

impl InPlace {
    /// `deploy` has the manifest of the sidecar's additional rights.
    pub fn start(name: &str, deploy: &Path) -> Result<Self> {
        let server = &karmada_server()?.url;
        let address: SocketAddr = server.trim_start_matches("https://").parse()?;
        // The certificate is for this address.
        Self::with(name, deploy, Some(Relay::at(address.ip(), server)?))
    }

    /// The same without a relay between the sidecar and Karmada's server, for measurements.
    pub fn without_relay(name: &str, deploy: &Path) -> Result<Self> {
        Self::with(name, deploy, None)
    }

    fn with(name: &str, deploy: &Path, relay: Option<Relay>) -> Result<Self> {
        let (server, folder) = (karmada_server()?, tempfile::tempdir()?);
        let url =
            relay.as_ref().map_or_else(|| server.url.clone(), |relay| format!("https://{}", relay.address));
        let [certificate, key] = server.front_proxy();
        let file = |flag: &str, path: &Path| format!("--karmada-server-{flag}={}", path.display());
        let flags = [
            format!("--karmada-server={url}"),
            file("ca-file", &server.ca_certificate),
            file("client-certificate", &certificate),
            file("client-key", &key),
        ];
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let rights = deploy.join("karmada.yaml").display().to_string();
        let start = |fleet: &OwnFleet, inventory: &[&str]| {
            fleet.replica(folder.path(), &[inventory, &flags].concat())
        };
        let karmada = Karmada::with(name, &rights, start)?;
        let spec = karmada.host.get(API_SERVICE)?["spec"].clone();
        let replaced = json!({
            "metadata": {"annotations": {"fleet.kubectl-mc.dev/replaced": null}},
            "spec": {"service": spec["service"], "caBundle": spec["caBundle"]},
        });
        let in_place = Self { karmada, relay, replaced, _folder: folder };
        eventually("the sidecar has read the documents of Karmada's server", SOON, || {
            let admin = Caller::certificate("e2e-in-place-documents", &["system:masters"])?;
            let answer = get(&in_place.sidecar, &admin, "/apis/cluster.karmada.io/v1alpha1")?;
            let (status, log) = (answer.status(), in_place.sidecar.log()?);
            ensure!(status == 200, "{status} {}: {log}", answer.text());
            Ok(Some(()))
        })?;
        Ok(in_place)
    }

    /// The relay between the sidecar and Karmada's server.
    pub fn relay(&self) -> Result<&Relay> {
        self.relay.as_ref().context("started without a relay")
    }

    /// The Service of its sidecar on the host, as `hub-api apply --service` takes it.
    pub fn service(&self) -> Result<String> {
        let service = own_service::reference(&self.host, &self.fleet.namespace, &self.sidecar)?;
        let word = |key: &str| service[key].as_str().unwrap_or_default();
        Ok(format!("{}/{}:{}", word("namespace"), word("name"), service["port"]))
    }
}

fn karmada_server() -> Result<&'static testbed::Karmada> {
    bed()?.host.karmada.as_ref().context("the bed has no server of Karmada: --karmada host")
}

impl Deref for InPlace {
    type Target = Karmada;

    fn deref(&self) -> &Karmada {
        &self.karmada
    }
}

impl Drop for InPlace {
    /// Routes the group to Karmada's server again, even if the test failed in between.
    fn drop(&mut self) {
        let _ = self.host.merge(API_SERVICE, &self.replaced);
    }
}

/// The rights of the account that Karmada's controllers use on a member.
fn all_rights(api: &Api, account: &str) -> Result<()> {
    let (name, group) = (format!("karmada-controller-manager:{account}"), "rbac.authorization.k8s.io");
    let path = |kind: &str| format!("/apis/{group}/v1/{kind}/{name}");
    let rules = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]);
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules,
    });
    api.apply(&path("clusterroles"), &role)?;
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    });
    api.apply(&path("clusterrolebindings"), &binding)?;
    Ok(())
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

/// Creates a service account. Returns its token and the authority that comes with it, both encoded.
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

/// The part of the schema that the tests need. Karmada itself serves the kind by an aggregated API server.
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
const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.cluster.karmada.io";
