//! Merged watches.

use anyhow::{Result, ensure};
use harness::wait::SOON;

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
