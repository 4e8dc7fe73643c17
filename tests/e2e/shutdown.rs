//! A sidecar that is told to end: what is under way ends well, what is open is closed, nothing hangs.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::beside::Beside;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Step, ok};
use harness::http1::{Connection, Endpoint, member_path, plain_get};
use harness::wait::{SOON, eventually};

#[test]
fn in_the_delay_it_is_not_ready_and_serves_new_connections() -> Result<()> {
    let mut beside = Beside::start(&["--shutdown-delay-duration=6"])?;
    let fake = FakeMember::start("e2e-shutdown-delay", |_| ok())?;
    let endpoint = admin(&beside, "delay")?;
    beside.terminate()?;
    let told = Instant::now();
    eventually("it is not ready", SOON, || {
        Ok((plain_get(&beside.sidecar.admin, "/readyz")?.status() == 503).then_some(()))
    })?;
    ensure!(plain_get(&beside.sidecar.admin, "/livez")?.status() == 200, "it is alive");
    let mut connection = ask(&endpoint, &fake, "/late", "")?;
    ensure!(connection.response()?.status() == 200, "a request in the delay is not served");
    ensure!(told.elapsed() < Duration::from_secs(6), "the test itself was too slow");
    drop(connection);
    beside.ended_well_within(SOON)?;
    ensure!(told.elapsed() >= Duration::from_secs(6), "it did not wait: {:?}", told.elapsed());
    Ok(())
}

#[test]
fn a_request_under_way_gets_its_answer_and_no_connection_is_accepted() -> Result<()> {
    let mut beside = Beside::start(&[])?;
    let gate = Gate::closed();
    let held = gate.clone();
    let fake = FakeMember::start("e2e-shutdown-request", move |request| match request.target() {
        target if target.contains("/held") => {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n";
            vec![Step::Wait(held.clone()), Step::Send(head.into()), Step::Send(b"answer".to_vec())]
        }
        _ => ok(),
    })?;
    let endpoint = admin(&beside, "request")?;
    let mut connection = ask(&endpoint, &fake, "/held", "")?;
    fake.wait_for("/held", |_| true)?;
    beside.terminate()?;
    eventually("no connection is accepted", SOON, || Ok(endpoint.connect().is_err().then_some(())))?;
    gate.open();
    let answer = connection.response()?;
    ensure!(answer.status() == 200 && answer.body == b"answer", "{} {}", answer.status(), answer.text());
    beside.ended_well_within(SOON)
}

#[test]
fn a_tunnel_works_in_the_grace_period_and_both_sides_are_told_of_its_end() -> Result<()> {
    let mut beside = Beside::start(&["--shutdown-grace-period=4"])?;
    let fake = FakeMember::start("e2e-shutdown-tunnel", |request| {
        if request.values("upgrade").is_empty() {
            return ok();
        }
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
        vec![Step::Send(head.into()), Step::ReceiveAll]
    })?;
    let endpoint = admin(&beside, "tunnel")?;
    let mut tunnel = ask(&endpoint, &fake, "/tunnel", "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n")?;
    ensure!(tunnel.head()?.status == 101, "no tunnel");
    beside.terminate()?;
    eventually("no connection is accepted", SOON, || Ok(endpoint.connect().is_err().then_some(())))?;
    tunnel.send(b"still here")?;
    fake.wait_for("/tunnel", |request| request.received == b"still here")?;
    tunnel.rest()?;
    // Not just cut off: the member was told that nothing more comes.
    fake.wait_for("/tunnel", |request| request.ended)?;
    beside.ended_well_within(SOON)?;
    closed_in_time(&beside)
}

#[test]
fn a_watch_is_broken_off_after_the_grace_period() -> Result<()> {
    let mut beside = Beside::start(&["--shutdown-grace-period=1"])?;
    let fake = FakeMember::start("e2e-shutdown-watch", |request| {
        if !request.target().contains("watch") {
            return ok();
        }
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n";
        vec![Step::Send(head.into()), Step::ReceiveAll]
    })?;
    let mut watch = ask(&admin(&beside, "watch")?, &fake, "/api/v1/pods?watch=1", "")?;
    ensure!(watch.head()?.status == 200 && watch.chunk()? == b"event", "no watch");
    beside.terminate()?;
    ensure!(watch.chunk().is_err(), "its end is not one in good order");
    beside.ended_well_within(SOON)?;
    closed_in_time(&beside)
}

/// It waited for what it closed.
fn closed_in_time(beside: &Beside) -> Result<()> {
    ensure!(beside.logged("the grace period is over: what is open is closed")?.is_some(), "nothing was open");
    ensure!(beside.logged("some connections did not close in time")?.is_none(), "it did not wait");
    Ok(())
}

fn admin(beside: &Beside, name: &str) -> Result<Endpoint> {
    let admin = Caller::certificate(&format!("e2e-shutdown-{name}"), &["system:masters"])?;
    Endpoint::sidecar(&beside.sidecar, admin.certificate.as_deref())
}

fn ask(endpoint: &Endpoint, fake: &FakeMember, rest: &str, headers: &str) -> Result<Connection> {
    let mut connection = endpoint.connect()?;
    let path = member_path(&fake.name, rest);
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())?;
    Ok(connection)
}
