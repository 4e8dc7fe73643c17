//! `--where` selects clusters by the version and readiness that real members report.

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::Value;

use crate::plugin;

#[test]
fn clusters_are_selected_by_version_and_readiness() -> Result<()> {
    let caller = Caller::certificate("e2e-where-user", &[])?;
    let scene = Scene::on("m2", "where")?;
    scene.let_list(&caller)?;
    scene.let_in(&caller, &["m1", "m2"], EVERY_VERB)?;
    scene.allow(&caller)?;
    let plugin = plugin(&caller)?;
    let version = eventually("m1 and m2 are ready", SOON, || {
        let ready = plugin.ok(&["clusters", "-o", "name", "--where=ready=True"])?;
        let both = ["/m1\n", "/m2\n"].iter().all(|name| ready.contains(name));
        both.then(|| version(&plugin, "m2")).transpose()
    })?;

    let selected = |filter: &str| -> Result<Vec<String>> {
        let words = ["-C", "m1,m2", "--where", filter, "--dry-run=clusters", "get", "pods"];
        let table = plugin.ok(&words)?;
        Ok(table.lines().skip(1).filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect())
    };
    for (filter, expected) in [
        (format!("status.version={version},name=m2"), &["m2"][..]),
        (format!("status.version>={version},status.version<={version},name!=m1"), &["m2"]),
        ("status.conditions.Reachable=True,version>=1.20".to_owned(), &["m1", "m2"]),
    ] {
        ensure!(selected(&filter)? == expected, "{filter}");
    }
    let attempt = plugin.run(&["-C", "m1,m2", "--where=version<1.20", "get", "pods"])?;
    ensure!(attempt.code == 3, "{attempt:?}");

    // A single match has the output of a selection, and the request reaches the member.
    let found = plugin.ok(&["--where=name=m2", "get", "namespace", &scene.name, "-o", "json"])?;
    let found: Value = serde_json::from_str(&found)?;
    ensure!(found["items"][0]["metadata"]["annotations"]["fleet.kubectl-mc.dev/cluster"] == "m2", "{found}");
    Ok(())
}

fn version(plugin: &Tool, name: &str) -> Result<String> {
    let filter = format!("--where=metadata.name={name}");
    let list: Value = serde_json::from_str(&plugin.ok(&["clusters", "-o", "json", &filter])?)?;
    ensure!(list["items"].as_array().is_some_and(|items| items.len() == 1), "{list}");
    Ok(list["items"][0]["status"]["version"].as_str().context("a version")?.to_owned())
}
