//! Python programs use a member through `kubectl mc listen`: the client library, and a tool that
//! drops the path of a server's URL.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::scene::Scene;
use harness::tool::Tool;

use crate::installed;
use crate::plugin::listen::Listening;

#[test]
fn tool_that_drops_the_path_reaches_the_member() -> Result<()> {
    let scene = Scene::new("listen-drops")?;
    let caller = scene.caller()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/clients/python/host_and_port.py");
    let source = source.to_str().context("a path that is no text")?;
    let path = format!("/api/v1/namespaces/{}/configmaps", scene.name);
    // With the member's own context, it asks the host.
    let direct = Tool::client(installed("python/bin/python")?, &scene.caller()?.at("m1")?)?;
    let of_host = direct.ok(&[source, &path])?;
    ensure!(!of_host.contains("kube-root-ca.crt"), "{of_host}");
    let listener = Listening::start(&caller, &["m1"])?;
    let python = listener.tool(installed("python/bin/python")?, &caller)?;
    let of_member = python.ok(&[source, &path])?;
    ensure!(of_member.contains("kube-root-ca.crt"), "{of_member}");
    Ok(())
}

#[test]
fn python_client_works_by_a_listener() -> Result<()> {
    let scene = Scene::new("listen-python")?;
    let caller = scene.caller()?;
    scene.pod("one", "sleep 1000000")?;
    let listener = Listening::start(&caller, &["m1"])?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/clients/python/client.py");
    let python = listener.tool(installed("python/bin/python")?, &caller)?;
    let python = python.with(&[source.to_str().context("a path that is no text")?]);
    ensure!(python.ok(&["get", &scene.name])?.contains("one"));
    ensure!(python.ok(&["exec", &scene.name, "one", "echo", "here"])? == "here\n");
    Ok(())
}
