//! A name with a member's suffix leads to that member, for reads and writes.

use anyhow::{Result, ensure};
use harness::wait::SOON;

use super::View;

#[test]
fn qualified_namespace_is_read_and_written() -> Result<()> {
    let view = View::new("fleet-one", &["m1", "m2"])?;
    let kubectl = view.kubectl()?.with(&["-n", "e2e-fleet-one_m2"]);
    kubectl.ok(&["create", "configmap", "a", "--from-literal=k=v"])?;
    kubectl.ok(&["label", "configmap", "a", "seen=yes"])?;
    kubectl.ok(&["patch", "configmap", "a", "-p", r#"{"data":{"k":"w"}}"#])?;
    let stored = view.scenes[1].api.get("/api/v1/namespaces/e2e-fleet-one/configmaps/a")?;
    ensure!(stored["data"]["k"] == "w" && stored["metadata"]["labels"]["seen"] == "yes", "{stored}");
    ensure!(!stored.to_string().contains("_m2") && stored["metadata"]["annotations"].is_null(), "{stored}");
    let manifest = kubectl.ok(&["get", "configmap", "a", "-o", "json"])?;
    ensure!(manifest.contains(r#""namespace": "e2e-fleet-one_m2""#), "{manifest}");
    kubectl
        .run_with_input(&["replace", "-f", "-"], manifest.replace("\"w\"", "\"x\"").as_bytes())?
        .success()?;
    kubectl
        .run_with_input(&["replace", "-f", "-"], manifest.as_bytes())?
        .failure(&["object has been modified"])?;
    kubectl.run_with_input(&["apply", "-f", "-"], manifest.replace("\"w\"", "\"y\"").as_bytes())?;
    kubectl.ok(&["delete", "configmap", "a", "--wait=false"])?;
    kubectl.run(&["get", "configmap", "a"])?.failure(&["not found"])?;
    Ok(())
}

#[test]
fn cluster_scoped_object_is_created_on_its_member() -> Result<()> {
    let view = View::new("fleet-scoped", &["m1", "m2"])?;
    let kubectl = view.kubectl()?;
    kubectl.ok(&["create", "namespace", "e2e-fleet-scoped-new_m2"])?;
    ensure!(view.scenes[1].api.get("/api/v1/namespaces/e2e-fleet-scoped-new").is_ok(), "it is not on m2");
    ensure!(view.scenes[0].api.get("/api/v1/namespaces/e2e-fleet-scoped-new").is_err(), "it is on m1");
    kubectl.run(&["create", "namespace", "e2e-fleet-scoped-none"])?.failure(&["<name>_<member>"])?;
    let can = kubectl.ok(&["auth", "can-i", "delete", "pods", "-n", "e2e-fleet-scoped_m2"])?;
    ensure!(can.trim() == "yes", "{can}");
    kubectl.ok(&["delete", "namespace", "e2e-fleet-scoped-new_m2", "--wait=false"])?;
    Ok(())
}

#[test]
fn watch_of_one_member_is_renamed() -> Result<()> {
    let view = View::new("fleet-one-watch", &["m1"])?;
    let kubectl = view.kubectl()?.with(&["-n", "e2e-fleet-one-watch_m1"]);
    let mut watch = kubectl.start(&["get", "configmaps", "-l", "test=a", "-w", "-o", "name"])?;
    view.config_maps("a")?;
    watch.wait_for("configmap/a", SOON)?;
    Ok(())
}

mod pods {
    use anyhow::{Result, ensure};

    use super::super::View;

    #[test]
    fn pod_is_entered_and_its_log_is_read() -> Result<()> {
        let view = View::new("fleet-exec", &["m1"])?;
        view.scenes[0].pod("p", "echo started; sleep 600")?;
        let kubectl = view.kubectl()?.with(&["-n", "e2e-fleet-exec_m1"]);
        let log = kubectl.ok(&["logs", "p"])?;
        ensure!(log.contains("started"), "{log}");
        let echoed = kubectl.ok(&["exec", "p", "--", "echo", "a_m2"])?;
        ensure!(echoed.trim() == "a_m2", "{echoed}");
        let described = kubectl.ok(&["describe", "pod", "p"])?;
        ensure!(described.contains("Namespace:        e2e-fleet-exec_m1"), "{described}");
        let node = kubectl.ok(&["get", "pod", "p", "-o", "jsonpath={.spec.nodeName}"])?;
        ensure!(node.ends_with("_m1"), "{node}");
        let node = kubectl.ok(&["describe", "node", &node])?;
        ensure!(node.contains("e2e-fleet-exec_m1"), "{node}");
        Ok(())
    }
}
