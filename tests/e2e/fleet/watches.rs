//! Merged watches.

use anyhow::{Context, Result, ensure};
use harness::wait::SOON;
use serde_json::Value;

use super::View;

#[test]
fn watch_has_the_changes_of_all_members() -> Result<()> {
    let view = View::new("fleet-watch", &["m1", "m2", "m3"])?;
    let kubectl = view.kubectl()?;
    let mut table = kubectl.start(&["get", "configmaps", "-A", "-l", "test=a", "-w"])?;
    let path = "/api/v1/namespaces/e2e-fleet-watch/configmaps?watch=1&allowWatchBookmarks=1&sendInitialEvents=true&labelSelector=test%3Da";
    let mut events = kubectl.start(&["get", "--raw", path])?;
    view.config_maps("a")?;
    for member in ["m1", "m2", "m3"] {
        let namespace = format!("e2e-fleet-watch_{member}");
        table.wait_for(&namespace, SOON)?;
        events.wait_for(&namespace, SOON)?;
    }
    events.wait_for("k8s.io/initial-events-end", SOON)?;
    for scene in &view.scenes {
        scene.api.delete("/api/v1/namespaces/e2e-fleet-watch/configmaps/a")?;
    }
    let deleted = |stdout: &[u8], _: &[u8]| {
        String::from_utf8_lossy(stdout).lines().filter(|line| line.contains(r#""type":"DELETED""#)).count()
            == 3
    };
    events.wait_until("three deletions", SOON, deleted)?;
    // A bookmark follows a burst within a second.
    let marked = |stdout: &[u8], _: &[u8]| {
        String::from_utf8_lossy(stdout).lines().next_back().is_some_and(|line| line.contains("BOOKMARK"))
    };
    events.wait_until("a bookmark", SOON, marked)?;
    let text = events.stdout();
    let bookmark = text.lines().rev().find(|line| line.contains("BOOKMARK"));
    ensure!(bookmark.is_some_and(|line| line.contains(r#""resourceVersion":"v1."#)), "{text}");
    Ok(())
}

#[test]
fn watch_from_the_version_of_a_list_has_only_the_changes_since() -> Result<()> {
    let view = View::new("fleet-resume", &["m1", "m2"])?;
    view.config_maps("a")?;
    let kubectl = view.kubectl()?;
    let path = "/api/v1/namespaces/e2e-fleet-resume/configmaps";
    let list: Value = serde_json::from_str(&kubectl.ok(&["get", "--raw", path])?)?;
    let version = list["metadata"]["resourceVersion"].as_str().context("no version")?;
    view.scenes[0].api.delete(&format!("{path}/a"))?;
    view.config_maps("b")?;
    let mut events =
        kubectl.start(&["get", "--raw", &format!("{path}?watch=1&resourceVersion={version}")])?;
    let changes = |stdout: &[u8], _: &[u8]| String::from_utf8_lossy(stdout).lines().count() == 3;
    events.wait_until("three changes", SOON, changes)?;
    let text = events.stdout();
    let mut changes = Vec::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line)?;
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        changes.push(["/type", "/object/metadata/namespace", "/object/metadata/name"].map(text));
    }
    changes.sort();
    let of = |change: &str, member: &str, name: &str| {
        [change, &format!("e2e-fleet-resume_{member}"), name].map(str::to_owned)
    };
    let expected = [of("ADDED", "m1", "b"), of("ADDED", "m2", "b"), of("DELETED", "m1", "a")];
    ensure!(changes == expected, "{text}");
    Ok(())
}

#[test]
fn watch_from_the_version_of_one_object_is_expired() -> Result<()> {
    let view = View::new("fleet-expired", &["m1", "m2"])?;
    view.config_maps("a")?;
    let kubectl = view.kubectl()?;
    let path = "/api/v1/namespaces/e2e-fleet-expired/configmaps";
    let object: Value = serde_json::from_str(&kubectl.ok(&[
        "get",
        "--raw",
        "/api/v1/namespaces/e2e-fleet-expired_m1/configmaps/a",
    ])?)?;
    let version = object["metadata"]["resourceVersion"].as_str().context("no version")?;
    ensure!(version.starts_with("m1."), "{version}");
    let watch = format!("{path}?watch=1&resourceVersion={version}");
    kubectl.run(&["get", "--raw", &watch])?.failure(&["too old"])?;
    Ok(())
}
