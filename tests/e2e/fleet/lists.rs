//! Merged lists, objects and documents.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::View;

#[test]
fn list_has_the_objects_of_all_members() -> Result<()> {
    let view = View::new("fleet-list", &["m1", "m2", "m3"])?;
    view.config_maps("a")?;
    let kubectl = view.kubectl()?;
    let list: Value = serde_json::from_str(&kubectl.ok(&[
        "get",
        "--raw",
        "/api/v1/namespaces/e2e-fleet-list/configmaps?labelSelector=test%3Da",
    ])?)?;
    let found: Vec<_> = list["items"]
        .as_array()
        .context("no items")?
        .iter()
        .map(|item| {
            let text = |pointer| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            (
                text("/metadata/namespace"),
                text("/data/of"),
                text("/metadata/annotations/fleet.kubectl-mc.dev~1cluster"),
            )
        })
        .collect();
    let expected: Vec<_> =
        ["m1", "m2", "m3"].map(|m| (format!("e2e-fleet-list_{m}"), m.to_owned(), m.to_owned())).into();
    ensure!(found == expected, "{list}");
    ensure!(
        list["metadata"]["resourceVersion"].as_str().is_some_and(|version| version.starts_with("v1.")),
        "{list}"
    );
    Ok(())
}

#[test]
fn kubectl_shows_all_members_in_one_table() -> Result<()> {
    let view = View::new("fleet-table", &["m1", "m2", "m3"])?;
    view.config_maps("a")?;
    let kubectl = view.kubectl()?;
    let all = kubectl.ok(&["get", "configmaps", "-A", "-l", "test=a", "--no-headers"])?;
    for member in ["m1", "m2", "m3"] {
        ensure!(all.contains(&format!("e2e-fleet-table_{member} ")), "{all}");
    }
    let unqualified = kubectl.ok(&["get", "configmaps", "-n", "e2e-fleet-table", "-l", "test=a"])?;
    ensure!(unqualified.starts_with("CLUSTER") && unqualified.lines().count() == 4, "{unqualified}");
    let namespaces = kubectl.ok(&["get", "namespaces"])?;
    ensure!(namespaces.contains("kube-system_m1 ") && namespaces.contains("kube-system_m3 "), "{namespaces}");
    Ok(())
}

#[test]
fn unqualified_name_needs_a_single_holder() -> Result<()> {
    let view = View::new("fleet-get", &["m1", "m2"])?;
    view.config_maps("a")?;
    let path = "/api/v1/namespaces/e2e-fleet-get/configmaps/b";
    let object = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"of": "m2"}});
    view.scenes[1].api.apply(path, &object)?;
    let kubectl = view.kubectl()?;
    let of = kubectl.ok(&[
        "get",
        "configmap",
        "b",
        "-n",
        "e2e-fleet-get",
        "-o",
        "jsonpath={.data.of} {.metadata.namespace}",
    ])?;
    ensure!(of == "m2 e2e-fleet-get_m2", "{of}");
    kubectl.run(&["get", "configmap", "a", "-n", "e2e-fleet-get"])?.failure(&["m1, m2", "a_m1"])?;
    kubectl.run(&["get", "configmap", "c", "-n", "e2e-fleet-get"])?.failure(&["not found"])?;
    Ok(())
}

#[test]
fn discovery_and_schemas_are_served() -> Result<()> {
    let view = View::new("fleet-discovery", &["m1", "m2"])?;
    let kubectl = view.kubectl()?;
    let resources = kubectl.ok(&["api-resources", "--no-headers", "-o", "name"])?;
    ensure!(resources.lines().any(|line| line == "deployments.apps"), "{resources}");
    let explained = kubectl.ok(&["explain", "configmap.data"])?;
    ensure!(explained.contains("map[string]string"), "{explained}");
    let versions = kubectl.ok(&["api-versions"])?;
    ensure!(versions.lines().any(|line| line == "apps/v1"), "{versions}");
    kubectl.ok(&["version"])?;
    Ok(())
}
