//! The settings of a kubeconfig keep their meaning for requests to a member.

use anyhow::Result;
use harness::bed::bed;
use harness::connect_proxy::ConnectProxy;
use harness::scene::Scene;
use serde_json::json;

use crate::{plugin, plugin_in};

#[test]
fn tls_server_name_is_kept() -> Result<()> {
    let scene = Scene::on("m2", "tls-server-name")?;
    let caller = scene.caller()?;
    let right = caller.edit(|config| {
        config["clusters"][0]["cluster"]["tls-server-name"] = json!("kubernetes.default.svc");
    })?;
    plugin_in(&scene, &right)?.ok(&["get", "configmaps"])?;
    let wrong = right.edit(|config| {
        config["clusters"][0]["cluster"]["tls-server-name"] = json!("wrong.example");
    })?;
    plugin_in(&scene, &wrong)?.run(&["get", "configmaps"])?.failure(&["wrong.example"])?;
    Ok(())
}

#[test]
fn proxy_url_is_kept() -> Result<()> {
    let scene = Scene::on("m2", "proxy-url")?;
    let proxy = ConnectProxy::start()?;
    let caller = scene.caller()?.edit(|config| {
        config["clusters"][0]["cluster"]["proxy-url"] = json!(format!("http://{}", proxy.address));
    })?;
    let plugin = plugin_in(&scene, &caller)?;
    plugin.ok(&["get", "configmaps"])?;
    // Every connection of the plugin and of kubectl uses the proxy, with cold and with warm caches.
    let before = proxy.asked().len();
    assert!(before > 0);
    plugin.ok(&["get", "configmaps"])?;
    assert!(proxy.asked().len() > before);
    let host = bed()?.host.server.replace("https://", "");
    assert!(proxy.asked().iter().all(|asked| *asked == host), "{:?}", proxy.asked());
    Ok(())
}

#[test]
fn credential_plugin_is_found_by_its_relative_path() -> Result<()> {
    let scene = Scene::on("m2", "exec-credential")?;
    let ulrike = harness::caller::Caller::token("ulrike")?;
    scene.welcome(&ulrike)?;
    let script = ulrike.folder().join("credential");
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "ulrike-token"},
    });
    harness::script::write(&script, &format!("#!/bin/sh\necho '{credential}'\n"))?;
    let ulrike = ulrike.edit(|config| {
        config["users"][0]["user"] = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "./credential",
            "interactiveMode": "Never",
        }});
    })?;
    plugin_in(&scene, &ulrike)?.ok(&["get", "configmaps"])?;
    Ok(())
}

#[test]
fn list_of_kubeconfigs_is_merged() -> Result<()> {
    let scene = Scene::on("m2", "list")?;
    let caller = scene.caller()?;
    let contexts = caller.folder().join("contexts");
    std::fs::write(
        &contexts,
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "elsewhere",
            "contexts": [{"name": "elsewhere", "context": {
                "cluster": "host", "user": "caller", "namespace": scene.name,
            }}],
        })
        .to_string(),
    )?;
    let nowhere = caller.folder().join("nowhere");
    let list = [contexts, nowhere, caller.kubeconfig()].map(|path| path.display().to_string()).join(":");
    let plugin = plugin(&caller)?.env("KUBECONFIG", list);
    // The first file's context uses the user of the last file, and has its own namespace.
    plugin.ok(&["--cluster=m2", "get", "configmaps"])?;
    Ok(())
}

#[test]
fn kubeconfig_and_context_may_follow_the_verb() -> Result<()> {
    let scene = Scene::on("m2", "after-verb")?;
    let caller = scene.caller()?.edit(|config| config["current-context"] = json!("nowhere"))?;
    let kubeconfig = caller.kubeconfig().display().to_string();
    let plugin = plugin(&caller)?.without("KUBECONFIG");
    let words = ["get", "configmaps", "-n", &scene.name, "--cluster=m2", "--context=host"];
    plugin.ok(&[&words[..], &["--kubeconfig", &kubeconfig]].concat())?;
    plugin.ok(&[&["--kubeconfig", &kubeconfig], &words[..]].concat())?;
    Ok(())
}

#[test]
fn namespace_of_the_context_is_kept() -> Result<()> {
    let scene = Scene::on("m2", "namespace")?;
    let caller = scene.caller()?.edit(|config| {
        config["contexts"][0]["context"]["namespace"] = json!("e2e-namespace");
    })?;
    // The caller may list only in this namespace.
    plugin(&caller)?.ok(&["--cluster=m2", "get", "configmaps"])?;
    Ok(())
}
