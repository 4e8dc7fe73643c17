//! Makes a spare cluster a host with its own installation, whose sidecar is a process. It is for
//! tests that destroy the registry, which all tests on the bed's host share.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::Cluster;

use crate::api::Api;
use crate::bed::{SYSTEM, member, sidecar, spare};
use crate::leftovers::Clean;
use crate::own_agent::{Difference as AgentDifference, OwnAgent, account, own_data};
use crate::own_sidecar::{Difference, OwnSidecar};
use crate::tool::Tool;
use crate::turn::Turn;
use crate::wait::{SOON, eventually};

/// The host, its sidecar, and the plugin as its administrator.
pub struct ProcessHost {
    pub cluster: &'static Cluster,
    pub api: Api,
    pub plugin: Tool,
    pub kubectl: Tool,
    pub sidecar: OwnSidecar,
    _folder: TempDir,
    _clean: Clean,
    _turn: Turn,
}

impl ProcessHost {
    /// Waits until no other test has the spare cluster, and installs on it. `deploy` is the folder of the
    /// manifests.
    pub fn start(name: &str, deploy: &Path, plugin: &Path) -> Result<Self> {
        let turn = Turn::take(name)?;
        let cluster = spare(name)?;
        let clean = Clean::take(cluster)?;
        let (api, kubectl) = (Api::admin(cluster)?, Tool::admin(cluster)?);
        for file in MANIFESTS {
            let file = deploy.join(file).display().to_string();
            kubectl.ok(&["apply", "--server-side", "-f", &file])?;
            kubectl.ok(&["label", "--overwrite", "-f", &file, OURS])?;
        }
        eventually("the registry is served", SOON, || api.get(MEMBER_CLUSTERS).map(Some))?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, sidecar_kubeconfig(cluster, &api)?.to_string())?;
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let flags = [kubeconfig.as_str(), "--controllers=*"];
        let own = OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?;
        serve_group(&api, &own)?;
        let plugin = Tool::plugin_at(plugin, &[cluster])?;
        Ok(Self { cluster, api, plugin, kubectl, sidecar: own, _folder: folder, _clean: clean, _turn: turn })
    }

    /// Registers member m1 of the bed under this name, with these labels. With `agent`, the member's agent
    /// carries its connections.
    pub fn register(&self, name: &str, labels: &Value, agent: bool) -> Result<()> {
        let mut data = own_data(member("m1")?)?;
        if agent {
            data["via"] = "agent".into();
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
            self.api.apply(&account_path(name), &account)?;
        }
        self.api.apply(
            &secret_path(name),
            &json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{name}.member")},
                "type": "fleet.kubectl-mc.dev/member", "stringData": data,
            }),
        )?;
        let cluster = json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
            "metadata": {"name": name, "labels": labels},
            "spec": {"impersonation": {"uid": "Omit", "extra": "Omit"}},
        });
        self.api.apply(&format!("{MEMBER_CLUSTERS}/{name}"), &cluster).map(drop)
    }

    /// The agent of a member that is registered in this way.
    pub fn agent(&self, name: &str) -> Result<OwnAgent> {
        // The account on the bed's host is not used: the token below replaces that account's token.
        account(name)?;
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600},
        });
        let answer = self.api.create(&format!("{}/token", account_path(name)), &request)?;
        let token = answer["status"]["token"].as_str().context("no token")?;
        let difference = AgentDifference {
            server: Some(self.cluster.server.clone()),
            ca: Some(fs::read_to_string(&self.cluster.ca_certificate)?),
            keys: &[("token", token)],
            ..AgentDifference::default()
        };
        OwnAgent::start(name, member("m1")?, &difference)
    }

    /// A path of a member, through the host's API.
    pub fn member(&self, name: &str, path: &str) -> Result<u16> {
        let path = format!("/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{name}/proxy{path}");
        Ok(self.api.request("GET", &path, "", "")?.status())
    }

    /// Waits until requests reach the member.
    pub fn until_reached(&self, name: &str, deadline: Duration) -> Result<()> {
        eventually(&format!("{name} is reached"), deadline, || {
            let status = self.member(name, "/api/v1/namespaces/default")?;
            ensure!(status == 200, "{name} answers {status}");
            Ok(Some(()))
        })
    }
}

/// The path of a member's Secret.
pub fn secret_path(name: &str) -> String {
    format!("/api/v1/namespaces/{SYSTEM}/secrets/{name}.member")
}

fn account_path(name: &str) -> String {
    format!("/api/v1/namespaces/kubectl-mc-agents/serviceaccounts/{name}")
}

fn sidecar_kubeconfig(cluster: &Cluster, api: &Api) -> Result<Value> {
    let path = format!("/api/v1/namespaces/{SYSTEM}/serviceaccounts/mc-sidecar/token");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer: Value = api.create(&path, &request)?;
    let token = answer["status"]["token"].as_str().context("no token")?;
    let authority = STANDARD.encode(fs::read(&cluster.ca_certificate)?);
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "host",
        "clusters": [{"name": "host", "cluster": {
            "server": cluster.server, "certificate-authority-data": authority,
        }}],
        "users": [{"name": "sidecar", "user": {"token": token}}],
        "contexts": [{"name": "host", "context": {"cluster": "host", "user": "sidecar"}}],
    }))
}

/// Registers the sidecar's API: a Service without a selector, its EndpointSlice, and the APIService. An older
/// host reads Endpoints.
fn serve_group(api: &Api, own: &OwnSidecar) -> Result<()> {
    let address = own.sidecar.url.trim_start_matches("https://");
    let (ip, port) = address.rsplit_once(':').context("no port")?;
    let port: u16 = port.parse()?;
    let labels = json!({"app.kubernetes.io/managed-by": "kubectl-mc"});
    let home = format!("/api/v1/namespaces/{SYSTEM}");
    api.apply(
        &format!("{home}/services/mc-sidecar"),
        &json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "mc-sidecar", "labels": labels},
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
        }),
    )?;
    api.apply(
        &format!("/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices/mc-sidecar"),
        &json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "mc-sidecar", "labels": {
                "kubernetes.io/service-name": "mc-sidecar",
                "endpointslice.kubernetes.io/managed-by": "tests",
            }},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        }),
    )?;
    api.apply(
        &format!("{home}/endpoints/mc-sidecar"),
        &json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": "mc-sidecar", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port}]}],
        }),
    )?;
    let authority = STANDARD.encode(fs::read(&sidecar()?.ca_certificate)?);
    api.apply(
        API_SERVICE,
        &json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1alpha1.proxy.kubectl-mc.dev", "labels": labels},
            "spec": {
                "group": "proxy.kubectl-mc.dev", "version": "v1alpha1", "caBundle": authority,
                "groupPriorityMinimum": 100, "versionPriority": 10,
                "service": {"namespace": SYSTEM, "name": "mc-sidecar", "port": 443},
            },
        }),
    )?;
    eventually("the host reaches the sidecar", SOON, || {
        api.get("/apis/proxy.kubectl-mc.dev/v1alpha1")
            .map(|served| served["resources"].is_array().then_some(()))
    })
}

const MANIFESTS: [&str; 6] =
    ["namespace.yaml", "crd.yaml", "deletion-policy.yaml", "access-policy.yaml", "rbac.yaml", "agents.yaml"];
const OURS: &str = "app.kubernetes.io/managed-by=kubectl-mc";
pub const MEMBER_CLUSTERS: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters";
pub const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.proxy.kubectl-mc.dev";
