//! The inventory, as the plugin and kubectl show it.

use anyhow::{Context, Result, ensure};
use harness::bed::{bed, host};
use harness::caller::Caller;
use harness::scene::{Scene, grant};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::plugin;

#[test]
fn the_plugin_shows_the_clusters_as_a_table() -> Result<()> {
    let caller = reader("clusters-table")?;
    let table = plugin(&caller)?.ok(&["clusters"])?;
    assert_is_table(&table)
}

#[test]
fn kubectl_shows_the_clusters_as_the_same_table() -> Result<()> {
    let caller = reader("clusters-kubectl")?;
    let table = Tool::kubectl(&caller)?.ok(&["get", CLUSTERS])?;
    assert_is_table(&table)
}

#[test]
fn wide_is_a_table_too() -> Result<()> {
    let caller = reader("clusters-wide")?;
    assert_is_table(&plugin(&caller)?.ok(&["clusters", "-o", "wide"])?)?;
    assert_is_table(&Tool::kubectl(&caller)?.ok(&["get", CLUSTERS, "-o", "wide"])?)
}

#[test]
fn json_and_yaml_hold_every_cluster() -> Result<()> {
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
fn a_field_selects_a_cluster() -> Result<()> {
    let caller = reader("clusters-fields")?;
    let words = ["get", CLUSTERS, "--field-selector", "metadata.name=m2", "-o", "name"];
    assert_eq!(Tool::kubectl(&caller)?.ok(&words)?, "cluster.proxy.kubectl-mc.dev/m2\n");
    Ok(())
}

#[test]
fn listing_without_the_right_is_refused() -> Result<()> {
    let stranger = Caller::certificate("e2e-clusters-stranger", &[])?;
    let attempt = plugin(&stranger)?.run(&["clusters"])?;
    attempt.failure(&["orbidden", "e2e-clusters-stranger", "list"])?;
    Ok(())
}

#[test]
fn right_to_one_cluster_allows_list_and_watch_of_it() -> Result<()> {
    let caller = Caller::certificate("e2e-clusters-one", &[])?;
    let rule = json!({
        "apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters"], "resourceNames": ["m2"],
        "verbs": ["get", "list", "watch"],
    });
    let right =
        json!({"group": "proxy.kubectl-mc.dev", "resource": "clusters", "verb": "list", "name": "m2"});
    grant(&host()?, "e2e-clusters-one", &caller, &rule, &right)?;
    let list = |selector: &str| {
        let words = ["get", CLUSTERS, "-o", "name", "--field-selector", selector];
        Tool::kubectl(&caller)?.run(&words)
    };
    assert_eq!(list("metadata.name=m2")?.success()?, "cluster.proxy.kubectl-mc.dev/m2\n");
    for other in ["metadata.name=m1", "metadata.name!=m1", ""] {
        list(other)?.failure(&["orbidden", "e2e-clusters-one", "list"])?;
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

/// Somebody who may list the clusters, and nothing else.
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
