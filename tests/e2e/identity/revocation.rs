//! Removing a right, or the member itself, ends the streams that depend on it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::bed::{bed, host};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step};
use harness::http1::{Connection, Endpoint, member_path};
use harness::scene::{EVERY_VERB, Scene};

#[test]
fn fault_73_open_watch_ends_with_the_right_to_it() -> Result<()> {
    let (scene, fake, caller) = open_to_one("watch", WATCH)?;
    let mut watch = opened(&fake, &caller, "GET", "")?;
    scene.shut_out(&caller)?;
    watch.rest().context("the watch goes on")?;
    fake.wait_for("/open", |request| request.ended)?;
    Ok(())
}

#[test]
fn fault_73_open_tunnel_ends_with_the_right_to_it() -> Result<()> {
    let (scene, fake, caller) = open_to_one("tunnel", SWITCHED)?;
    let upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    let mut tunnel = opened(&fake, &caller, "POST", upgrade)?;
    scene.shut_out(&caller)?;
    tunnel.rest().context("the tunnel stays open")?;
    fake.wait_for("/open", |request| request.ended)?;
    Ok(())
}

#[test]
fn fault_73_open_watch_ends_with_its_member() -> Result<()> {
    let (_, fake, caller) = open_to_one("member", WATCH)?;
    let mut watch = opened(&fake, &caller, "GET", "")?;
    host()?.delete(&format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{}", fake.name))?;
    watch.set_patience(AT_ONCE)?;
    watch.rest().context("the watch goes on")?;
    Ok(())
}

/// A member that sends this answer and then only receives, and a caller who may enter it.
fn open_to_one(name: &str, answer: &'static str) -> Result<(Scene, FakeMember, Caller)> {
    let fake = FakeMember::start(&format!("e2e-revoked-{name}"), move |_| {
        vec![Step::Send(answer.into()), Step::ReceiveAll]
    })?;
    let caller = Caller::certificate(&format!("e2e-revoked-{name}"), &[])?;
    let scene = Scene::on("m2", &format!("revoked-{name}"))?;
    scene.let_in(&caller, &[&fake.name], EVERY_VERB)?;
    Ok((scene, fake, caller))
}

/// Opens a stream through the host that waits long enough to see its end.
fn opened(fake: &FakeMember, caller: &Caller, method: &str, headers: &str) -> Result<Connection> {
    let mut connection = Endpoint::cluster(&bed()?.host, caller.certificate.as_deref())?.connect()?;
    let path = member_path(&fake.name, "/api/v1/open?watch=true");
    connection.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())?;
    let status = connection.head()?.status;
    ensure!([101, 200].contains(&status), "answered {status}");
    // The right is revalidated every 30 s, and the host's own caches add to that.
    connection.set_patience(Duration::from_secs(90))?;
    Ok(connection)
}

/// This is well below the timeout of a request that is not a watch.
const AT_ONCE: Duration = Duration::from_secs(20);
const WATCH: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
