//! Watches, requests to a pod's proxy and upgrades end when their member or the right to them is
//! removed, even if the client does not read and the member does not answer.

use std::time::Duration;

use anyhow::{Result, ensure};
use harness::bed::{bed, host, sidecar};
use harness::caller::Caller;
use harness::fake_member::FakeMember;
use harness::hostile::unread::{Request, Stall, Unread};
use harness::http1::{Endpoint, member_path};
use harness::scene::{EVERY_VERB, Scene};
use harness::wait::{SOON, eventually};

use super::super::site::{LARGE, SILENT, script};

#[test]
fn fault_46_73_unread_requests_end_with_their_member() -> Result<()> {
    let open = Open::start("member")?;
    host()?.delete(&format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{}", open.fake.name))?;
    open.ends_within(Duration::from_secs(1))
}

#[test]
fn fault_46_73_unread_requests_end_with_the_right_to_them() -> Result<()> {
    let open = Open::start("right")?;
    open.scene.shut_out(&open.caller)?;
    // The right is revalidated every 30 s, and a decision is cached for 10 s.
    open.ends_within(Duration::from_secs(45))
}

/// One request of every kind through every entrance. All of them have reached the member.
struct Open {
    fake: FakeMember,
    caller: Caller,
    scene: Scene,
    _unread: Vec<Unread>,
}

impl Open {
    fn start(name: &str) -> Result<Self> {
        let fake = FakeMember::start(&format!("e2e-hostile-ends-{name}"), script)?;
        let caller = Caller::certificate(&format!("e2e-hostile-ends-{name}"), &[])?;
        let scene = Scene::on("m2", &format!("hostile-ends-{name}"))?;
        scene.let_in(&caller, &[&fake.name], EVERY_VERB)?;
        let certificate = caller.certificate.as_deref();
        let past = Endpoint::sidecar(sidecar()?, certificate)?;
        let through = Endpoint::cluster(&bed()?.host, certificate)?;
        let mut unread = Vec::new();
        for (entrance, endpoint) in [("past", past), ("through", through)] {
            for stall in stalls(entrance) {
                unread.push(Unread::send(stall, &endpoint, &requests(&fake, entrance, stall))?);
            }
        }
        eventually("the member has all requests", SOON, || {
            let arrived = fake.requests(OPEN).len();
            ensure!(arrived == ALL, "{arrived} arrived");
            Ok(Some(()))
        })?;
        Unread::settle(&mut unread)?;
        let ended: Vec<_> = fake.requests(OPEN).into_iter().filter(|request| request.ended).collect();
        ensure!(ended.is_empty(), "some ended before their time: {ended:#?}");
        Ok(Self { fake, caller, scene, _unread: unread })
    }

    /// Checks that the member sees the end of every request in time.
    fn ends_within(&self, time: Duration) -> Result<()> {
        eventually("all of them end", time, || {
            let open = self.fake.requests(OPEN).into_iter().filter(|request| !request.ended);
            let open: Vec<_> = open.map(|request| request.target().to_owned()).collect();
            ensure!(open.is_empty(), "{} are open: {open:#?}", open.len());
            Ok(Some(()))
        })
    }
}

/// The host itself ends connections that read nothing.
fn stalls(entrance: &str) -> Vec<Stall> {
    Stall::ALL.into_iter().filter(|stall| entrance == "past" || *stall != Stall::Connection).collect()
}

/// A watch whose events fill every buffer, a POST to a pod's proxy without an answer, and over HTTP/1.1 an
/// upgrade without an answer.
fn requests(fake: &FakeMember, entrance: &str, stall: Stall) -> Vec<Request> {
    let kind = format!("{entrance}-{stall:?}").to_lowercase();
    let pod = |kind: &str| {
        let rest = format!("/api/v1/namespaces/n/pods/p/proxy{OPEN}/{kind}{SILENT}");
        Request::post(member_path(&fake.name, &rest))
    };
    // Only the path of a collection counts as a watch. The host re-encodes the query.
    let watch = format!("/api/v1/namespaces{LARGE}{OPEN}?watch=true&kind={kind}");
    let mut requests = vec![Request::get(member_path(&fake.name, &watch)), pod(&kind)];
    if stall == Stall::Http1 {
        let mut upgrade = pod(&format!("{entrance}-upgrade"));
        upgrade.lines.extend([("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]);
        requests.push(upgrade);
    }
    requests
}

/// A part of the target of each request.
const OPEN: &str = "/held";
/// Two requests for each of the three stalls past the host and the two through it, and two
/// upgrades.
const ALL: usize = 12;
