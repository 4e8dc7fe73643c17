//! The Helm chart installs a working sidecar, and `helm test` checks it.

use anyhow::{Context, Result, ensure};
use harness::bed::SYSTEM;
use harness::spare_host::SIDECAR;
use harness::tool::Tool;
use testbed::programs;

use crate::install::pods::in_pods::Scene;

#[test]
fn helm_test_checks_the_host_in_a_pod_of_the_image() -> Result<()> {
    let scene = Scene::take()?;
    let helm = Tool::plugin_at(&programs::build_helm()?, &[scene.host.cluster])?;
    let (repository, tag) = SIDECAR.rsplit_once(':').context("no tag")?;
    let repository = format!("--set=image.repository={repository}");
    let tag = format!("--set-string=image.tag={tag}");
    let namespace = format!("--namespace={SYSTEM}");
    let values = [&repository, &tag, "--set=image.pullPolicy=Never,replicas=1"];
    let install = ["install", "proxy", CHART, &namespace, "--create-namespace", "--wait", "--timeout=2m"];
    helm.ok(&[&install[..], &values].concat())?;

    let tested = helm.ok(&["test", "proxy", &namespace, "--timeout=2m"])?;
    ensure!(tested.contains("TEST SUITE:     proxy-test\n"), "{tested}");
    ensure!(tested.contains("Phase:          Succeeded\n"), "{tested}");
    let kubectl = Tool::admin(scene.host.cluster)?;
    let left = kubectl.ok(&["-n", SYSTEM, "get", "pod/proxy-test", "--ignore-not-found", "-o", "name"])?;
    ensure!(left.is_empty(), "the pod of the test is left");

    // The plugin finds the chart's installation.
    let clusters = scene.plugin.run(&["clusters"])?;
    ensure!(clusters.code == 0 && clusters.stderr.starts_with("No clusters found"), "{clusters:?}");
    helm.ok(&["uninstall", "proxy", &namespace, "--wait", "--timeout=2m"]).map(drop)
}

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar/deploy/chart");
