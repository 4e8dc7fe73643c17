//! Three replicas behind a load balancer end one after the other, while an agent has tunnels to two of them
//! and a caller sends requests.

use anyhow::{Context, Result, ensure};
use harness::asking::while_sending;
use harness::bed::member;
use harness::caller::Caller;
use harness::http1::{Endpoint, Response, member_path};
use harness::own_agent::{self, Difference, OwnAgent, own_data};
use harness::own_fleet::OwnFleet;
use harness::own_sidecar::OwnSidecar;
use harness::relay::Relay;
use harness::wait::{SOON, eventually};
use tempfile::TempDir;

/// The replicas, and the addresses by which they find each other.
struct Site {
    fleet: OwnFleet,
    files: TempDir,
    replicas: Vec<OwnSidecar>,
    /// One address for each replica and for each replacement.
    addresses: Vec<Relay>,
    balancer: Relay,
    agent: OwnAgent,
    admin: Caller,
}

impl Site {
    fn new(name: &str) -> Result<Self> {
        let (fleet, cluster, files) = (OwnFleet::new(name)?, format!("e2e-{name}"), tempfile::tempdir()?);
        own_agent::register(&cluster, &fleet.namespace, &own_data(member("m1")?)?)?;
        let addresses = (0..2 * REPLICAS).map(|_| Relay::between(&[])).collect::<Result<_>>()?;
        let balancer = Relay::between(&[])?;
        let to_balancer = Difference::to_sidecar(&format!("https://{}", balancer.address))?;
        let difference = Difference { flags: &["--tunnels=2"], ..to_balancer };
        let agent = OwnAgent::start(&cluster, member("m1")?, &difference)?;
        let admin = Caller::certificate("e2e-agent-rollout", &["system:masters"])?;
        let mut site = Self { fleet, files, replicas: Vec::new(), addresses, balancer, agent, admin };
        while site.replicas.len() < REPLICAS {
            site.start(site.replicas.len())?;
        }
        site.until_connected()?;
        for replica in &site.replicas {
            let endpoint = site.endpoint(replica)?;
            eventually("each replica reaches the member", SOON, || site.ask(&endpoint).map(Some))?;
        }
        Ok(site)
    }

    /// Starts one more replica, which the others find at the address of this number.
    fn start(&mut self, number: usize) -> Result<()> {
        let peers: Vec<_> = self.addresses.iter().map(|relay| relay.address.to_string()).collect();
        let peers = format!("--peers={}", peers.join(","));
        let started = self.fleet.replica(self.files.path(), &[&peers, "--shutdown-delay-duration=1s"])?;
        self.addresses[number].lead_to(&[&started.sidecar.url])?;
        self.replicas.push(started);
        self.balance()
    }

    /// Points the load balancer at all replicas.
    fn balance(&self) -> Result<()> {
        let urls: Vec<_> = self.replicas.iter().map(|replica| replica.sidecar.url.as_str()).collect();
        self.balancer.lead_to(&urls)
    }

    fn endpoint(&self, replica: &OwnSidecar) -> Result<Endpoint> {
        replica.endpoint(self.admin.certificate.as_deref())
    }

    fn ask(&self, endpoint: &Endpoint) -> Result<()> {
        let answer = get(&self.agent.cluster, endpoint)?;
        ensure!(answer.status() == 200, "{}: {}", answer.status(), answer.text());
        Ok(())
    }

    /// Sends a request on a new connection through the load balancer to any replica.
    fn asking(&self) -> Result<impl Fn() -> Result<Response> + Sync + use<>> {
        let (cluster, balanced) = (self.agent.cluster.clone(), self.balanced()?);
        Ok(move || get(&cluster, &balanced))
    }

    fn balanced(&self) -> Result<Endpoint> {
        let any = self.replicas.first().context("no replica")?;
        Ok(self.endpoint(any)?.at(self.balancer.address))
    }

    /// Waits until the agent has a tunnel to each replica, or to two.
    fn until_connected(&self) -> Result<()> {
        let wanted = self.replicas.len().min(2) as f64;
        eventually("the agent has its tunnels", 2 * SOON, || {
            let each = self.replicas.iter().map(|replica| replica.metric("mc_sidecar_agent_tunnels"));
            let tunnels: f64 = each.collect::<Result<Vec<_>>>()?.iter().sum();
            ensure!(tunnels >= wanted, "{tunnels} tunnels: {}", self.agent.log()?);
            Ok(Some(()))
        })
    }
}

fn get(cluster: &str, endpoint: &Endpoint) -> Result<Response> {
    let path = member_path(cluster, "/api/v1/namespaces/default");
    endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes())
}

#[test]
fn killed_replica_of_three_fails_no_new_request() -> Result<()> {
    let mut site = Site::new("agent-three-kill")?;
    let asking = site.asking()?;
    for _ in 0..2 {
        // The load balancer no longer uses the killed replica. Requests in flight to that replica are lost
        // with it.
        let mut killed = site.replicas.remove(0);
        site.balance()?;
        killed.kill()?;
        let balanced = site.balanced()?;
        while_sending(&asking, || {
            site.until_connected()?;
            (0..40).try_for_each(|_| site.ask(&balanced))
        })?;
    }
    Ok(())
}

#[test]
fn rollout_of_three_replicas_fails_no_request() -> Result<()> {
    let mut site = Site::new("agent-three-roll")?;
    while_sending(site.asking()?, || {
        for number in REPLICAS..2 * REPLICAS {
            site.start(number)?;
            let mut old = site.replicas.remove(0);
            site.balance()?;
            old.terminate()?;
            let status = old.ended()?;
            ensure!(status.success(), "{status}: {}", old.log()?);
            ensure!(!old.log()?.contains("the grace period is over"), "connections were cut");
        }
        site.until_connected()
    })
}

const REPLICAS: usize = 3;
