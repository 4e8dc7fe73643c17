//! Replaces the pods of an agent whose connection to the host has changed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubectl_mc_api::manifests::HostConnection;
use kubectl_mc_api::names::{AGENT, AGENT_NAMESPACE};
use serde_json::{Value, json};

use super::found::Found;
use crate::cache::hash;
use crate::cluster::connection::{Connection, ConnectionError};

/// Replaces the pods of an agent whose Secret has another connection than they started with. Returns `false`
/// if the agent's Deployment belongs to another tool, or cannot be read.
pub(crate) async fn replace_pods(member: &Connection, secret: &Value) -> Result<bool, ConnectionError> {
    let found = Found::of(member).await?;
    if found.deployment.is_none() || found.owner().is_some() {
        return Ok(false);
    }
    let annotations = json!({CONNECTION: identifier(&connection(secret))});
    let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    let path = format!("/apis/apps/v1/namespaces/{AGENT_NAMESPACE}/deployments/{AGENT}");
    member.merge(&path, &patch).await?;
    Ok(true)
}

/// Identifies a connection to the host, without the token.
pub(super) fn identifier(connection: &HostConnection) -> String {
    hash(connection.secret().to_string().as_bytes())
}

/// The connection in an agent's Secret.
fn connection(secret: &Value) -> HostConnection {
    let text = |key: &str| {
        let value = STANDARD.decode(secret["data"][key].as_str()?).ok()?;
        String::from_utf8(value).ok()
    };
    HostConnection {
        server: text("server").unwrap_or_default(),
        ca: text("ca.crt"),
        tls_server_name: text("tls-server-name"),
        proxy_url: text("proxy-url"),
    }
}

/// Annotation of an agent's pods: a hash of the connection to the host, without the token.
pub(super) const CONNECTION: &str = "fleet.kubectl-mc.dev/agent-connection";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_of_a_secret_has_the_identifier_of_its_plan() {
        let host = HostConnection {
            server: "https://h".to_owned(),
            ca: Some("PEM".to_owned()),
            tls_server_name: Some("kubernetes".to_owned()),
            proxy_url: Some("http://proxy:3128".to_owned()),
        };
        let mut secret = serde_json::to_value(host.secret()).unwrap();
        secret["data"]["token"] = "dA==".into();
        assert_eq!(connection(&secret), host);
        assert_eq!(identifier(&connection(&secret)), identifier(&host));
    }
}
