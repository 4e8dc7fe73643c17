//! The sidecar follows members that restart, get a new credential or are removed. Only these tests
//! use the third member. They do so one at a time.

use std::fs::File;

use anyhow::{Context, Result};
use harness::bed::{SYSTEM, bed, host, member, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, ok};
use harness::scene::Scene;
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::plugin_in;

#[test]
fn restarted_member_is_reached_by_the_next_call() -> Result<()> {
    let _turn = turn()?;
    let scene = Scene::on("m3", "restart")?;
    let plugin = plugin_in(&scene, &scene.caller()?)?;
    plugin.ok(&["get", "configmaps"])?;
    member("m3")?.restart_apiserver()?;
    plugin.ok(&["get", "configmaps"])?;
    Ok(())
}

#[test]
fn fault_78_new_credential_is_used_without_a_restart() -> Result<()> {
    let _turn = turn()?;
    let scene = Scene::on("m3", "credential")?;
    let plugin = plugin_in(&scene, &scene.caller()?)?;
    plugin.ok(&["get", "configmaps"])?;
    let started = sidecar_started()?;

    // A new account of the same name makes the tokens of the old one invalid.
    let account = format!("/api/v1/namespaces/{SYSTEM}/serviceaccounts/kubectl-mc-impersonator");
    scene.api.delete(&account)?;
    scene.api.apply(
        &account,
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "kubectl-mc-impersonator"}}),
    )?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = scene.api.create(&format!("{account}/token"), &request)?;
    let token = answer["status"]["token"].as_str().context("no token")?;
    host()?
        .request(
            "PATCH",
            &format!("/api/v1/namespaces/{SYSTEM}/secrets/m3.member"),
            "application/merge-patch+json",
            &json!({"stringData": {"token": token}}).to_string(),
        )
        .and_then(|answer| (answer.status() == 200).then_some(()).with_context(|| answer.text()))?;

    eventually("calls go with the new token", SOON, || plugin.ok(&["get", "configmaps"]).map(Some))?;
    assert_eq!(sidecar_started()?, started, "the sidecar was restarted");
    Ok(())
}

#[test]
fn removed_member_is_unreachable_at_once() -> Result<()> {
    let fake = FakeMember::start("e2e-removed", |_| ok())?;
    let admin = Caller::certificate("e2e-removed-admin", &["system:masters"])?;
    let plugin = crate::plugin(&admin)?.with(&["--cluster=e2e-removed"]);
    plugin.ok(&["get", "--raw", "/anything"])?;
    host()?.delete("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/e2e-removed")?;
    eventually("the cluster is unknown", SOON, || {
        let answer = plugin.run(&["get", "--raw", "/anything"])?;
        Ok((answer.code != 0).then_some(answer.failure(&["e2e-removed"])?))
    })?;
    let before = fake.requests("/anything").len();
    plugin.run(&["get", "--raw", "/anything"])?.failure(&[])?;
    assert_eq!(fake.requests("/anything").len(), before);
    Ok(())
}

/// Locks the third member until the file is closed.
pub(crate) fn turn() -> Result<File> {
    let file = File::create(bed()?.dir.join("m3.turn"))?;
    file.lock()?;
    Ok(file)
}

/// The start time of the sidecar's process, in the kernel's ticks (proc(5), the 22nd field of stat).
fn sidecar_started() -> Result<String> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", sidecar()?.pid))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().nth(19).map(str::to_owned).with_context(|| format!("no start time: {stat}"))
}
