//! The plugin and kubectl show the inventory of clusters.

use anyhow::{Context, Result, ensure};
use harness::bed::{bed, host};
use harness::caller::Caller;
use harness::scene::Scene;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::plugin;

#[test]
fn plugin_shows_clusters_as_a_table() -> Result<()> {
    let caller = reader("clusters-table")?;
    let table = plugin(&caller)?.ok(&["clusters"])?;
    assert_is_table(&table)
}

#[test]
fn kubectl_shows_clusters_as_the_same_table() -> Result<()> {
    let caller = reader("clusters-kubectl")?;
    let table = Tool::kubectl(&caller)?.ok(&["get", CLUSTERS])?;
    assert_is_table(&table)
}

#[test]
fn wide_output_is_a_table() -> Result<()> {
    let caller = reader("clusters-wide")?;
    assert_is_table(&plugin(&caller)?.ok(&["clusters", "-o", "wide"])?)?;
    assert_is_table(&Tool::kubectl(&caller)?.ok(&["get", CLUSTERS, "-o", "wide"])?)
}

#[test]
fn json_and_yaml_contain_every_cluster() -> Result<()> {
    let caller = reader("clusters-json")?;
    let list: Value = serde_json::from_str(&plugin(&caller)?.ok(&["clusters", "-o", "json"])?)?;
    let items = list["items"].as_array().context("no items")?;
    for name in bed()?.members.keys() {
        ensure!(items.iter().any(|item| item["metadata"]["name"] == name.as_str()), "{name}: {list}");
    }
    assert!(list["items"][0]["apiVersion"] == "proxy.kubectl-mc.dev/v1alpha1", "{list}");
    let yaml = plugin(&caller)?.ok(&["clusters", "-o", "yaml"])?;
    assert!(yaml.contains("name: m1"), "{yaml}");
    Ok(())
}

#[test]
fn name_output_matches_kubectls() -> Result<()> {
    let caller = reader("clusters-name")?;
    let ours = plugin(&caller)?.ok(&["clusters", "-o", "name"])?;
    let kubectls = Tool::kubectl(&caller)?.ok(&["get", CLUSTERS, "-o", "name"])?;
    for name in bed()?.members.keys() {
        let line = format!("cluster.proxy.kubectl-mc.dev/{name}");
        assert!(ours.lines().any(|other| other == line), "{ours}");
        assert!(kubectls.lines().any(|other| other == line), "{kubectls}");
    }
    Ok(())
}

#[test]
fn get_shows_one_cluster_by_name() -> Result<()> {
    let caller = reader("clusters-one")?;
    assert_eq!(
        Tool::kubectl(&caller)?.ok(&["get", CLUSTERS, "m2", "-o", "name"])?,
        "cluster.proxy.kubectl-mc.dev/m2\n"
    );
    let attempt = Tool::kubectl(&caller)?.run(&["get", CLUSTERS, "nowhere"])?;
    attempt.failure(&["(NotFound)", "\"nowhere\" not found"])?;
    Ok(())
}

#[test]
fn watch_shows_a_new_cluster_and_its_removal() -> Result<()> {
    let caller = reader("clusters-watch")?;
    let mut watch = Tool::kubectl(&caller)?.start(&["get", CLUSTERS, "-w", "--output-watch-events"])?;
    watch.wait_until("m1 is there", SOON, |said, _| event(said, "ADDED", "m1"))?;
    register("e2e-watched", &json!({}))?;
    watch.wait_until("it is added", SOON, |said, _| event(said, "ADDED", "e2e-watched"))?;
    host()?.delete(&format!("{MEMBER_CLUSTERS}/e2e-watched"))?;
    watch.wait_until("it is deleted", SOON, |said, _| event(said, "DELETED", "e2e-watched"))
}

#[test]
fn labels_select_clusters() -> Result<()> {
    let caller = reader("clusters-labels")?;
    register("e2e-labelled", &json!({"e2e": "labelled"}))?;
    let kubectl = Tool::kubectl(&caller)?;
    let selected = eventually("the label is known", SOON, || {
        let names = kubectl.ok(&["get", CLUSTERS, "-l", "e2e=labelled", "-o", "name"])?;
        Ok((!names.is_empty()).then_some(names))
    })?;
    assert_eq!(selected, "cluster.proxy.kubectl-mc.dev/e2e-labelled\n");
    Ok(())
}

