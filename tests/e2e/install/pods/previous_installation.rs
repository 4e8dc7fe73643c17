//! An installation of the previous version is upgraded to today's: with Helm, and with the plugin.

use anyhow::{Context, Result, ensure};
use harness::bed::SYSTEM;
use harness::spare_host::SIDECAR;
use harness::tool::Tool;
use testbed::programs;

use crate::install::pods::in_pods::Scene;
use crate::install::slow::previous_version::previous;

#[test]
fn chart_is_upgraded() -> Result<()> {
    let scene = Scene::take()?;
    let helm = Tool::plugin_at(&programs::build_helm()?, &[scene.host.cluster])?;
    let (repository, tag) = SIDECAR.rsplit_once(':').context("no tag")?;
    let namespace = format!("--namespace={SYSTEM}");
    let repository = format!("--set=image.repository={repository}");
    let tag = format!("--set-string=image.tag={tag}");
    let chart = previous("chart")?.display().to_string();
    let wait = [&namespace, "--wait", "--timeout=2m"];
    let values = [&repository, &tag, "--set=image.pullPolicy=Never,replicas=1"];
    helm.ok(&[&["install", "proxy", &chart, "--create-namespace"], &wait[..], &values].concat())?;
    helm.ok(&[&["upgrade", "proxy", CHART], &wait[..], &values].concat())?;
    helm.ok(&["test", "proxy", &namespace, "--timeout=2m"])?;
    serves(&scene)?;
    helm.ok(&[&["uninstall", "proxy"], &wait[..]].concat()).map(drop)
}

#[test]
fn installation_of_the_plugin_is_upgraded() -> Result<()> {
    let scene = Scene::take()?;
    let old = scene.host.plugin(&previous("kubectl-mc")?)?;
    old.ok(&["install", "--image", SIDECAR, "--image-pull-policy=Never"])?;
    scene.install(&[])?.success()?;
    serves(&scene)?;
    let clusters = old.run(&["clusters"])?;
    ensure!(clusters.code == 0 && clusters.stderr.starts_with("No clusters found"), "{clusters:?}");
    scene.uninstall().map(drop)
}

fn serves(scene: &Scene) -> Result<()> {
    let clusters = scene.plugin.run(&["clusters"])?;
    ensure!(clusters.code == 0 && clusters.stderr.starts_with("No clusters found"), "{clusters:?}");
    Ok(())
}

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar/deploy/chart");
