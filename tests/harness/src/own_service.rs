//! Creates a Service on the bed's host that points to a test's own sidecar, for APIServices.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::api::Api;
use crate::own_sidecar::OwnSidecar;
use crate::wait::{SOON, eventually};

/// Creates the Service in a namespace, and returns the reference for an APIService.
pub fn reference(host: &Api, namespace: &str, sidecar: &OwnSidecar) -> Result<Value> {
    let name = "mc-sidecar";
    let (address, port) =
        sidecar.sidecar.url.trim_start_matches("https://").rsplit_once(':').context("no port")?;
    let port: u16 = port.parse()?;
    let is_loopback = address.starts_with("127.");
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}});
    service["spec"] = match is_loopback {
        true => json!({"type": "ExternalName", "externalName": "localhost"}),
        false => json!({"ports": [{"name": "https", "port": 443, "targetPort": port}]}),
    };
    if !is_loopback {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        });
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}");
        host.apply(&path, &slice)?;
    }
    host.apply(&format!("/api/v1/namespaces/{namespace}/services/{name}"), &service)?;
    let port = if is_loopback { port } else { 443 };
    Ok(json!({"namespace": namespace, "name": name, "port": port}))
}

/// Waits until the host can use an APIService.
pub fn available(host: &Api, api_service: &str) -> Result<()> {
    eventually("the host serves the group", SOON, || {
        let conditions = host.get(api_service)?["status"]["conditions"].clone();
        let is_available =
            |condition: &Value| condition["type"] == "Available" && condition["status"] == "True";
        let mut conditions = conditions.as_array().into_iter().flatten();
        Ok(conditions.any(is_available).then_some(()))
    })
}
