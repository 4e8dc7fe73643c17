//! Requests through an agent whose answers are never read hold a bounded part of a replica's memory.

use anyhow::{Context, Result, ensure};
use harness::bed::{SYSTEM, member};
use harness::hostile::unread::{Request, Stall, Unread};
use harness::http1::member_path;
use harness::noise::MEBIBYTE;
use harness::own_agent::{self, Difference, OwnAgent};
use harness::usage;
use harness::wait::{SOON, eventually};
use serde_json::json;

use super::site::{ONE_MEBIBYTE, Site};

#[test]
fn fault_66_unread_answers_through_agents_are_bounded() -> Result<()> {
    let site = Site::start("agents", &[])?;
    let cluster = format!("{}-tunnel", site.fake.name);
    let data = site.fake.secret(&json!({}));
    own_agent::register(&cluster, SYSTEM, &data)?;
    let mut target = member("m1")?.clone();
    target.server = data["server"].as_str().context("no server")?.to_owned();
    // One tunnel has fewer places.
    let agents = [(); 2].map(|()| {
        let to_sidecar = Difference::to_sidecar(&site.own.sidecar.url)?;
        let agent =
            OwnAgent::start(&cluster, &target, &Difference { flags: &["--tunnels=1"], ..to_sidecar })?;
        agent.until_logged("connected")?;
        Ok::<_, anyhow::Error>(agent)
    });
    let _agents = agents.into_iter().collect::<Result<Vec<_>>>()?;
    let caller = site.admin("unread")?;
    let before = usage::resident(site.own.pid())?;
    let path = |rest: &str| member_path(&cluster, rest);
    // Endless answers, and a connection for each, would fill the kernel's memory for TCP.
    let watch = Request::get(path(&format!("/api/v1/namespaces{ONE_MEBIBYTE}/pods?watch=true")));
    let _unread = Unread::send(Stall::Window, &caller, &vec![watch; COUNT])?;
    eventually("all watches have reached the member", SOON, || {
        let arrived = site.fake.requests(ONE_MEBIBYTE).len();
        ensure!(arrived == COUNT, "{arrived} arrived");
        Ok(Some(()))
    })?;
    eventually("some of them are reset", SOON, || {
        let resets = site.own.metric("mc_sidecar_unread_connections_reset_total ")?;
        ensure!(resets > 0.0, "none");
        Ok(Some(()))
    })?;
    eventually("little memory is held", SOON, || {
        let held = usage::resident(site.own.pid())?.saturating_sub(before);
        ensure!(held < MOST, "{} MiB are held", held / MEBIBYTE);
        Ok(Some(()))
    })?;
    let read = caller.exchange(
        format!("GET {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path("/read")).as_bytes(),
    )?;
    ensure!(read.status() == 200, "a request that is read: {}", read.status());
    Ok(())
}

/// More than the windows of all of them may hold together.
const COUNT: usize = 800;
/// The bound on unread bytes, and the buffers of a request besides.
const MOST: usize = 256 * MEBIBYTE + COUNT * 200 * 1024;
