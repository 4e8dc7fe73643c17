//! The common verbs work with each kind of login to the host.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::caller::Caller;
use harness::scene::Scene;
use harness::wait::SOON;
use serde_json::json;

use crate::plugin_in;

#[test]
fn client_certificate_works_with_every_verb() -> Result<()> {
    let scene = Scene::new("verbs-cert")?;
    let caller = scene.caller()?;
    every_verb(&scene, &caller)
}

#[test]
fn bearer_token_works_with_every_verb() -> Result<()> {
    let scene = Scene::new("verbs-token")?;
    let caller = Caller::token("ulrike")?;
    scene.welcome(&caller)?;
    every_verb(&scene, &caller)
}

#[test]
fn service_account_works_with_every_verb() -> Result<()> {
    let scene = Scene::new("verbs-sa")?;
    let caller = Caller::service_account(&scene.name, "robot")?;
    scene.welcome(&caller)?;
    every_verb(&scene, &caller)
}

#[test]
fn watch_delivers_an_event_within_a_second() -> Result<()> {
    let scene = Scene::new("watch")?;
    let caller = scene.caller()?;
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let path = format!("/api/v1/namespaces/{}/configmaps", scene.name);
    scene.api.apply(&format!("{path}/before"), &map("before"))?;

    let mut watch = plugin_in(&scene, &caller)?.start(&["get", "configmaps", "--watch", "-o", "name"])?;
    watch.wait_for("configmap/before", SOON)?;
    let after = format!("after-{}", std::process::id());
    scene.api.create(&path, &map(&after))?;
    let created = Instant::now();
    watch.wait_for(&format!("configmap/{after}"), SOON)?;
    ensure!(created.elapsed() < Duration::from_secs(1), "it took {:?}", created.elapsed());
    Ok(())
}

fn every_verb(scene: &Scene, caller: &Caller) -> Result<()> {
    let plugin = plugin_in(scene, caller)?;
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "poem"}, "data": {"line": "so much depends"},
    });
    let applied = plugin.run_with_input(&["apply", "-f", "-"], manifest.to_string().as_bytes())?.success()?;
    assert_eq!(applied, "configmap/poem created\n");
    assert_eq!(plugin.ok(&["get", "configmap", "poem", "-o", "jsonpath={.data.line}"])?, "so much depends");
    let described = plugin.ok(&["describe", "configmap", "poem"])?;
    assert!(described.contains("so much depends"), "{described}");
    let deleted = plugin.ok(&["delete", "configmap", "poem"])?;
    assert!(deleted.starts_with("configmap \"poem\" deleted"), "{deleted}");
    plugin.run(&["get", "configmap", "poem"])?.failure(&["configmaps \"poem\" not found"])?;
    Ok(())
}
