//! `kubectl mc install --inventory=membercluster,karmada` serves the members of Karmada in one
//! command. The test uses Karmada's own server, `karmadactl join` and sidecars in pods, and also
//! takes the steps back that the how-to describes.

use std::fs;

use anyhow::{Result, ensure};
use harness::bed::member;
use harness::caller::Caller;
use harness::karmada::Karmada;
use harness::karmada_own::OwnKinds;
use harness::scene::{Scene as Pods, grant};
use harness::spare_host::listing;
use harness::tool::Tool;
use harness::turn::Turn;
use harness::wait::{SOON, eventually};
use serde_json::json;
use testbed::programs;

use crate::install::pods::in_pods::Scene;

#[test]
fn one_command_serves_members_that_karmada_has() -> Result<()> {
    // Tests of Karmada's inventory use the same account of the member.
    let _turn = Turn::take("karmada")?;
    let scene = Scene::take()?;
    let own = OwnKinds::of(scene.host.cluster, &scene.api()?)?;
    let pods = Pods::on("m2", "install-karmada")?;
    let user = Caller::certificate("e2e-install-karmada", &[])?;
    pods.allow(&user)?;
    pods.pod("shell", "sleep 1000000")?;
    karmadactl(&scene, "join")?;
    Karmada::unified_auth("m2", &[&user.user], &[], &[])?;
    let rule = json!({"apiGroups": [PROXY_GROUP], "resources": ["clusters/proxy"], "resourceNames": [NAME], "verbs": ["*"]});
    let attributes = json!({"group": PROXY_GROUP, "resource": "clusters", "subresource": "proxy", "name": NAME, "verb": "get"});
    grant(&scene.api()?, NAME, &user, &rule, &attributes)?;
    let before = listing(scene.host.cluster)?;

    scene.install(&["--inventory=membercluster,karmada"])?.success()?;
    eventually("the member is listed as ready", 2 * SOON, || {
        let listed = scene.plugin.run(&["clusters", "-o", "wide"])?;
        let row = listed.text().lines().find(|line| line.starts_with(NAME)).map(str::to_owned);
        ensure!(row.is_some_and(|row| row.contains("True")), "{listed:?}");
        Ok(Some(()))
    })?;
    let as_user = |words: &[&str]| {
        let namespace = ["-C", NAME, "--as", &user.user, "-n", &pods.name];
        scene.plugin.run(&[&namespace[..], words].concat())
    };
    eventually("the user reads the member", SOON, || {
        let seen = as_user(&["get", "pods", "-o", "name"])?.success()?;
        ensure!(seen == "pod/shell\n", "{seen}");
        Ok(Some(()))
    })?;
    let echoed = as_user(&["exec", "shell", "--", "echo", "here"])?.success()?;
    ensure!(echoed == "here\n", "{echoed}");
    // Karmada decides who may act on its members, and does not list administrators of the host.
    let hop = "member impersonation";
    scene.plugin.run(&["-C", NAME, "get", "pods"])?.failure(&[hop, "kubectl-mc:host-admins"])?;
    scene.plugin.run(&["access", "diff", NAME])?.failure(&["Karmada keeps the rights"])?;
    let explain = ["access", "explain", "--as", &user.user, "-C", NAME, "-n", &pods.name, "get", "pods"];

    // That changes if the sidecar maintains rights there, too.
    let values = tempfile::NamedTempFile::new()?;
    fs::write(values.path(), "inventory: [membercluster, karmada]\nkarmadaMemberRbac: true\n")?;
    let values = format!("--values={}", values.path().display());
    scene.install(&[&*values, "--reset-flags"])?.success()?;
    eventually("administrators of the host are accepted", 2 * SOON, || {
        scene.plugin.run(&["-C", NAME, "get", "pods"])?.success().map(Some)
    })?;
    let same = scene.plugin.run(&["access", "diff", NAME])?;
    ensure!(same.code == 0 && same.stderr.contains("has exactly these rights"), "{same:?}");
    let explained = scene.plugin.run(&explain)?.success()?;
    ensure!(explained.contains("the sidecar may impersonate"), "{explained}");
    scene.plugin.run(&["unjoin", NAME, "--yes"])?.failure(&["Karmada"])?;

    // These are the steps back.
    scene.install(&["--reset-flags"])?.success()?;
    let kubectl = Tool::admin(scene.host.cluster)?;
    kubectl.ok(&["delete", "memberclusters", "-l", "fleet.kubectl-mc.dev/inventory=karmada"])?;
    scene.plugin.run(&["-C", NAME, "get", "pods"])?.failure(&[NAME])?;
    scene.uninstall()?;
    let after = listing(scene.host.cluster)?;
    ensure!(after == before, "{:?}", after.symmetric_difference(&before).collect::<Vec<_>>());
    karmadactl(&scene, "unjoin")?;
    drop(own);
    kubectl.ok(&["delete", "clusterrole,clusterrolebinding", NAME])?;
    // The command from the how-to.
    let at_member = Tool::admin(member("m2")?)?;
    at_member.ok(&["delete", "clusterrole,clusterrolebinding", "kubectl-mc-karmada-impersonator"])?;
    let of_rights = "--field-selector=metadata.name=kubectl-mc-karmada-impersonator";
    at_member.ok(&["delete", "role,rolebinding", "--all-namespaces", of_rights]).map(drop)
}

fn karmadactl(scene: &Scene, verb: &str) -> Result<()> {
    let karmadactl = Tool::plugin_at(&programs::karmadactl(), &[scene.host.cluster])?;
    let kubeconfig = format!("--cluster-kubeconfig={}", member("m2")?.kubeconfig.display());
    karmadactl.ok(&[verb, NAME, &kubeconfig, "--cluster-context=m2"]).map(drop)
}

const PROXY_GROUP: &str = "proxy.kubectl-mc.dev";
const NAME: &str = "e2e-install-karmada";
