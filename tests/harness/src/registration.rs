//! Registers members on the host.

use anyhow::Result;
use serde_json::{Value, json};

use crate::bed::{SYSTEM, host};

/// Registers a member on the host; `data` has its Secret's keys.
pub fn register(name: &str, data: &Value) -> Result<()> {
    register_in(SYSTEM, name, data)
}

/// The same with its Secret in the namespace of the test's own sidecar.
pub fn register_in(namespace: &str, name: &str, data: &Value) -> Result<()> {
    secret(namespace, &format!("{name}.member"), data)?;
    host()?.apply(
        &format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{name}"),
        &json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
            "metadata": {"name": name}, "spec": {},
        }),
    )?;
    Ok(())
}

/// Creates a Secret of a member.
pub fn secret(namespace: &str, name: &str, data: &Value) -> Result<()> {
    host()?.apply(
        &format!("/api/v1/namespaces/{namespace}/secrets/{name}"),
        &json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "type": "fleet.kubectl-mc.dev/member", "stringData": data,
        }),
    )?;
    Ok(())
}

/// Removes a member's registration from the host.
pub fn remove(name: &str) -> Result<()> {
    let host = host()?;
    host.delete(&format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{name}"))?;
    host.delete(&format!("/api/v1/namespaces/{SYSTEM}/secrets/{name}.member"))?;
    Ok(())
}
