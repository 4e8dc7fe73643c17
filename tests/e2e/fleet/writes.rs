//! Objects that are written by the view are stored with the member's own names, whatever format they come in.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::View;

#[test]
fn references_of_created_objects_are_the_members_own() -> Result<()> {
    let view = View::new("fleet-create", &["m1", "m2"])?;
    let kubectl = view.kubectl()?.with(&["-n", "e2e-fleet-create_m2"]);
    // kubectl create sends protobuf.
    let account = "--serviceaccount=e2e-fleet-create_m2:default";
    kubectl.ok(&["create", "rolebinding", "b", "--clusterrole=view_m2", account])?;
    kubectl.ok(&["create", "configmap", "text", "--from-literal=k=e2e-fleet-create_m2"])?;
    let api = &view.scenes[1].api;
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/e2e-fleet-create/rolebindings/b";
    let stored = api.get(path)?;
    ensure!(stored["roleRef"]["name"] == "view", "{stored}");
    ensure!(stored["subjects"][0]["namespace"] == "e2e-fleet-create", "{stored}");
    let text = api.get("/api/v1/namespaces/e2e-fleet-create/configmaps/text")?;
    ensure!(text["data"]["k"] == "e2e-fleet-create_m2", "{text}");
    let shown: Value = serde_json::from_str(&kubectl.ok(&["get", "rolebinding", "b", "-o", "json"])?)?;
    ensure!(shown["roleRef"]["name"] == "view_m2", "{shown}");
    let account = "--serviceaccount=e2e-fleet-create_m1:default";
    kubectl
        .run(&["create", "rolebinding", "c", "--clusterrole=view_m2", account])?
        .failure(&["subjects[].namespace", "is not a name on member m2"])?;
    Ok(())
}

#[test]
fn second_apply_changes_nothing() -> Result<()> {
    let view = View::new("fleet-apply", &["m1", "m2"])?;
    let kubectl = view.kubectl()?;
    let binding = |label: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "b", "namespace": "e2e-fleet-apply_m2", "labels": {"l": label}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view_m2"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "e2e-fleet-apply_m2"}],
        })
        .to_string()
    };
    let apply = |words: &[&str], label: &str| {
        kubectl.run_with_input(&[&["apply", "-f", "-"], words].concat(), binding(label).as_bytes())?.success()
    };
    for (words, label, outcome) in [
        (&[][..], "a", "created"),
        (&[], "a", "unchanged"),
        (&[], "b", "configured"),
        (&["--server-side", "--force-conflicts"], "c", "serverside-applied"),
    ] {
        let applied = apply(words, label)?;
        ensure!(applied.trim_end().ends_with(outcome), "{label}: {applied}");
    }
    let api = &view.scenes[1].api;
    let stored = api.get("/apis/rbac.authorization.k8s.io/v1/namespaces/e2e-fleet-apply/rolebindings/b")?;
    ensure!(!stored.to_string().contains("_m2") && stored["metadata"]["labels"]["l"] == "c", "{stored}");
    Ok(())
}

#[test]
fn version_of_the_view_is_compared_by_each_kind_of_write() -> Result<()> {
    let view = View::new("fleet-versions", &["m1", "m2"])?;
    let kubectl = view.kubectl()?.with(&["-n", "e2e-fleet-versions_m2"]);
    kubectl.ok(&["create", "deployment", "d", "--image=i", "--replicas=0"])?;
    let version = || kubectl.ok(&["get", "deployment", "d", "-o", "jsonpath={.metadata.resourceVersion}"]);
    let stale = version()?;
    ensure!(stale.starts_with("m2."), "{stale}");
    kubectl.ok(&["label", "deployment", "d", "seen=yes"])?;
    let conflict = "the object has been modified";
    let scale = |version: &str| {
        kubectl.run(&["scale", "deployment", "d", "--replicas=0", "--resource-version", version])
    };
    // kubectl compares the versions itself.
    scale(&stale)?.failure(&["Expected resource version"])?;
    scale(&version()?)?.success()?;
    let merge = |version: &str| {
        let patch = json!({"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}).to_string();
        kubectl.run(&["patch", "deployment", "d", "--type=merge", "-p", &patch])
    };
    merge(&stale)?.failure(&[conflict])?;
    let test = |version: &str| {
        let operations = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/metadata/labels/json", "value": "yes"},
        ]);
        kubectl.run(&["patch", "deployment", "d", "--type=json", "-p", &operations.to_string()])
    };
    test(&stale)?.failure(&[])?;
    test(&version()?)?.success()?;
    let foreign = version()?.replace("m2.", "m1.");
    merge(&foreign)?.failure(&["is not a version of member m2"])?;
    kubectl.ok(&["delete", "deployment", "d"])?;
    Ok(())
}

#[test]
fn patch_to_another_member_is_refused() -> Result<()> {
    let view = View::new("fleet-moved", &["m1", "m2"])?;
    view.config_maps("a")?;
    let kubectl = view.kubectl()?.with(&["-n", "e2e-fleet-moved_m2"]);
    let namespace = json!({"metadata": {"namespace": "e2e-fleet-moved_m1"}}).to_string();
    let annotation = json!({"metadata": {"annotations": {"fleet.kubectl-mc.dev/cluster": "m1"}}}).to_string();
    let operation = json!([{"op": "replace", "path": "/metadata/namespace", "value": "e2e-fleet-moved_m1"}]);
    for (kind, patch) in [
        ("--type=merge", &namespace),
        ("--type=strategic", &namespace),
        ("--type=merge", &annotation),
        ("--type=json", &operation.to_string()),
    ] {
        let refused = kubectl.run(&["patch", "configmap", "a", kind, "-p", patch])?;
        refused.failure(&["m2"])?;
    }
    Ok(())
}
