//! Released kubectls of each minor version work through the plugin, at a member of the host's
//! version and at one of the oldest supported version. The oldest, the newest, and the kubectl of
//! the same version also work at a member between them.

use anyhow::{Context, Result, ensure};
use harness::bed::member;
use harness::noise::{MEBIBYTE, noise, sha256};
use harness::scene::Scene;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::members::changes::turn;
use crate::upgrades::port_forward::{exchange, forward};
use crate::upgrades::protocol::Protocol::{self, Spdy, WebSocket};
use crate::{installed, plugin_in};

/// Makes two tests for each version, with the protocols that this kubectl uses to exec and to
/// forward ports.
macro_rules! versions {
    ($($version:literal $name:ident $exec:ident $port_forward:ident)*) => {
        $(mod $name {
            use super::*;
            #[test]
            fn kubectl_works_at_a_member_of_the_hosts_version() -> Result<()> {
                everything_works($version, "m1", [$exec, $port_forward])
            }
            #[test]
            fn kubectl_works_at_the_oldest_member() -> Result<()> {
                everything_works($version, "m2", [$exec, $port_forward])
            }
        })*
        const VERSIONS: &[&str] = &[$($version),*];
    };
}

versions! {
    "1.27" kubectl_1_27 Spdy Spdy
    "1.28" kubectl_1_28 Spdy Spdy
    "1.29" kubectl_1_29 Spdy Spdy
    "1.30" kubectl_1_30 WebSocket Spdy
    "1.31" kubectl_1_31 WebSocket WebSocket
    "1.32" kubectl_1_32 WebSocket WebSocket
    "1.33" kubectl_1_33 WebSocket WebSocket
    "1.34" kubectl_1_34 WebSocket WebSocket
    "1.35" kubectl_1_35 WebSocket WebSocket
    "1.36" kubectl_1_36 WebSocket WebSocket
}

/// Other tests restart this member's kube-apiserver, so it is locked.
fn between(version: &str, protocols: [Protocol; 2]) -> Result<()> {
    let _turn = turn()?;
    everything_works(version, "m3", protocols)
}

#[test]
fn oldest_kubectl_works_at_a_member_between() -> Result<()> {
    between("1.27", [Spdy, Spdy])
}

#[test]
fn kubectl_of_the_same_version_works_at_a_member_between() -> Result<()> {
    between("1.35", [WebSocket, WebSocket])
}

#[test]
fn newest_kubectl_works_at_a_member_between() -> Result<()> {
    between("1.36", [WebSocket, WebSocket])
}

#[test]
fn every_installed_version_has_its_tests() {
    let requirements = include_str!("../../../clients/kubectl/requirements.txt");
    let packages = VERSIONS.iter().map(|version| format!("-v{}==", version.trim_start_matches("1.")));
    assert!(packages.into_iter().all(|package| requirements.contains(&package)), "{requirements}");
    assert_eq!(requirements.lines().count(), VERSIONS.len());
}

fn everything_works(version: &str, member_name: &str, [exec, port_forward]: [Protocol; 2]) -> Result<()> {
    let name = format!("kubectl-{}-{member_name}", version.replace('.', "-"));
    let scene = Scene::on(member_name, &name)?;
    let caller = scene.caller()?;
    scene.pod("web", "echo said; mkdir /www; echo served > /www/file; exec httpd -f -p 8000 -h /www")?;
    let kubectl = installed(&format!("kubectl/{version}/kubectl"))?;
    // This kubectl runs every command, even those that the plugin could run itself.
    let plugin = plugin_in(&scene, &caller)?.env("KUBECTL_MC_KUBECTL", kubectl).env("KUBECTL_MC_DIRECT", "0");

    versions_are(&plugin, version, &member(member_name)?.version)?;
    ensure!(plugin.ok(&["get", "pods", "--output=name"])? == "pod/web\n", "other pods");
    watch_goes_on(&scene, &plugin).context("watch")?;
    eventually("the log is there", SOON, || Ok((plugin.ok(&["logs", "web"])? == "said\n").then_some(())))?;
    exec_carries_everything(&plugin).context("exec")?;
    copy_there_and_back(&plugin).context("cp")?;
    exec.was_used(&scene, "exec")?;
    let (_running, _, served) = forward(&plugin, "pod/web", |port| exchange(port, GET_FILE))?;
    assert_eq!(served, b"served\n");
    match port_forward {
        // Before 1.31, Kubernetes serves port-forward over SPDY only.
        WebSocket if member_name == "m2" => Protocol::fell_back_to_spdy(&scene, "portforward"),
        chosen => chosen.was_used(&scene, "portforward"),
    }
}

fn versions_are(plugin: &Tool, client: &str, server: &str) -> Result<()> {
    let versions: Value = serde_json::from_str(&plugin.ok(&["version", "--output=json"])?)?;
    let told = |side: &str| versions[side]["gitVersion"].as_str().unwrap_or_default().to_owned();
    ensure!(told("clientVersion").starts_with(&format!("v{client}.")), "{versions}");
    ensure!(told("serverVersion") == server, "{versions}");
    Ok(())
}

fn watch_goes_on(scene: &Scene, plugin: &Tool) -> Result<()> {
    let mut watch = plugin.start(&["get", "configmaps", "--watch", "--output=name"])?;
    let create = |name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        scene.api.apply(&format!("/api/v1/namespaces/{}/configmaps/{name}", scene.name), &object)
    };
    create("first")?;
    watch.wait_for("configmap/first\n", SOON)?;
    // The watch is open now, so this event can only come through it.
    create("second")?;
    watch.wait_for("configmap/second\n", SOON)
}

fn exec_carries_everything(plugin: &Tool) -> Result<()> {
    let sent = noise(3, MEBIBYTE);
    let output =
        plugin.run_with_input(&["exec", "--stdin", "web", "--", "sh", "-c", "cat; exit 7"], &sent)?;
    ensure!(output.code == 7, "{output:?}");
    ensure!(sha256(&output.stdout) == sha256(&sent), "other bytes came back: {}", output.stdout.len());
    Ok(())
}

fn copy_there_and_back(plugin: &Tool) -> Result<()> {
    let sent = noise(4, MEBIBYTE);
    std::fs::write(plugin.home().join("there"), &sent)?;
    plugin.ok(&["cp", "there", "web:/kept"])?;
    plugin.ok(&["cp", "web:/kept", "back"])?;
    ensure!(sha256(&std::fs::read(plugin.home().join("back"))?) == sha256(&sent), "another file came back");
    Ok(())
}

const GET_FILE: &[u8] = b"GET /file HTTP/1.0\r\n\r\n";
