//! A client or member that pauses is not an attacker: long-running requests in which it reads
//! nothing continue for as long as everything that paused requests hold fits the shares. A caller
//! with too many of them loses only their own.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Step};
use harness::hostile::unread::{Request, Stall, Unread};
use harness::http1::{Connection, Endpoint, member_path};
use harness::noise::MEBIBYTE;
use harness::own_sidecar::OwnSidecar;
use harness::wait::{SOON, eventually};

use crate::pause;
use crate::scale::serial::hostile::{LARGE, script};

#[test]
fn fault_36_paused_watches_outlive_a_flood_of_another_caller() -> Result<()> {
    let fake = FakeMember::start("e2e-paused-watches", script)?;
    let own = OwnSidecar::start()?;
    let in_flight = || Ok::<_, anyhow::Error>(own.metric("mc_sidecar_requests_in_flight ")? as usize);
    let watch = Request::get(member_path(&fake.name, &format!("/api/v1{LARGE}?watch=true")));
    let jane = endpoint(&own, "jane")?;
    let mut paused = jane.clone().with_receive_buffer(4096).connect()?;
    paused.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", watch.target).as_bytes())?;
    ensure!(paused.head()?.status == 200, "no watch");
    let _paused_too = Unread::send(Stall::Window, &jane, std::slice::from_ref(&watch))?;
    eventually("the watches are open", SOON, || Ok((in_flight()? == 2).then_some(())))?;
    let begun = Instant::now();

    let flood = Unread::send(Stall::Window, &endpoint(&own, "mallory")?, &vec![watch; FLOOD])?;
    eventually("the flood has arrived", SOON, || Ok((in_flight()? == 2 + FLOOD).then_some(())))?;
    eventually("its surplus is cut off", SOON, || Ok((in_flight()? <= 2 + SHARE).then_some(())))?;
    eventually("a long pause is over", 2 * pause(), || Ok((begun.elapsed() > pause()).then_some(())))?;
    drop(flood);
    eventually("the flood is gone", SOON, || {
        let open = in_flight()?;
        ensure!(open >= 2, "{open} are open");
        Ok((open == 2).then_some(()))
    })?;
    for _ in 0..100 {
        ensure!(!paused.chunk()?.is_empty(), "the watch has ended");
    }
    Ok(())
}

#[test]
fn fault_36_66_tunnel_outlives_a_member_that_pauses() -> Result<()> {
    let gate = Gate::closed();
    let fake = FakeMember::start("e2e-paused-member", {
        let gate = gate.clone();
        move |_| {
            let read = [Step::Wait(gate.clone()), Step::Receive(SENT), Step::Send(b"all".to_vec())];
            [Step::Send(SWITCHED.into())].into_iter().chain(read).collect()
        }
    })?;
    let own = OwnSidecar::start()?;
    let mut tunnel: Connection = endpoint(&own, "jane")?.connect()?;
    let path = member_path(&fake.name, "/tunnel");
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
    tunnel.send(head.as_bytes())?;
    ensure!(tunnel.head()?.status == 101, "no tunnel");
    let piece = vec![b'x'; 64 * 1024];
    let sent = tunnel.send_until_held_back(&piece, SENT, Duration::from_secs(1))?;
    ensure!(sent < SENT, "the member has taken all");
    let begun = Instant::now();
    eventually("a pause is over", 2 * MEMBERS_PAUSE, || Ok((begun.elapsed() > MEMBERS_PAUSE).then_some(())))?;
    gate.open();
    tunnel.socket().set_write_timeout(Some(SOON))?;
    let mut left = SENT - sent;
    while left > 0 {
        tunnel.send(&piece[..left.min(piece.len())])?;
        left -= left.min(piece.len());
    }
    ensure!(tunnel.exactly(3)? == b"all");
    Ok(())
}

fn endpoint(own: &OwnSidecar, user: &str) -> Result<Endpoint> {
    let admin = Caller::certificate(&format!("e2e-paused-{user}"), &["system:masters"])?;
    own.endpoint(admin.certificate.as_deref())
}

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
const FLOOD: usize = 450;
/// A caller's share of paused requests.
const SHARE: usize = 384;
/// Longer than the 15 s after which data without an acknowledgment ends a request.
const MEMBERS_PAUSE: Duration = Duration::from_secs(20);
/// More than all buffers in between hold.
const SENT: usize = 64 * MEBIBYTE;
