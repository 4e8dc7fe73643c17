//! A member that accepts connections and never answers costs a command only that member's line, and
//! delays no other member. The sidecar does not know yet that this member is silent.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::bed::host;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Request, Step, reply};
use harness::http1::member_path;
use harness::registration::{register, remove};
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::plugin;

#[test]
fn one_black_hole_of_a_hundred_costs_only_its_line() -> Result<()> {
    let fleet = Fleet::new("slow-hundred", 100)?;
    let words = ["get", "configmaps", "-C", &fleet.names.join(",")];
    let plugin = fleet.plugin()?;
    // The silent member is the first, and its timeout is far longer than this test.
    let begun = Instant::now();
    let mut running = plugin.with(&["--cluster-timeout=60s"]).start(&words)?;
    running.wait_for(&fleet.names[99], SOON)?;
    let took = begun.elapsed();
    ensure!(took < Duration::from_secs(30), "the others waited for it: {took:?}");
    let rows: Vec<_> = running.stdout().lines().skip(1).map(str::to_owned).collect();
    let names: Vec<_> = rows.iter().filter_map(|row| row.split(' ').next()).collect();
    assert_eq!(names, fleet.names[1..], "in their order: {rows:?}");
    let width = rows[0].find("odd").context("no such row")?;
    ensure!(rows.iter().all(|row| row.find("odd") == Some(width)), "not aligned: {rows:?}");
    Ok(())
}

#[test]
fn silent_member_is_listed_last_with_its_timeout() -> Result<()> {
    let fleet = Fleet::new("slow-last", 4)?;
    let plugin = fleet.plugin()?.with(&["--cluster-timeout=10s"]);
    let choice = fleet.names.join(",");
    let silent = &fleet.names[0];
    let summary = format!(
        "{silent} | error: no answer within 10s\n1 of 4 clusters failed: 1 timed out after 10s ({silent})\n"
    );
    // The types of the silent member are unknown too: the plugin resolves a short name at every member.
    let output = plugin.run(&["get", "cm", "-C", &choice, "--no-headers"])?;
    assert_eq!((output.code, output.stderr.as_str()), (4, summary.as_str()), "{output:?}");
    let names: Vec<_> =
        output.text().lines().filter_map(|row| Some(row.split(' ').next()?.to_owned())).collect();
    assert_eq!(names, fleet.names[1..]);

    let output = plugin.run(&["get", "configmaps", "-o", "json", "-C", &choice])?;
    assert_eq!((output.code, output.stderr.as_str()), (4, summary.as_str()), "{output:?}");
    let list: Value = serde_json::from_slice(&output.stdout)?;
    let clusters: Vec<_> = list["items"]
        .as_array()
        .context("no items")?
        .iter()
        .map(|item| {
            item["metadata"]["annotations"]["fleet.kubectl-mc.dev/cluster"].as_str().unwrap_or_default()
        })
        .collect();
    assert_eq!(clusters, fleet.names[1..]);
    assert_eq!(list["metadata"]["clusterErrors"][0]["cluster"], silent.as_str());
    Ok(())
}

#[test]
fn kubectl_processes_do_not_wait_for_a_silent_member() -> Result<()> {
    let name = "slow-kubectl";
    let (one, two) = (Scene::on("m1", name)?, Scene::on("m2", name)?);
    let caller = Caller::certificate(&format!("e2e-{name}-user"), &[])?;
    let silent = FakeMember::start("e2e-slow-kubectl", silence)?;
    one.let_in(&caller, &["m1", "m2", &silent.name], EVERY_VERB)?;
    one.allow(&caller)?;
    two.allow(&caller)?;
    // With direct requests, custom columns are printed when all clusters have answered.
    let plugin = plugin(&caller)?
        .with(&["--cluster-timeout=120s", "--namespace", &one.name])
        .env("KUBECTL_MC_DIRECT", "0");
    let choice = format!("{},m1,m2", silent.name);
    for words in [
        &["describe", "configmap", "kube-root-ca.crt"][..],
        &["get", "configmap", "kube-root-ca.crt", "-o", "custom-columns=NAME:.metadata.name"],
    ] {
        let begun = Instant::now();
        let mut running = plugin.start(&[words, &["-C", &choice]].concat())?;
        running.wait_for("\nm2", SOON)?;
        let took = begun.elapsed();
        ensure!(took < Duration::from_secs(100), "the others waited for it: {took:?}");
    }
    Ok(())
}

/// A silent member, and others of one server that answer.
struct Fleet {
    names: Vec<String>,
    caller: Caller,
    _silent: FakeMember,
    _server: FakeMember,
}

impl Fleet {
    /// `size` members, of which the first is silent.
    fn new(name: &str, size: usize) -> Result<Self> {
        let names: Vec<_> = (0..size).map(|at| format!("e2e-{name}-{at:03}")).collect();
        let silent = FakeMember::start(&names[0], silence)?;
        let server = FakeMember::unregistered(&names[1], speech)?;
        let data = server.secret(&json!({}));
        for name in &names[1..] {
            register(name, &data)?;
        }
        let api = host()?;
        for name in &names[1..] {
            let path = member_path(name, "/harness-ready");
            eventually("a member is reachable", SOON, || api.get(&path).map(Some))?;
        }
        let scene = Scene::on("m1", name)?;
        let caller = Caller::certificate(&format!("e2e-{name}-user"), &[])?;
        scene.let_in(&caller, &[], EVERY_VERB)?;
        Ok(Self { names, caller, _silent: silent, _server: server })
    }

    fn plugin(&self) -> Result<Tool> {
        plugin(&self.caller)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // These members would slow down other tests that list clusters.
        for name in &self.names {
            let _ = remove(name);
        }
    }
}

fn silence(_: &Request) -> Vec<Step> {
    vec![Step::Hang]
}

/// The discovery of a Kubernetes before 1.27, and one object.
fn speech(request: &Request) -> Vec<Step> {
    let target = request.target().split('?').next().unwrap_or_default();
    let body = match target {
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => json!({"kind": "APIGroupList", "groups": []}),
        "/api/v1" => json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
            {"name": "configmaps", "singularName": "", "namespaced": true, "kind": "ConfigMap", "shortNames": ["cm"]},
        ]}),
        _ if request.values("accept").concat().contains("as=Table") => json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"},
            "columnDefinitions": [{"name": "Name", "type": "string"}],
            "rows": [{"cells": ["odd"], "object": {"metadata": {"name": "odd"}}}],
        }),
        _ => {
            json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "odd"}}]})
        }
    };
    reply("200 OK", "Content-Type: application/json\r\n", &body.to_string())
}
