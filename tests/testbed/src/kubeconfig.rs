//! Writes kubeconfigs with embedded credentials, so that a copy works anywhere in the bed.

use std::fs;
use std::path::Path;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::certificates::ClientCertificate;

/// The credential of a kubeconfig's user.
pub(crate) enum User<'a> {
    Certificate(&'a ClientCertificate),
    Token(&'a str),
}

/// Writes a kubeconfig of one cluster, one user and one context, all with the cluster's name.
pub(crate) fn write(
    path: &Path,
    name: &str,
    server: &str,
    ca_certificate: &Path,
    user: User<'_>,
) -> Result<()> {
    let authority = STANDARD.encode(fs::read(ca_certificate)?);
    let user = match user {
        User::Certificate(ClientCertificate { certificate, key }) => json!({
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key),
        }),
        User::Token(token) => json!({"token": token}),
    };
    let cluster = json!({"server": server, "certificate-authority-data": authority});
    fs::write(path, serde_json::to_vec_pretty(&kubeconfig(name, &cluster, &user))?)?;
    Ok(())
}

/// JSON, which is YAML too.
fn kubeconfig(name: &str, cluster: &Value, user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    })
}
