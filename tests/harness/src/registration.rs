//! Members that the host is told of.

use anyhow::Result;
use serde_json::{Value, json};

use crate::bed::{SYSTEM, host};

/// Registers a member on the host; `data` are its Secret's keys.
pub fn register(name: &str, data: &Value) -> Result<()> {
    let host = host()?;
    let secret = format!("{name}.member");
    host.apply(
        &format!("/api/v1/namespaces/{SYSTEM}/secrets/{secret}"),
        &json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret},
            "type": "fleet.kubectl-mc.dev/member", "stringData": data,
        }),
    )?;
    host.apply(
        &format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{name}"),
        &json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
            "metadata": {"name": name}, "spec": {},
        }),
    )?;
    Ok(())
}

/// Takes a member away from the host.
pub fn remove(name: &str) -> Result<()> {
    let host = host()?;
    host.delete(&format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{name}"))?;
    host.delete(&format!("/api/v1/namespaces/{SYSTEM}/secrets/{name}.member"))?;
    Ok(())
}
