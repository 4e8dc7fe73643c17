//! An agent keeps tunnels to several replicas, so that one replica can end.

use anyhow::{Result, ensure};
use harness::bed::member;
use harness::caller::Caller;
use harness::http1::{Endpoint, member_path};
use harness::own_agent::{self, Difference, OwnAgent, own_data};
use harness::own_fleet::OwnFleet;
use harness::own_sidecar::OwnSidecar;
use harness::relay::Relay;
use harness::wait::{SOON, eventually};

/// Two replicas behind a load balancer, and an agent that dials it.
struct Site {
    replicas: [OwnSidecar; 2],
    agent: OwnAgent,
    admin: Caller,
    _balancer: Relay,
}

impl Site {
    fn new(name: &str) -> Result<Self> {
        let (fleet, cluster) = (OwnFleet::new(name)?, format!("e2e-{name}"));
        own_agent::register(&cluster, &fleet.namespace, &own_data(member("m1")?)?)?;
        let replicas = [fleet.sidecar(&[])?, fleet.sidecar(&["--controllers="])?];
        let urls = replicas.each_ref().map(|replica| replica.sidecar.url.as_str());
        let balancer = Relay::between(&urls)?;
        let to_balancer = Difference::to_sidecar(&format!("https://{}", balancer.address))?;
        let difference = Difference { flags: &["--tunnels=2"], ..to_balancer };
        let agent = OwnAgent::start(&cluster, member("m1")?, &difference)?;
        let admin = Caller::certificate("e2e-agent-replicas", &["system:masters"])?;
        let site = Self { replicas, agent, admin, _balancer: balancer };
        for replica in &site.replicas {
            let endpoint = site.endpoint(replica)?;
            eventually("the replica has a tunnel", SOON, || site.serves(&endpoint).map(Some))?;
        }
        Ok(site)
    }

    fn endpoint(&self, replica: &OwnSidecar) -> Result<Endpoint> {
        replica.endpoint(self.admin.certificate.as_deref())
    }

    fn serves(&self, endpoint: &Endpoint) -> Result<()> {
        let path = member_path(&self.agent.cluster, "/api/v1/namespaces/default");
        let answer = endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes())?;
        ensure!(answer.status() == 200, "{}: {}", answer.status(), answer.text());
        Ok(())
    }
}

#[test]
fn killed_replica_leaves_the_tunnel_to_the_other() -> Result<()> {
    let mut site = Site::new("agent-kill")?;
    site.replicas[0].kill()?;
    let other = site.endpoint(&site.replicas[1])?;
    for _ in 0..50 {
        site.serves(&other)?;
    }
    Ok(())
}

#[test]
fn agent_leaves_a_replica_that_shuts_down() -> Result<()> {
    let mut site = Site::new("agent-leaves")?;
    let other = site.endpoint(&site.replicas[1])?;
    site.replicas[0].terminate()?;
    site.agent.until_logged("the replica shuts down")?;
    let status = site.replicas[0].ended()?;
    ensure!(status.success(), "{status}: {}", site.replicas[0].log()?);
    ensure!(!site.replicas[0].log()?.contains("the grace period is over"), "the tunnel was cut");
    site.serves(&other)
}
