//! kubectl's special cases work through the plugin: raw paths, `proxy`, exit codes, `config`, flags and pods.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use anyhow::{Context, Result};
use harness::bed::bed;
use harness::caller::Caller;
use harness::scene::Scene;
use harness::tool::Tool;
use harness::wait::SOON;
use serde_json::json;

use crate::{plugin, plugin_in};

#[test]
fn raw_paths_go_to_the_member() -> Result<()> {
    let scene = Scene::new("raw")?;
    let caller = scene.caller()?;
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "here"}});
    scene.api.apply(&format!("/api/v1/namespaces/{}/configmaps/here", scene.name), &config_map)?;
    // The namespace exists only on the member.
    let path = format!("/api/v1/namespaces/{}/configmaps/here", scene.name);
    let object = plugin_in(&scene, &caller)?.ok(&["get", "--raw", &path])?;
    assert!(object.contains("\"name\":\"here\""), "{object}");
    Ok(())
}

#[test]
fn kubectl_proxy_serves_the_member() -> Result<()> {
    let scene = Scene::new("proxy")?;
    let caller = scene.caller()?;
    let mut proxy = plugin_in(&scene, &caller)?.start(&["proxy", "--port=0"])?;
    proxy.wait_for("\n", SOON)?;
    let said = proxy.stdout();
    let address = said.trim().rsplit(' ').next().with_context(|| said.clone())?;
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(SOON))?;
    let path = format!("/api/v1/namespaces/{}/configmaps", scene.name);
    socket.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    assert!(answer.contains("kube-root-ca.crt") || answer.contains("ConfigMapList"), "{answer}");
    Ok(())
}

#[test]
fn fault_81_exit_code_and_messages_are_kubectls() -> Result<()> {
    let scene = Scene::new("codes")?;
    let caller = scene.caller()?;
    let plugin = plugin_in(&scene, &caller)?;
    let kubectl = Tool::admin(&bed()?.members["m1"])?.with(&["--namespace", &scene.name]);
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}).to_string();
    for (words, code) in [
        (["get", "configmap", "missing"], 1),
        (["diff", "-f", "-"], 1),
        (["auth", "can-i", "list"], 1),
        (["get", "no-such-kind", "x"], 1),
    ] {
        let ours = plugin.run_with_input(&words, manifest.as_bytes())?;
        let theirs = kubectl.run_with_input(&words, manifest.as_bytes())?;
        assert_eq!(ours.code, code, "{ours:?}");
        assert_eq!(theirs.code, code, "{theirs:?}");
        if words[0] == "get" {
            assert_eq!(ours.stderr, theirs.stderr);
        }
    }
    Ok(())
}

#[test]
fn config_is_refused_with_a_cluster_chosen() -> Result<()> {
    let scene = Scene::new("config")?;
    let caller = scene.caller()?;
    let before = std::fs::read(caller.kubeconfig())?;
    let words = ["config", "set-context", "--current", "--namespace=x"];
    plugin_in(&scene, &caller)?.run(&words)?.failure(&["config"])?;
    assert_eq!(std::fs::read(caller.kubeconfig())?, before);
    Ok(())
}

#[test]
fn fault_81_invalid_cluster_name_never_becomes_a_path() -> Result<()> {
    let scene = Scene::new("names")?;
    let caller = scene.caller()?;
    for name in ["../m1", "m1/proxy", "M1", "m1%2f"] {
        let attempt = plugin(&caller)?.run(&[&format!("--cluster={name}"), "get", "pods"])?;
        attempt.failure(&[name])?;
    }
    Ok(())
}

#[test]
fn cluster_flag_works_after_the_verb_not_past_two_dashes() -> Result<()> {
    let scene = Scene::new("after-dashes")?;
    let caller = scene.caller()?;
    scene.pod("shell", "sleep 1000000")?;
    let words = ["exec", "shell", "-n", &scene.name, "-C", "m1", "--", "echo", "--cluster=m2", "-C", "m3"];
    assert_eq!(plugin(&caller)?.ok(&words)?, "--cluster=m2 -C m3\n");
    Ok(())
}

#[test]
fn in_a_pod_no_kubeconfig_is_needed() -> Result<()> {
    let scene = Scene::new("in-pod")?;
    let caller = Caller::service_account(&scene.name, "robot")?;
    scene.welcome(&caller)?;
    let plugin = Tool::plugin_in_pod(Path::new(env!("CARGO_BIN_EXE_kubectl-mc")), &caller)?;
    let words = ["--cluster=m1", "get", "configmaps", "--namespace", &scene.name, "-o", "name"];
    assert!(plugin.ok(&words)?.contains("configmap/"));
    Ok(())
}

#[test]
fn version_shows_the_members() -> Result<()> {
    let scene = Scene::new("version")?;
    let caller = scene.caller()?;
    let version = plugin_in(&scene, &caller)?.ok(&["version", "-o", "json"])?;
    let version: serde_json::Value = serde_json::from_str(&version)?;
    assert_eq!(version["serverVersion"]["gitVersion"], bed()?.members["m1"].version.as_str());
    Ok(())
}
