//! One replica runs the controllers, another takes over when it ends, and no request fails meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, ok};
use harness::http1::{Endpoint, member_path};
use harness::own_fleet::OwnFleet;
use harness::own_sidecar::OwnSidecar;
use harness::wait::{SOON, eventually};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// Duration of the Lease in these tests.
const LEASE: Duration = Duration::from_secs(6);
const FLAGS: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=500ms",
];
/// Time to write a renewal, send its event, wake up, and read before the first write: a tenth of a second,
/// unless the machine is busy.
const MARGIN: Duration = Duration::from_secs(2);

#[test]
fn terminated_leader_is_replaced_at_once() -> Result<()> {
    let mut two = Two::new("e2e-leader-term")?;
    let before = two.term()?;
    two.leader.terminate()?;
    let took = two.until_followed(before)?.took;
    ensure!(took < LEASE - Duration::from_secs(1), "another led after {took:?} only");
    ensure!(two.leader.ended()?.success());
    two.is_looked_after()
}

#[test]
fn killed_leader_is_replaced_when_its_lease_expires() -> Result<()> {
    let mut two = Two::new("e2e-leader-kill")?;
    let before = two.term()?;
    two.leader.kill()?;
    two.until_followed(before)?.is_just_over(LEASE)?;
    two.is_looked_after()
}

#[test]
fn sidecar_without_controllers_is_never_leader() -> Result<()> {
    let fleet = OwnFleet::new("leader-off")?;
    let own = fleet.sidecar(&["--controllers="])?;
    let on = fleet.sidecar(&FLAGS)?;
    until_leads(&on)?;
    ensure!(own.metric("leader_election_master_status")? == 0.0);
    Ok(())
}

/// A takeover by another replica.
pub(crate) struct Followed {
    /// Time since the wait for it began.
    pub(crate) took: Duration,
    /// Time since the previous leader's last renewal, as both wrote it into the Lease.
    pub(crate) since_renewal: SignedDuration,
}

impl Followed {
    /// Waits until another replica holds the Lease, and fails as soon as `meanwhile` does.
    pub(crate) fn after(
        mut before: Term,
        host: &Api,
        namespace: &str,
        meanwhile: impl Fn() -> Result<()>,
    ) -> Result<Self> {
        let began = Instant::now();
        eventually("another leads", SOON, || {
            if let Err(failed) = meanwhile() {
                return Ok(Some(Err(failed)));
            }
            let now = Term::now(host, namespace)?;
            if now.holder == before.holder {
                before = now;
                return Ok(None);
            }
            let since_renewal = now.began.duration_since(before.renewed);
            Ok((!now.holder.is_empty()).then(|| Ok(Self { took: began.elapsed(), since_renewal })))
        })?
    }

    /// Checks that the new leader began right after the Lease expired, and not before.
    pub(crate) fn is_just_over(&self, lease: Duration) -> Result<()> {
        let after = Duration::try_from(self.since_renewal)?;
        ensure!(after >= lease, "another led when the Lease was not over: after {after:?}");
        ensure!(after < lease + MARGIN, "another led after {after:?} only");
        Ok(())
    }
}

/// The current leader, according to the Lease.
pub(crate) struct Term {
    pub(crate) holder: String,
    began: Timestamp,
    renewed: Timestamp,
}

impl Term {
    pub(crate) fn now(host: &Api, namespace: &str) -> Result<Self> {
        let lease =
            host.get(&format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/mc-sidecar"))?;
        let text = |key: &str| lease["spec"][key].as_str().unwrap_or_default();
        let time = |key: &str| text(key).parse().with_context(|| format!("{key}: {}", lease["spec"]));
        Ok(Self {
            holder: text("holderIdentity").to_owned(),
            began: time("acquireTime")?,
            renewed: time("renewTime")?,
        })
    }
}

/// Two replicas, a member, and a caller that sends requests to it without a pause.
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
        ensure!(other.metric("leader_election_master_status")? == 0.0, "two lead");
        let admin = Caller::certificate(&format!("{name}-admin"), &["system:masters"])?;
        let endpoint = other.endpoint(admin.certificate.as_deref())?;
        Ok(Self { fleet, fake, leader, other, endpoint })
    }

    /// Returns when the other replica leads. Until then, each request is answered.
    fn until_followed(&self, before: Term) -> Result<Followed> {
        let (host, namespace) = (&self.fleet.host, &self.fleet.namespace);
        let followed = Followed::after(before, host, namespace, || self.is_served())?;
        until_leads(&self.other)?;
        ensure!(!self.other.log()?.contains("cannot watch the Lease"), "{}", self.other.log()?);
        Ok(followed)
    }

    fn term(&self) -> Result<Term> {
        Term::now(&self.fleet.host, &self.fleet.namespace)
    }

    fn is_served(&self) -> Result<()> {
        let path = member_path(&self.fake.name, "/asked");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = self.endpoint.exchange(request.as_bytes())?;
        ensure!(answer.status() == 200, "{}: {}", answer.status(), answer.text());
        Ok(())
    }

    /// Checks that the current leader probes members.
    fn is_looked_after(&self) -> Result<()> {
        self.fake.shut(true);
        self.fleet.until(&self.fake.name, "Reachable", "False", "ConnectionFailed").map(drop)
    }
}

fn until_leads(own: &OwnSidecar) -> Result<()> {
    eventually("it leads", SOON, || Ok((own.metric("leader_election_master_status")? > 0.0).then_some(())))
        .with_context(|| own.log().unwrap_or_default())
}
