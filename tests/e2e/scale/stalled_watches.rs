//! The sidecar ends a watch whose client reads nothing, in each way in which a client can stall, although the
//! right remains and a watch has no deadline.

use std::time::Duration;

use anyhow::Result;
use harness::caller::Caller;
use harness::fake_member::FakeMember;
use harness::hostile::unread::{Request, Stall, Unread};
use harness::http1::member_path;
use harness::own_sidecar::OwnSidecar;
use harness::wait::{SOON, eventually};

use crate::scale::hostile::{LARGE, script};

#[test]
fn watch_whose_client_reads_nothing_ends_after_a_minute() -> Result<()> {
    let fake = FakeMember::start("e2e-stalled-watches", script)?;
    let own = OwnSidecar::start()?;
    let watch = Request::get(member_path(&fake.name, &format!("/api/v1{LARGE}?watch=true")));
    let admin = Caller::certificate("e2e-stalled-watches", &["system:masters"])?;
    let endpoint = own.endpoint(admin.certificate.as_deref())?;
    let in_flight = || Ok::<_, anyhow::Error>(own.metric("mc_sidecar_requests_in_flight ")? as usize);
    let mut clients = Vec::new();
    for stall in Stall::ALL {
        let client = Unread::send(stall, &endpoint, std::slice::from_ref(&watch))?;
        clients.push(client);
        eventually("the watch is open", SOON, || Ok((in_flight()? == clients.len()).then_some(())))?;
    }
    Unread::settle(&mut clients)?;
    // A watch that is read stays open; the tests of watches show that.
    eventually("no watch is left", MINUTE + SOON, || Ok((in_flight()? == 0).then_some(())))
}

const MINUTE: Duration = Duration::from_secs(60);
