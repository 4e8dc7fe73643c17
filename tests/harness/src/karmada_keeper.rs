//! A sidecar that maintains the RBAC of agents on a spare host, with the account that an
//! installation gives it there.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bed::SYSTEM;
use crate::karmada_host::KarmadaHost;
use crate::own_sidecar::{Difference, OwnSidecar};
use crate::tool::Tool;
use crate::wait::{SOON, eventually};

/// The process, and the token of its account.
pub struct Keeper {
    pub sidecar: OwnSidecar,
    pub token: String,
    _folder: TempDir,
}

impl KarmadaHost {
    /// Applies the manifests of an installation that concern the sidecar's account. `deploy` is their folder.
    pub fn install_account(&self, deploy: &Path) -> Result<()> {
        let kubectl = Tool::admin(self.cluster)?;
        for file in ["namespace.yaml", "crd.yaml", "access-policy.yaml", "rbac.yaml", "agents.yaml"] {
            let file = deploy.join(file).display().to_string();
            kubectl.ok(&["apply", "--server-side", "-f", &file])?;
            kubectl.ok(&["label", "--overwrite", "-f", &file, "app.kubernetes.io/managed-by=kubectl-mc"])?;
        }
        eventually("the registry is served", SOON, || {
            self.api.get("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters").map(Some)
        })
        .map(drop)
    }

    /// Starts a sidecar of this host that runs only this controller.
    pub fn start_keeper(&self) -> Result<Keeper> {
        let path = format!("/api/v1/namespaces/{SYSTEM}/serviceaccounts/mc-sidecar/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer: Value = self.api.create(&path, &request)?;
        let token = answer["status"]["token"].as_str().context("no token")?.to_owned();
        let authority = STANDARD.encode(fs::read(&self.cluster.ca_certificate)?);
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "host",
            "clusters": [{"name": "host", "cluster": {
                "server": self.cluster.server, "certificate-authority-data": authority,
            }}],
            "users": [{"name": "sidecar", "user": {"token": token}}],
            "contexts": [{"name": "host", "context": {"cluster": "host", "user": "sidecar"}}],
        });
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("kubeconfig");
        fs::write(&file, kubeconfig.to_string())?;
        let kubeconfig = format!("--kubeconfig={}", file.display());
        let flags = [kubeconfig.as_str(), "--controllers=agent-rbac", "--karmada-agent-rbac"];
        let sidecar = OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?;
        Ok(Keeper { sidecar, token, _folder: folder })
    }
}
