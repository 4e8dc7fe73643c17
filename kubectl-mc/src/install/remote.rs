//! The cluster that runs the sidecars for a host without nodes, and the kubeconfig of the host that the sidecars
//! need there.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubectl_mc_api::manifests::REMOTE_TOKEN;
use kubectl_mc_api::names::SIDECAR;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::wait::Deadline;
use super::{InstallError, get};
use crate::cluster::connection::{self, ConnectError, Connection};
use crate::cluster::context::ClusterContext;
use crate::cluster::context::HostOptions;
use crate::env::Env;

/// The other cluster.
pub(crate) struct Remote {
    pub(crate) connection: Connection,
}

impl Remote {
    /// By a context of the same kubeconfig.
    pub(crate) async fn connect(context: &str, host: &HostOptions, env: &Env) -> Result<Self, ConnectError> {
        let options = HostOptions { kubeconfig: host.kubeconfig.clone(), context: Some(context.to_owned()) };
        Ok(Self { connection: connection::connect(&options, env).await? })
    }
}

/// The host's kubeconfig for the sidecars, as soon as the host has made their token.
pub(crate) async fn kubeconfig(
    host: &Connection,
    server: Option<&str>,
    namespace: &str,
    deadline: &Deadline,
) -> Result<String, InstallError> {
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{REMOTE_TOKEN}");
    loop {
        let secret = get(&host.client, &path).await?;
        if let Some(token) = secret["data"]["token"].as_str() {
            let token = STANDARD.decode(token).ok().and_then(|token| String::from_utf8(token).ok());
            let token = token.ok_or(InstallError::NoToken)?;
            return render(&host.cluster, server, &token, &secret["data"]["ca.crt"]);
        }
        if deadline.is_over() {
            return Err(InstallError::NoToken);
        }
        sleep(POLL).await;
    }
}

fn render(
    host: &ClusterContext,
    server: Option<&str>,
    token: &str,
    root: &Value,
) -> Result<String, InstallError> {
    let cluster = &host.cluster;
    // What the user's kubeconfig trusts, not what the account's Secret says: only that is known to fit the server.
    let mut entry = json!({"server": server.unwrap_or(&host.server)});
    if let Some(data) = cluster.certificate_authority_data.as_deref().filter(|data| !data.is_empty()) {
        entry["certificate-authority-data"] = data.into();
    } else if let Some(file) = cluster.certificate_authority.as_deref().filter(|file| !file.is_empty()) {
        let pem =
            std::fs::read(file).map_err(|error| InstallError::Kubeconfig(format!("{file}: {error}")))?;
        entry["certificate-authority-data"] = STANDARD.encode(pem).into();
    } else if root.is_string() {
        entry["certificate-authority-data"] = root.clone();
    }
    if let Some(name) = &cluster.tls_server_name {
        entry["tls-server-name"] = name.as_str().into();
    }
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "host", "cluster": entry}],
        "users": [{"name": SIDECAR, "user": {"token": token}}],
        "contexts": [{"name": "host", "context": {"cluster": "host", "user": SIDECAR}}],
        "current-context": "host",
    });
    Ok(kubeconfig.to_string())
}

const POLL: Duration = Duration::from_millis(500);
