//! A replica without an agent's tunnel reaches the member through the replica that has it.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use harness::bed::{member, sidecar};
use harness::caller::Caller;
use harness::http1::{SIDECAR_NAME, member_path};
use harness::own_agent::{self, Difference, OwnAgent, own_data};
use harness::own_fleet::OwnFleet;
use harness::own_sidecar::OwnSidecar;
use harness::peer;
use harness::wait::{SOON, eventually};
use tempfile::TempDir;

/// A replica with the tunnel of an agent, and one that knows this replica.
struct Site {
    fleet: OwnFleet,
    has: OwnSidecar,
    asks: OwnSidecar,
    agent: OwnAgent,
    admin: Caller,
    files: TempDir,
}

impl Site {
    fn new(name: &str) -> Result<Self> {
        let (fleet, cluster, files) = (OwnFleet::new(name)?, format!("e2e-{name}"), tempfile::tempdir()?);
        own_agent::register(&cluster, &fleet.namespace, &own_data(member("m1")?)?)?;
        let has = fleet.replica(files.path(), &["--controllers="])?;
        let peers = format!("--peers={}", has.sidecar.url.trim_start_matches("https://"));
        let asks = fleet.replica(files.path(), &[&peers])?;
        let difference = Difference::to_sidecar(&has.sidecar.url)?;
        let agent = OwnAgent::start(&cluster, member("m1")?, &difference)?;
        agent.until_logged("connected")?;
        let admin = Caller::certificate("e2e-agent-peers", &["system:masters"])?;
        let site = Self { fleet, has, asks, agent, admin, files };
        // The replica may have asked before the tunnel was open, and caches that answer for a second.
        eventually("the other replica reaches the member", SOON, || site.serves(&site.asks).map(Some))?;
        Ok(site)
    }

    fn serves(&self, replica: &OwnSidecar) -> Result<()> {
        let path = member_path(&self.agent.cluster, "/api/v1/namespaces/default");
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let answer = replica.endpoint(self.admin.certificate.as_deref())?.exchange(request.as_bytes())?;
        ensure!(answer.status() == 200, "{}: {}", answer.status(), answer.text());
        Ok(())
    }
}

#[test]
fn replica_without_a_tunnel_reaches_the_member() -> Result<()> {
    let site = Site::new("agent-peers")?;
    for _ in 0..20 {
        site.serves(&site.asks)?;
    }
    // The leader has no tunnel, but it reports the connection too.
    let connected = site.fleet.until(&site.agent.cluster, "Connected", "True", "AgentConnected")?;
    ensure!(connected.message.contains("is connected to replica "), "{connected}");
    site.fleet.until(&site.agent.cluster, "Reachable", "True", "Answers")?;
    Ok(())
}

#[test]
fn lost_tunnel_of_another_replica_is_reported() -> Result<()> {
    let mut site = Site::new("agent-peers-lost")?;
    site.agent.kill()?;
    eventually("the other replica says that no agent is connected", 2 * SOON, || {
        let said = site.serves(&site.asks).err().context("it still answers")?;
        ensure!(said.to_string().contains("no agent has been connected since"), "{said}");
        Ok(Some(()))
    })?;
    site.fleet.until(&site.agent.cluster, "Connected", "False", "NoAgent").map(drop)
}

/// A client of the secure port that speaks the protocol of replicas, with and without a certificate.
#[test]
fn only_replicas_get_an_answer() -> Result<()> {
    let site = Site::new("agent-peers-attack")?;
    let address: SocketAddr = site.has.sidecar.url.trim_start_matches("https://").parse()?;
    let cluster = &site.agent.cluster;
    let ask = |certificate: Option<&str>| {
        let question = format!("connect {cluster} {}\n", member("m1")?.server.trim_start_matches("https://"));
        let own = certificate.map(|stem| site.files.path().join(stem));
        peer::ask(address, &sidecar()?.ca_certificate, own.as_deref(), &question)
    };
    ensure!(ask(Some("replica"))?.as_deref() == Some("connected"), "a replica got no connection");
    // A certificate of the same CA that does not belong to a replica.
    sidecar()?.serving_files(&[SIDECAR_NAME], site.files.path(), "other")?;
    ensure!(ask(Some("other"))?.is_none(), "a certificate without the URI got an answer");
    let administrator = site.admin.certificate.as_ref().map(Arc::clone).context("no certificate")?;
    std::fs::write(site.files.path().join("admin.crt"), &administrator.certificate)?;
    std::fs::write(site.files.path().join("admin.key"), &administrator.key)?;
    ensure!(ask(Some("admin"))?.is_none(), "the host's administrator got an answer as a replica");
    ensure!(ask(None)?.is_none(), "a stranger without a certificate got an answer");
    Ok(())
}
