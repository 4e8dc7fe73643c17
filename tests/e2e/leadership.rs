//! One replica runs the controllers, another takes over when it ends, and requests do not notice.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, ok};
use harness::http1::{Endpoint, member_path};
use harness::own_fleet::OwnFleet;
use harness::own_sidecar::OwnSidecar;
use harness::wait::{SOON, eventually};
use serde_json::json;

/// How long a Lease lasts here.
const LEASE: Duration = Duration::from_secs(6);
const FLAGS: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=500ms",
];

#[test]
fn a_leader_that_is_told_to_end_is_followed_at_once() -> Result<()> {
    let mut two = Two::new("e2e-leader-term")?;
    two.leader.terminate()?;
    let took = two.until_followed()?;
    ensure!(took < LEASE - Duration::from_secs(1), "another led after {took:?} only");
    ensure!(two.leader.ended()?.success());
    two.is_looked_after()
}

#[test]
fn a_leader_that_is_killed_is_followed_when_its_lease_is_over() -> Result<()> {
    let mut two = Two::new("e2e-leader-kill")?;
    two.leader.kill()?;
    let took = two.until_followed()?;
    ensure!(took < LEASE + Duration::from_secs(5), "another led after {took:?} only");
    two.is_looked_after()
}

#[test]
fn a_sidecar_whose_controllers_are_off_leads_nobody() -> Result<()> {
    let fleet = OwnFleet::new("leader-off")?;
    let own = fleet.sidecar(&["--controllers="])?;
    let on = fleet.sidecar(&FLAGS)?;
    until_leads(&on)?;
    ensure!(own.metric("mc_sidecar_leader")? == 0.0);
    Ok(())
}

/// Two replicas, a member, and a caller who never stops asking for it.
struct Two {
    fleet: OwnFleet,
    fake: FakeMember,
    leader: OwnSidecar,
    other: OwnSidecar,
    endpoint: Endpoint,
}

impl Two {
    fn new(name: &str) -> Result<Self> {
        let fleet = OwnFleet::new(name.trim_start_matches("e2e-"))?;
        let fake = FakeMember::unregistered(name, |_| ok())?;
        fleet.register(name, &fake.secret(&json!({})))?;
        let leader = fleet.sidecar(&FLAGS)?;
        until_leads(&leader)?;
        let other = fleet.sidecar(&FLAGS)?;
        fleet.until(name, "Ready", "True", "Ready")?;
        ensure!(other.metric("mc_sidecar_leader")? == 0.0, "two lead");
        let admin = Caller::certificate(&format!("{name}-admin"), &["system:masters"])?;
        let endpoint = other.endpoint(admin.certificate.as_deref())?;
        Ok(Self { fleet, fake, leader, other, endpoint })
    }

    /// How long it took until the other leads. Meanwhile each of its requests is answered.
    fn until_followed(&self) -> Result<Duration> {
        let began = Instant::now();
        loop {
            self.is_served()?;
            if self.other.metric("mc_sidecar_leader")? > 0.0 {
                return Ok(began.elapsed());
            }
            ensure!(began.elapsed() < SOON, "nobody leads: {}", self.other.log()?);
        }
    }

    fn is_served(&self) -> Result<()> {
        let path = member_path(&self.fake.name, "/asked");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = self.endpoint.exchange(request.as_bytes())?;
        ensure!(answer.status() == 200, "{}: {}", answer.status(), answer.text());
        Ok(())
    }

    /// The one that leads now does what a leader does.
    fn is_looked_after(&self) -> Result<()> {
        self.fake.shut(true);
        self.fleet.until(&self.fake.name, "Reachable", "False", "ConnectionFailed").map(drop)
    }
}

fn until_leads(own: &OwnSidecar) -> Result<()> {
    eventually("it leads", SOON, || Ok((own.metric("mc_sidecar_leader")? > 0.0).then_some(())))
        .with_context(|| own.log().unwrap_or_default())
}
