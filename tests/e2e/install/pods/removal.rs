//! `kubectl mc uninstall` asks before it removes members, and leaves the objects of others alone.

use anyhow::{Result, ensure};
use harness::bed::SYSTEM;
use harness::tool::Tool;

use crate::install::pods::in_pods::Scene;

#[test]
fn registered_members_are_removed_only_after_confirmation() -> Result<()> {
    let scene = Scene::take()?;
    scene.install(&["--replicas=1"])?.success()?;
    let member = serde_json::json!({
        "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
        "metadata": {"name": "far"}, "spec": {},
    });
    scene.api()?.create("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters", &member)?;
    let access = serde_json::json!({
        "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "ClusterAccess",
        "metadata": {"name": "on-call"},
        "spec": {"subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": "view"}, "clusterSelector": {}},
    });
    scene.api()?.create("/apis/fleet.kubectl-mc.dev/v1alpha1/clusteraccesses", &access)?;
    scene.plugin.run(&["uninstall"])?.failure(&["far", "on-call", "--yes"])?;
    scene.api()?.get("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/far")?;
    let removed = scene.uninstall()?;
    ensure!(removed.contains("membercluster.fleet.kubectl-mc.dev/far deleted"), "{removed}");
    Ok(())
}

/// The host is also a member of another host, which registered it by hand.
#[test]
fn uninstall_keeps_the_accounts_of_another_host() -> Result<()> {
    let scene = Scene::take()?;
    let kubectl = Tool::admin(scene.host.cluster)?;
    scene.install(&["--replicas=1"])?.success()?;
    kubectl.ok(&["-n", SYSTEM, "create", "serviceaccount", "kubectl-mc-impersonator"])?;
    scene.uninstall()?;
    kubectl.ok(&["-n", SYSTEM, "get", "serviceaccount", "kubectl-mc-impersonator"])?;
    let left = kubectl.ok(&["-n", SYSTEM, "get", "deployments,services,secrets,leases", "-o", "name"])?;
    ensure!(left.is_empty(), "{left}");
    kubectl.ok(&["delete", "namespace", SYSTEM]).map(drop)
}

#[test]
fn existing_namespace_stays_unchanged() -> Result<()> {
    let scene = Scene::take()?;
    let kubectl = Tool::admin(scene.host.cluster)?;
    kubectl.ok(&["create", "namespace", "shared"])?;
    let labels =
        || scene.api()?.get("/api/v1/namespaces/shared").map(|found| found["metadata"]["labels"].clone());
    let before = labels()?;
    scene.install(&["--namespace=shared", "--replicas=1"])?.success()?;
    ensure!(labels()? == before);
    scene.plugin.ok(&["uninstall", "--namespace=shared", "--yes"])?;
    let left = kubectl.ok(&[
        "-n",
        "shared",
        "get",
        "all,secrets,leases,networkpolicies,pdb,roles,rolebindings",
        "-o",
        "name",
    ])?;
    ensure!(left.is_empty(), "{left}");
    ensure!(labels()? == before);
    kubectl.ok(&["delete", "namespace", "shared"]).map(drop)
}
