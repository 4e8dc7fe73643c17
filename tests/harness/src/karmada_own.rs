//! Runs Karmada's own aggregated API server on a spare host, with Karmada's definitions, and karmada-agent.

use std::fs;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use testbed::{Cluster, Karmada, programs};

use crate::api::Api;
use crate::bed::bed;
use crate::karmada_host::KarmadaHost;
use crate::tool::{Running, Tool};
use crate::wait::{SOON, eventually};

/// Karmada's kinds as Karmada serves them, until this is dropped.
pub struct OwnKinds {
    server: Karmada,
    api: Api,
}

impl OwnKinds {
    pub fn of(cluster: &'static Cluster, api: &Api) -> Result<Self> {
        let (folder, kubectl) = (programs::karmada_chart()?.join("_crds/bases"), Tool::admin(cluster)?);
        for file in [
            "work/work.karmada.io_works.yaml",
            "config/config.karmada.io_resourceinterpretercustomizations.yaml",
            "config/config.karmada.io_resourceinterpreterwebhookconfigurations.yaml",
        ] {
            let file = folder.join(file).display().to_string();
            kubectl.ok(&["apply", "--server-side", "-f", &file])?;
            kubectl.ok(&["label", "--overwrite", "-f", &file, "app.kubernetes.io/managed-by=kubectl-mc"])?;
        }
        // An earlier test's CustomResourceDefinition in the group also has an APIService, which
        // disappears after a moment.
        eventually("no other server has the group", SOON, || {
            Ok((api.request("GET", API_SERVICE, "", "")?.status() == 404).then_some(()))
        })?;
        let server = bed()?.start_karmada(cluster)?;
        Ok(Self { server, api: Api::admin(cluster)? })
    }

    fn end(&self) -> Result<()> {
        let clusters = self.api.get(CLUSTERS)?;
        for cluster in clusters["items"].as_array().into_iter().flatten() {
            let name = cluster["metadata"]["name"].as_str().context("no name")?;
            let none = json!({"metadata": {"finalizers": null}});
            self.api.merge(&format!("{CLUSTERS}/{name}"), &none)?;
            self.api.delete(&format!("{CLUSTERS}/{name}"))?;
        }
        Ok(())
    }
}

impl Drop for OwnKinds {
    fn drop(&mut self) {
        // The next test on the host reports the error.
        let _ = self.end();
        let _ = self.api.request("DELETE", API_SERVICE, "", "");
        let _ = self.server.stop();
    }
}

impl KarmadaHost {
    /// Lets clusters register with bootstrap tokens, as Karmada's chart does.
    /// kube-controller-manager signs the published kubeconfig for each token.
    pub fn open_registration(&self) -> Result<()> {
        let template =
            programs::karmada_chart()?.join("templates/_karmada_bootstrap_token_configuration.tpl");
        let template = fs::read_to_string(&template).with_context(|| template.display().to_string())?;
        let plain = |document: &str| {
            let lines = document.lines().filter(|line| !line.contains("{{"));
            let lines: Vec<_> = lines.collect();
            lines.join("\n").replace("  labels:", "  labels: {app.kubernetes.io/managed-by: kubectl-mc}")
        };
        // The first document is cluster-info, whose fields are values of the chart.
        let rights: Vec<_> = template.split("\n---\n").skip(2).map(plain).collect();
        ensure!(rights.len() == 9, "{} documents in the template of Karmada's chart", rights.len());
        let kubectl = Tool::admin(self.cluster)?;
        let apply = ["apply", "--server-side", "-f", "-"];
        kubectl.run_with_input(&apply, rights.join("\n---\n").as_bytes())?.success()?;
        let authority = STANDARD.encode(fs::read_to_string(&self.cluster.ca_certificate)?);
        let cluster = json!({"certificate-authority-data": authority, "server": self.cluster.server});
        let kubeconfig =
            json!({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]});
        let info = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info", "labels": {"app.kubernetes.io/managed-by": "kubectl-mc"}},
            "data": {"kubeconfig": kubeconfig.to_string()},
        });
        self.api.apply("/api/v1/namespaces/kube-public/configmaps/cluster-info", &info).map(drop)
    }

    /// Starts a cluster's karmada-agent, with its own certificate, for a member of the bed.
    pub fn start_agent(&self, cluster: &str, member: &Cluster) -> Result<Running> {
        let user = format!("system:karmada:agent:{cluster}");
        let certificate = self.cluster.client_certificate(&user, &["system:karmada:agents"])?;
        let encoded = |text: &str| STANDARD.encode(text);
        let authority = fs::read_to_string(&self.cluster.ca_certificate)?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "host",
            "clusters": [{"name": "host", "cluster": {
                "server": self.cluster.server, "certificate-authority-data": encoded(&authority),
            }}],
            "users": [{"name": "agent", "user": {
                "client-certificate-data": encoded(&certificate.certificate),
                "client-key-data": encoded(&certificate.key),
            }}],
            "contexts": [{"name": "host", "context": {"cluster": "host", "user": "agent"}}],
        });
        // The agent is the administrator of its member.
        let agent = Tool::plugin_at(&programs::karmada_agent(), &[member])?;
        let file = agent.home().join("karmada");
        fs::write(&file, kubeconfig.to_string())?;
        agent.start(&[
            format!("--karmada-kubeconfig={}", file.display()),
            format!("--cluster-name={cluster}"),
            format!("--cluster-api-endpoint={}", member.server),
            "--cluster-status-update-frequency=2s".to_owned(),
            "--metrics-bind-address=0".to_owned(),
            "--health-probe-bind-address=0".to_owned(),
        ])
    }
}

/// The lines of an agent's log in which the host refuses it something.
pub fn refusals(log: &str) -> Result<Vec<&str>> {
    ensure!(log.contains("karmada-agent version"), "not the log of an agent: {log}");
    Ok(log.lines().filter(|line| line.contains("orbidden")).collect())
}

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.cluster.karmada.io";
