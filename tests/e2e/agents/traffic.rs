//! Reads, writes and watches reach a member through its agent, and errors mention the agent.

use anyhow::{Context, Result};
use harness::bed::{SYSTEM, member};
use harness::fake_member::{FakeMember, ok};
use harness::own_agent::{self, Difference, OwnAgent, own_data, until, until_connected};
use harness::scene::{EVERY_VERB, Scene};
use harness::wait::SOON;
use serde_json::json;

use crate::plugin;

#[test]
fn reads_writes_and_watches_pass_through_the_tunnel() -> Result<()> {
    let scene = Scene::new("agent-requests")?;
    let (caller, cluster) = (scene.caller()?, &own_agent::shared()?.cluster);
    until(cluster, "Ready", "True")?;
    scene.let_in(&caller, &[cluster], EVERY_VERB)?;
    let plugin = plugin(&caller)?.with(&[&format!("--cluster={cluster}"), "--namespace", &scene.name]);
    let mut watch = plugin.start(&["get", "configmaps", "--watch", "-o", "name"])?;
    plugin.ok(&["create", "configmap", "made-there", "--from-literal=key=value"])?;
    watch.wait_for("configmap/made-there", SOON)?;
    assert_eq!(plugin.ok(&["get", "configmap", "made-there", "-o", "jsonpath={.data.key}"])?, "value");
    assert!(plugin.ok(&["api-resources"])?.contains("configmaps"));
    let kept = scene.api.get(&format!("/api/v1/namespaces/{}/configmaps/made-there", scene.name))?;
    assert_eq!(kept["data"]["key"], "value", "it is not on the member itself");
    Ok(())
}

#[test]
fn request_without_a_connected_agent_names_the_agent_hop() -> Result<()> {
    let scene = Scene::new("agent-missing")?;
    let (caller, cluster) = (scene.caller()?, "e2e-agent-missing");
    own_agent::register(cluster, SYSTEM, &own_data(member("m1")?)?)?;
    scene.let_in(&caller, &[cluster], EVERY_VERB)?;
    until(cluster, "Connected", "False")?;
    let plugin = plugin(&caller)?.with(&[&format!("--cluster={cluster}")]);
    plugin.run(&["get", "pods"])?.failure(&[
        "agent: ",
        cluster,
        "no agent has been connected since 20",
        "Connected",
    ])?;
    Ok(())
}

/// An agent may connect to any server: the sidecar accepts that server as the member only if its
/// certificate is right.
#[test]
fn agent_to_another_server_fails_tls_verification() -> Result<()> {
    let impostor = FakeMember::unregistered("e2e-agent-impostor", |_| ok())?;
    let mut data = own_data(member("m1")?)?;
    let server = impostor.secret(&json!({}))["server"].as_str().context("no server")?.to_owned();
    data["server"] = server.clone().into();
    own_agent::register("e2e-agent-impostor", SYSTEM, &data)?;
    let mut target = member("m1")?.clone();
    target.server = server;
    let _agent = OwnAgent::start("e2e-agent-impostor", &target, &Difference::default())?;
    until_connected("e2e-agent-impostor")?;
    until("e2e-agent-impostor", "Reachable", "False")?;
    assert!(impostor.requests("/readyz").is_empty(), "the impostor read a request");
    Ok(())
}
