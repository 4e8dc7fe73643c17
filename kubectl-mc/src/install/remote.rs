//! Connects to the cluster that runs the sidecars for a host without nodes, and builds the
//! kubeconfig with which the sidecars reach the host from there.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubectl_mc_api::manifests::REMOTE_TOKEN;
use kubectl_mc_api::names::SIDECAR;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::wait::Deadline;
use super::{RUNS_ON, get};
use crate::cluster::connection::{self, Connection};
use crate::cluster::context::ClusterContext;
use crate::cluster::context::HostOptions;
use crate::cluster::named_file;
use crate::cluster::own_server;
use crate::env::Env;
use crate::error::{Context, Failure};
use crate::join::address;

/// Connects to the cluster of a context in the same kubeconfig.
pub(crate) async fn connect(context: &str, host: &HostOptions, env: &Env) -> Result<Connection, Failure> {
    let options = HostOptions::plain(host.kubeconfig.clone(), Some(context.to_owned()));
    let cluster = ClusterContext::load(&options, env).map_err(|error| error.in_role(RUNS_ON))?;
    connection::to(RUNS_ON, cluster, env).await
}

/// Fails if the kubeconfig's address of the host is local to this machine, because for the sidecars
/// it would be their own.
pub(crate) async fn check_server(host: &Connection, given: Option<&str>) -> Result<(), Failure> {
    let ClusterContext { server, context, .. } = &host.cluster;
    let Some(what) = address::local(server).filter(|_| given.is_none()) else { return Ok(()) };
    let info = get(&host.client, own_server::CLUSTER_INFO).await.unwrap_or_default();
    let mut own = own_server::published(&info);
    if own.is_none() {
        let slice = get(&host.client, own_server::ENDPOINTS).await.unwrap_or_default();
        own = own_server::of_endpoints(&slice);
    }
    let own = own.filter(|server| !address::is_local(server));
    let likely = own.or_else(|| address::of_context(context.as_deref()?));
    Err(Failure::usage(format!(
        "nothing was applied: the host's server {server} is {what}: the sidecars in the other cluster cannot reach it"
    ))
    .with_hint(match likely {
        Some(server) => format!("the host is likely reached by --host-server={server}"),
        None => "set the host's address in the network of the sidecars: --host-server=https://…".to_owned(),
    }))
}

/// The host's kubeconfig for the sidecars, as soon as the host has issued their token.
pub(crate) async fn kubeconfig(
    host: &Connection,
    server: Option<&str>,
    namespace: &str,
    deadline: &Deadline,
) -> Result<String, Failure> {
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{REMOTE_TOKEN}");
    loop {
        let secret = get(&host.client, &path).await?;
        if let Some(token) = secret["data"]["token"].as_str() {
            let token = STANDARD.decode(token).ok().and_then(|token| String::from_utf8(token).ok());
            let token = token.ok_or_else(no_token)?;
            return render(&host.cluster, server, &token, &secret["data"]["ca.crt"]);
        }
        if deadline.is_over() {
            return Err(no_token());
        }
        sleep(POLL).await;
    }
}

fn no_token() -> Failure {
    Failure::new("the host has not created the token of the sidecar's account")
}

fn render(host: &ClusterContext, server: Option<&str>, token: &str, root: &Value) -> Result<String, Failure> {
    let cluster = &host.cluster;
    // Uses the CA of the user's kubeconfig, which is known to match the server, and not that of the account's
    // Secret.
    let mut entry = json!({"server": server.unwrap_or(&host.server)});
    if let Some(data) = cluster.certificate_authority_data.as_deref().filter(|data| !data.is_empty()) {
        entry["certificate-authority-data"] = data.into();
    } else if let Some(file) = cluster.certificate_authority.as_deref().filter(|file| !file.is_empty()) {
        let pem = named_file::read(file.as_ref()).context(|| {
            format!("cannot read the certificate authority of the context for the sidecar: {file}")
        })?;
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
