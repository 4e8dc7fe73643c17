//! After SIGTERM the sidecar finishes requests, closes open streams, and ends in time.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Step, ok};
use harness::http1::{Connection, Endpoint, member_path};
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::wait::{SOON, eventually};

#[test]
fn shutdown_delay_is_not_ready_but_serves_new_connections() -> Result<()> {
    let mut own = own_with(&["--shutdown-delay-duration=6"])?;
    let fake = FakeMember::start("e2e-shutdown-delay", |_| ok())?;
    let endpoint = admin(&own, "delay")?;
    let mut kept = ask(&endpoint, &fake, "/early", "")?;
    let early = kept.response()?;
    ensure!(early.status() == 200 && early.head.value("connection").is_none(), "it is not kept");
    own.terminate()?;
    let told = Instant::now();
    eventually("it is not ready", SOON, || Ok((own.probe("/readyz")? == 503).then_some(())))?;
    ensure!(own.probe("/livez")? == 200, "it is alive");
    let mut connection = ask(&endpoint, &fake, "/late", "")?;
    let late = connection.response()?;
    ensure!(late.status() == 200, "a request in the delay is not served");
    // A client that reads this sends no request to a closed port.
    ensure!(late.head.value("connection") == Some("close"), "the next request would come this way too");
    let path = member_path(&fake.name, "/again");
    kept.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    ensure!(kept.response()?.head.value("connection") == Some("close"), "nor by a connection that was kept");
    ensure!(told.elapsed() < Duration::from_secs(6), "the test itself was too slow");
    drop(connection);
    ended_well(&mut own)?;
    ensure!(told.elapsed() >= Duration::from_secs(6), "it did not wait: {:?}", told.elapsed());
    Ok(())
}

#[test]
fn shutdown_finishes_requests_and_accepts_no_connection() -> Result<()> {
    let mut own = own_with(&[])?;
    let gate = Gate::closed();
    let held = gate.clone();
    let fake = FakeMember::start("e2e-shutdown-request", move |request| match request.target() {
        target if target.contains("/held") => {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n";
            vec![Step::Wait(held.clone()), Step::Send(head.into()), Step::Send(b"answer".to_vec())]
        }
        _ => ok(),
    })?;
    let endpoint = admin(&own, "request")?;
    let mut connection = ask(&endpoint, &fake, "/held", "")?;
    fake.wait_for("/held", |_| true)?;
    own.terminate()?;
    eventually("no connection is accepted", SOON, || Ok(endpoint.connect().is_err().then_some(())))?;
    gate.open();
    let answer = connection.response()?;
    ensure!(answer.status() == 200 && answer.body == b"answer", "{} {}", answer.status(), answer.text());
    ended_well(&mut own)
}

#[test]
fn tunnel_works_in_the_grace_period_and_closes_on_both_sides() -> Result<()> {
    let mut own = own_with(&["--shutdown-grace-period=4"])?;
    let fake = FakeMember::start("e2e-shutdown-tunnel", |request| {
        if request.values("upgrade").is_empty() {
            return ok();
        }
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
        vec![Step::Send(head.into()), Step::ReceiveAll]
    })?;
    let endpoint = admin(&own, "tunnel")?;
    let mut tunnel = ask(&endpoint, &fake, "/tunnel", "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n")?;
    ensure!(tunnel.head()?.status == 101, "no tunnel");
    own.terminate()?;
    eventually("no connection is accepted", SOON, || Ok(endpoint.connect().is_err().then_some(())))?;
    tunnel.send(b"still here")?;
    fake.wait_for("/tunnel", |request| request.received == b"still here")?;
    tunnel.rest()?;
    // The member receives the end of the tunnel, not only a reset.
    fake.wait_for("/tunnel", |request| request.ended)?;
    ended_well(&mut own)?;
    closed_in_time(&own)
}

#[test]
fn watch_is_aborted_after_the_grace_period() -> Result<()> {
    let mut own = own_with(&["--shutdown-grace-period=1"])?;
    let fake = FakeMember::start("e2e-shutdown-watch", |request| {
        if !request.target().contains("watch") {
            return ok();
        }
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n";
        vec![Step::Send(head.into()), Step::ReceiveAll]
    })?;
    let mut watch = ask(&admin(&own, "watch")?, &fake, "/api/v1/pods?watch=1", "")?;
    ensure!(watch.head()?.status == 200 && watch.chunk()? == b"event", "no watch");
    own.terminate()?;
    ensure!(watch.chunk().is_err(), "its end is not one in good order");
    ended_well(&mut own)?;
    closed_in_time(&own)
}

/// Checks that the sidecar waited for the streams that it closed.
fn closed_in_time(own: &OwnSidecar) -> Result<()> {
    let log = own.log()?;
    ensure!(log.contains("the grace period is over: closing open connections"), "nothing was open: {log}");
    ensure!(!log.contains("some connections did not close in time"), "it did not wait: {log}");
    Ok(())
}

fn ended_well(own: &mut OwnSidecar) -> Result<()> {
    let status = own.ended()?;
    ensure!(status.success(), "it ended with {status}: {}", own.log()?);
    Ok(())
}

fn own_with(flags: &[&str]) -> Result<OwnSidecar> {
    OwnSidecar::with(&Difference { flags, ..Difference::default() })
}

fn admin(own: &OwnSidecar, name: &str) -> Result<Endpoint> {
    let admin = Caller::certificate(&format!("e2e-shutdown-{name}"), &["system:masters"])?;
    own.endpoint(admin.certificate.as_deref())
}

fn ask(endpoint: &Endpoint, fake: &FakeMember, rest: &str, headers: &str) -> Result<Connection> {
    let mut connection = endpoint.connect()?;
    let path = member_path(&fake.name, rest);
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())?;
    Ok(connection)
}
