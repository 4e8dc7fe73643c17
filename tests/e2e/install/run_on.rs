//! `kubectl mc install --run-on`: a host whose sidecars are pods of another cluster.

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::bed::spare;
use harness::leftovers::Clean;
use harness::spare_host::{SIDECAR, listing};
use harness::tool::Tool;

use crate::install::in_pods::{Scene, program};

#[test]
fn sidecars_run_in_another_cluster_for_a_host_without_nodes() -> Result<()> {
    let scene = Scene::take()?;
    let clean = Clean::take(spare("s3")?)?;
    let (runs, host) = (scene.host.cluster, clean.cluster);
    let plugin = Tool::plugin_at(program(), &[host, runs])?;
    let before = (listing(host)?, listing(runs)?);
    let nodes = Api::admin(runs)?.get("/api/v1/nodes")?;
    let address = nodes["items"][0]["status"]["addresses"][0]["address"].as_str().context("no address")?;
    let endpoint = format!("--endpoint={address}:10260");
    let install = [
        "install",
        "--image",
        SIDECAR,
        "--image-pull-policy=Never",
        "--replicas=1",
        "--host-network",
        "--run-on=s1",
        &endpoint,
    ];
    let told = plugin.run(&install)?.success()?;
    ensure!(told.contains("deployment.apps/mc-sidecar created"), "{told}");
    let clusters = plugin.run(&["clusters"])?;
    ensure!(clusters.code == 0 && clusters.stderr.contains("No resources found"), "{clusters:?}");
    plugin.ok(&["uninstall", "--run-on=s1"])?;
    ensure!((listing(host)?, listing(runs)?) == before, "something is left");
    Ok(())
}
