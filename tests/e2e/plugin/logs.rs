//! `logs` prints the output of pods, and follows it without a delay.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use harness::scene::Scene;
use harness::wait::{SOON, eventually};

use crate::plugin_in;

#[test]
fn logs_are_the_pods_output() -> Result<()> {
    let scene = Scene::new("logs")?;
    let caller = scene.caller()?;
    scene.pod("talker", "echo one; echo two")?;
    let plugin = plugin_in(&scene, &caller)?;
    eventually("both lines are in the log", SOON, || {
        Ok((plugin.ok(&["logs", "talker"])? == "one\ntwo\n").then_some(()))
    })
}

#[test]
fn followed_logs_run_over_a_minute_without_delay() -> Result<()> {
    let scene = Scene::new("logs-follow")?;
    let caller = scene.caller()?;
    // Each line contains its time: the pod and the test share a clock.
    scene.pod("clock", "for n in 0 1 2 3 4 5 6 7; do echo \"line $n $(date +%s)\"; sleep 10; done")?;
    let mut logs = plugin_in(&scene, &caller)?.start(&["logs", "--follow", "clock"])?;
    for line in 0..8 {
        let words = format!("line {line} ");
        logs.wait_until(&words, Duration::from_secs(60), |said, _| {
            String::from_utf8_lossy(said).lines().any(|other| other.starts_with(&words))
                && said.ends_with(b"\n")
        })?;
        let said = logs.stdout();
        let written = said.lines().find_map(|other| other.strip_prefix(&words)).context("no line")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let delay = now.saturating_sub(written.parse()?);
        // The pod may have written the first lines before `logs` started.
        ensure!(line < 2 || delay <= 3, "line {line} came {delay} s late");
    }
    let output = logs.finish(SOON)?;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.text().lines().count(), 8, "{output:?}");
    Ok(())
}
