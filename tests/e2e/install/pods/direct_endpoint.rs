//! `kubectl mc install --expose` gives the sidecars their own address, which the plugin finds and
//! uses. The test is the load balancer: it gives the Service an address in the node's network.

use anyhow::{Result, ensure};
use harness::both_sides::alone;
use harness::spare_host::{SIDECAR, listing};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::install::pods::in_pods::{Scene, program};
use crate::install::pods::platforms::network::WayToService;

#[test]
fn load_balancer_reaches_members_past_the_host() -> Result<()> {
    let (scene, alone) = (Scene::take()?, alone()?);
    let before = listing(scene.host.cluster)?;
    let install = ["install", "--image", SIDECAR, "--image-pull-policy=Never"];
    let running = scene.plugin.start(&[&install[..], &["--expose=LoadBalancer"]].concat())?;
    let api = scene.api()?;
    // The address arrives late, and the installation of the sidecars waits for it.
    eventually("the Service is there", SOON, || {
        Ok((api.request("GET", SERVICE, "", "")?.status() == 200).then_some(()))
    })?;
    ensure!(api.request("GET", DEPLOYMENT, "", "")?.status() == 404, "the sidecars have no name to serve");
    give_address(&scene)?;
    let way = WayToService::to(&scene, ADDRESS.parse()?)?;
    let told = running.finish(8 * SOON)?.success()?;
    ensure!(told.contains("configmap/kubectl-mc created"), "{told}");
    ensure!(told.matches("service/mc-sidecar-direct").count() == 1, "{told}");
    let published = eventually("the CA is published", SOON, || {
        let data = api.get(CONFIG_MAP)?["data"].clone();
        Ok(data["ca.crt"].is_string().then_some(data))
    })?;
    ensure!(published["server"] == format!("https://{ADDRESS}"), "{published}");

    let plugin = Tool::plugin_at(program(), &[scene.host.cluster, alone.cluster])?;
    let member = format!("--member-context={}", alone.cluster.name);
    plugin.ok(&["join", "far", &member])?;
    let direct = |more: &[&str]| plugin.run(&[&["-v=1", "--route=direct", "-C", "far"], more].concat());
    let names = direct(&["get", "namespaces", "-o", "name"])?;
    ensure!(names.code == 0 && names.text().contains("namespace/default"), "{names:?}");
    // The plugin also chooses this route by itself.
    let auto = plugin.run(&["-v=1", "-C", "far", "get", "namespaces"])?;
    let chosen = format!("\"Chose route\" route=\"direct\" server=\"https://{ADDRESS}\"");
    ensure!(auto.code == 0 && auto.stderr.contains(&chosen), "{auto:?}");
    // The sidecar authorizes each item of an impersonation: an administrator may use all of them.
    let as_another = direct(&["--as=jane", "--as-group=system:masters", "get", "namespaces"])?;
    ensure!(as_another.code == 0, "{as_another:?}");
    direct(&["--as=jane", "get", "namespaces"])?.failure(&["jane", "clusters/proxy"])?;
    reader_reviews_their_own_rights(&plugin)?;

    // Without a route to the address, everything goes through the host.
    drop(way);
    let fresh = Tool::plugin_at(program(), &[scene.host.cluster])?;
    let around = fresh.run(&["-v=1", "-C", "far", "get", "namespaces", "-o", "name"])?;
    ensure!(around.code == 0 && around.stderr.contains("route=\"host\""), "{around:?}");
    fresh
        .run(&["--route=direct", "-C", "far", "get", "namespaces"])?
        .failure(&[&format!("cannot reach https://{ADDRESS}"), "--route=host goes through the host"])?;

    // The flag of the last installation cannot be left out by accident.
    scene
        .install(&[])?
        .failure(&["flags that this command lacks: --expose=LoadBalancer", "--reset-flags"])?;
    // An installation without `--expose` removes the Service.
    let told = scene.install(&["--reset-flags"])?.success()?;
    for gone in ["service/mc-sidecar-direct deleted", "configmap/kubectl-mc deleted"] {
        ensure!(told.contains(gone), "{gone} is missing in {told}");
    }
    plugin.ok(&["-C", "far", "get", "namespaces"])?;
    plugin.ok(&["unjoin", "far", &member, "--yes"])?;
    scene.uninstall()?;
    let after = listing(scene.host.cluster)?;
    ensure!(after == before, "{:?}", after.symmetric_difference(&before).collect::<Vec<_>>());
    Ok(())
}

/// The sidecar treats a review as a read; for the host's kube-apiserver, it has a separate path.
fn reader_reviews_their_own_rights(plugin: &Tool) -> Result<()> {
    plugin.ok(&["access", "grant", "view", "--user=ruth", "-C", "far", "-n", "default"])?;
    let ask = |route: &str, question: &[&str]| {
        plugin.run(&[&[route, "-C", "far", "--as=ruth", "auth"], question].concat())
    };
    eventually("the reader may read", SOON, || {
        let who = ask("--route=direct", &["whoami"])?;
        ensure!(who.code == 0 && who.text().contains("ruth"), "{who:?}");
        Ok(Some(()))
    })?;
    let can = ask("--route=direct", &["can-i", "list", "pods", "-n", "default"])?;
    ensure!(can.code == 0 && can.text().trim() == "yes", "{can:?}");
    let who = ask("--route=host", &["whoami"])?;
    ensure!(who.code == 0 && who.text().contains("ruth"), "{who:?}");
    plugin.ok(&["access", "revoke", "view", "--user=ruth", "-C", "far", "-n", "default"])?;
    Ok(())
}

/// Writes the status that a cloud's controller would write.
fn give_address(scene: &Scene) -> Result<()> {
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": ADDRESS, "ipMode": "VIP"}]}}});
    let path = format!("{SERVICE}/status");
    let answer = scene.api()?.request("PATCH", &path, "application/merge-patch+json", &status.to_string())?;
    ensure!(answer.status() == 200, "{}", answer.status());
    Ok(())
}

/// An address of a documentation network (RFC 5737), which no host has.
const ADDRESS: &str = "192.0.2.10";
const SERVICE: &str = "/api/v1/namespaces/kubectl-mc-system/services/mc-sidecar-direct";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kubectl-mc-system/deployments/mc-sidecar";
const CONFIG_MAP: &str = "/api/v1/namespaces/kube-public/configmaps/kubectl-mc";