#[test]
fn field_selector_selects_a_cluster() -> Result<()> {
    let caller = reader("clusters-fields")?;
    let words = ["get", CLUSTERS, "--field-selector", "metadata.name=m2", "-o", "name"];
    assert_eq!(Tool::kubectl(&caller)?.ok(&words)?, "cluster.proxy.kubectl-mc.dev/m2\n");
    Ok(())
}

#[test]
fn caller_sees_the_clusters_they_may_enter() -> Result<()> {
    let (scene, caller) = (Scene::on("m2", "clusters-own")?, Caller::certificate("e2e-clusters-own", &[])?);
    let stranger = Caller::certificate("e2e-clusters-stranger", &[])?;
    scene.let_in(&caller, &["m2"], &["get"])?;
    let kubectl = Tool::kubectl(&caller)?;
    eventually("the cluster is listed", SOON, || {
        let names = kubectl.ok(&["get", CLUSTERS, "-o", "name"])?;
        ensure!(names.is_empty() || names == "cluster.proxy.kubectl-mc.dev/m2\n", "{names}");
        Ok((!names.is_empty()).then_some(()))
    })?;
    for (selector, seen) in [("metadata.name=m2", 1), ("metadata.name=m1", 0), ("metadata.name!=m2", 0)] {
        let names = kubectl.ok(&["get", CLUSTERS, "-o", "name", "--field-selector", selector])?;
        ensure!(names.lines().count() == seen, "{selector}: {names}");
    }
    ensure!(
        Tool::kubectl(&stranger)?.ok(&["get", CLUSTERS, "-o", "name"])?.is_empty(),
        "a stranger sees some"
    );
    // A cluster that the caller may not access looks like one that does not exist.
    let of_other = kubectl.run(&["get", CLUSTERS, "m1"])?.failure(&["(NotFound)"])?;
    let of_none = kubectl.run(&["get", CLUSTERS, "nowhere"])?.failure(&["(NotFound)"])?;
    assert_eq!(of_other.replace("m1", "nowhere"), of_none);

    // Patterns select it too, without any other right on the host.
    for choice in [&["--all-clusters"][..], &["-C", "m*"], &["-C", "*"]] {
        let table = plugin(&caller)?.ok(&[choice, &["--dry-run=clusters", "get", "pods"]].concat())?;
        let names: Vec<_> = table.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, ["m2"], "{table}");
    }
    Ok(())
}

fn assert_is_table(table: &str) -> Result<()> {
    let header: Vec<_> = table.lines().next().context("nothing is shown")?.split_whitespace().collect();
    for column in ["NAME", "READY", "VERSION", "AGE"] {
        ensure!(header.contains(&column), "no column {column}: {table}");
    }
    for name in bed()?.members.keys() {
        ensure!(
            table.lines().any(|line| line.split_whitespace().next() == Some(name)),
            "no line for {name}: {table}"
        );
    }
    Ok(())
}

fn event(said: &[u8], kind: &str, name: &str) -> bool {
    String::from_utf8_lossy(said).lines().any(|line| line.split_whitespace().take(2).eq([kind, name]))
}

/// A user who may read in all clusters.
fn reader(name: &str) -> Result<Caller> {
    let caller = Caller::certificate(&format!("e2e-{name}-user"), &[])?;
    Scene::on("m2", name)?.let_list(&caller)?;
    Ok(caller)
}

/// A member that has no connection yet.
fn register(name: &str, labels: &Value) -> Result<()> {
    let object = json!({
        "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels}, "spec": {},
    });
    host()?.apply(&format!("{MEMBER_CLUSTERS}/{name}"), &object)?;
    Ok(())
}

const CLUSTERS: &str = "clusters.proxy.kubectl-mc.dev";
const MEMBER_CLUSTERS: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters";
