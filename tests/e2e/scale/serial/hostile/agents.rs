//! Requests through an agent whose answers are never read take a bounded part of a replica's
//! memory, even if the agent is an attacker's and sends each byte in a separate frame. The agent
//! harms only its own cluster.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::bed::{SYSTEM, member};
use harness::hostile::agents::{HostileAgent, Manner};
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
    // Endless answers with a connection each would fill the kernel's memory for TCP.
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

/// Each frame of one byte that waits costs the replica much more than its byte.
#[test]
fn fault_66_one_byte_frames_of_an_agent_cost_little_memory() -> Result<()> {
    let site = Site::start("frames", &[])?;
    let caller = site.admin("unread")?;
    let read = |cluster: &str, rest: &str| {
        let path = member_path(cluster, rest);
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        Ok::<_, anyhow::Error>(caller.exchange(request.as_bytes())?.status())
    };
    let (cluster, agents) = attacked(&site, Manner::Trickles, TUNNELS)?;
    ensure!(read(&cluster, "/read")? == 200, "the agent does not carry requests");
    let before = usage::resident(site.own.pid())?;
    let watch = format!("/api/v1/namespaces{ONE_MEBIBYTE}/pods?watch=true");
    let watches = vec![Request::get(member_path(&cluster, &watch)); WATCHES];
    let _unread = Unread::send(Stall::Window, &caller, &watches)?;
    let frames = || agents.iter().map(HostileAgent::frames).sum::<u64>();
    let (mut last, mut unchanged) = (0, 0);
    eventually("the agents' windows are full, or their tunnels are cut", TWO_MINUTES, || {
        let now = frames();
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
        let is_full = unchanged > 40 && now > MANY_FRAMES;
        ensure!(is_full || agents.iter().all(HostileAgent::is_cut), "{now} frames");
        Ok(Some(()))
    })?;
    let held = usage::peak(site.own.pid())?.saturating_sub(before);
    ensure!(held < MOST_OF_FRAMES, "{} frames hold {} MiB", frames(), held / MEBIBYTE);
    // Another member's requests do not notice.
    ensure!(read(&site.fake.name, "/read")? == 200, "a request to another member failed");
    Ok(())
}

/// A cluster with tunnels that an attacker attached.
fn attacked(site: &Site, manner: Manner, tunnels: usize) -> Result<(String, Vec<HostileAgent>)> {
    let cluster = format!("{}-tunnel", site.fake.name);
    let data = site.fake.secret(&json!({}));
    own_agent::register(&cluster, SYSTEM, &data)?;
    let target = data["server"].as_str().and_then(|server| server.strip_prefix("https://"));
    let target: SocketAddr = target.context("no server")?.parse()?;
    let token = own_agent::token(&cluster, 3600)?;
    let endpoint = site.own.endpoint(None)?;
    let attach = |_| {
        eventually("a tunnel is accepted", SOON, || {
            HostileAgent::attach(&endpoint, (&cluster, &token), target, manner).map(Some)
        })
    };
    let agents = (0..tunnels).map(attach).collect::<Result<_>>()?;
    Ok((cluster, agents))
}

/// As many tunnels as a replica keeps for one cluster.
const TUNNELS: usize = 8;
const TWO_MINUTES: Duration = Duration::from_secs(120);
const WATCHES: usize = 64;
const MANY_FRAMES: u64 = 4_000_000;
/// What the watches' windows hold, plus the buffers of a tunnel and of a request.
const MOST_OF_FRAMES: usize = 128 * MEBIBYTE;

/// This is more than the windows of all of them may hold together.
const COUNT: usize = 800;
/// The bound on unread bytes, plus the buffers of a request.
const MOST: usize = 256 * MEBIBYTE + COUNT * 200 * 1024;
