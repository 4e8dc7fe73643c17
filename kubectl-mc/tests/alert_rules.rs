//! Checks the alert rules with promtool: the rules are valid, and each alert fires on its fault and only
//! then.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

#[test]
fn promtool_accepts_the_alert_rules() -> Result<()> {
    promtool(&["check", "rules", "--lint=all", "--lint-fatal", "sidecar/deploy/alerts.yaml"])
}

#[test]
fn alerts_fire_on_faults_only() -> Result<()> {
    promtool(&["test", "rules", "tests/prometheus/alerts_test.yaml"])
}

fn promtool(arguments: &[&str]) -> Result<()> {
    let [_, promtool] = testbed::programs::build_prometheus()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(promtool).args(arguments).current_dir(root).output()?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(output.status.success(), "{}", said.concat());
    Ok(())
}
