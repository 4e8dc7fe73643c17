//! Requests share pooled connections to a member, and no request is executed twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Step, ok};
use harness::http1::{Connection, Endpoint, member_path};
use harness::wait::{SOON, eventually};

#[test]
fn sequential_requests_share_a_connection() -> Result<()> {
    let fake = FakeMember::start("e2e-pool-shared", |_| ok())?;
    let mut client = client("e2e-pool-shared-admin")?;
    for n in 0..5 {
        let path = member_path(&fake.name, &format!("/shared/{n}"));
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        ensure!(client.response()?.status() == 200);
    }
    let used: Vec<_> = fake.requests("/shared/").iter().map(|request| request.connection).collect();
    ensure!(used.len() == 5 && used.iter().all(|connection| *connection == used[0]), "{used:?}");
    Ok(())
}

#[test]
fn fault_54_closed_idle_connection_loses_and_repeats_nothing() -> Result<()> {
    let fake = FakeMember::start("e2e-pool-closed", |_| {
        let mut steps = ok();
        steps.push(Step::Close);
        steps
    })?;
    let mut client = client("e2e-pool-closed-admin")?;
    for n in 0..20 {
        let path = member_path(&fake.name, &format!("/closed/{n}/"));
        client.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").as_bytes())?;
        let status = client.response()?.status();
        let arrived = fake.requests(&format!("/closed/{n}/")).len();
        ensure!(arrived <= 1, "request {n} arrived {arrived} times");
        // The member may close while a request is in flight. In that case, the request's outcome is
        // unknown.
        ensure!(status == 200 || status == 503, "request {n} was answered {status}");
        ensure!(status == 503 || arrived == 1, "request {n} was answered by nobody");
    }
    Ok(())
}

#[test]
fn fault_54_read_on_a_just_closed_connection_is_retried_once() -> Result<()> {
    let fake = swallowing("e2e-pool-swallowed")?;
    let swallowed = ask_swallowed(&fake, |path| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))?;
    for (came, status) in &swallowed {
        ensure!(*came <= 2 && *status == 200, "a read came {came} times and was answered {status}");
    }
    ensure!(swallowed.iter().any(|(came, _)| *came == 2), "none was swallowed: {swallowed:?}");
    Ok(())
}

#[test]
fn fault_54_write_on_a_just_closed_connection_is_not_retried() -> Result<()> {
    for (name, body) in [("e2e-pool-write", "body"), ("e2e-pool-empty-write", "")] {
        let fake = swallowing(name)?;
        let length = body.len();
        let swallowed = ask_swallowed(&fake, |path| {
            format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
        })?;
        ensure!(swallowed.iter().all(|(came, _)| *came <= 1), "a write came twice: {swallowed:?}");
        ensure!(swallowed.iter().any(|(_, status)| *status == 503), "none was swallowed: {swallowed:?}");
    }
    Ok(())
}

#[test]
fn fault_54_read_that_fails_twice_is_an_error() -> Result<()> {
    let fake = FakeMember::start("e2e-pool-twice", |request| match request.target() {
        target if target.contains("/swallowed") => vec![Step::Close],
        _ => ok(),
    })?;
    let mut client = client("e2e-pool-twice-admin")?;
    for n in 0..10 {
        for (part, expected) in [("first", 200), ("swallowed", 503)] {
            let path = member_path(&fake.name, &format!("/{part}/{n}/"));
            client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
            let answer = client.response()?;
            ensure!(answer.status() == expected, "{part} {n}: {}", answer.text());
            ensure!(fake.requests(&format!("/{part}/{n}/")).len() <= 2);
        }
    }
    Ok(())
}

/// A member that reads a second request on a connection and closes it without an answer.
fn swallowing(name: &str) -> Result<FakeMember> {
    let served = AtomicUsize::new(usize::MAX);
    FakeMember::start(name, move |request| match request.target() {
        target if target.contains("/again") && served.load(Ordering::SeqCst) == request.connection => {
            vec![Step::Close]
        }
        _ => {
            served.store(request.connection, Ordering::SeqCst);
            ok()
        }
    })
}

/// For each second request on a connection, returns how often it arrived and the status of its
/// answer.
fn ask_swallowed(fake: &FakeMember, request: impl Fn(&str) -> String) -> Result<Vec<(usize, u16)>> {
    let mut client = client(&format!("{}-admin", fake.name))?;
    let mut outcomes = Vec::new();
    for n in 0..10 {
        let first = member_path(&fake.name, &format!("/first/{n}/"));
        client.send(format!("GET {first} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        ensure!(client.response()?.status() == 200);
        client.send(request(&member_path(&fake.name, &format!("/again/{n}/"))).as_bytes())?;
        let status = client.response()?.status();
        let came = fake.requests(&format!("/again/{n}/"));
        let caller = format!("{}-admin", fake.name);
        for request in &came {
            ensure!(request.values("impersonate-user") == [caller.as_str()], "{}", request.head);
        }
        outcomes.push((came.len(), status));
    }
    Ok(outcomes)
}

#[test]
fn connection_with_an_unread_answer_is_not_reused() -> Result<()> {
    let fake = FakeMember::start("e2e-pool-left", |request| match request.target() {
        target if target.contains("/endless") => {
            vec![
                Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun".to_vec()),
                Step::ReceiveAll,
            ]
        }
        _ => ok(),
    })?;
    let mut leaver = client("e2e-pool-left-admin")?;
    let path = member_path(&fake.name, "/endless");
    leaver.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    leaver.head()?;
    let left = fake.wait_for("/endless", |_| true)?.connection;
    drop(leaver);
    fake.wait_for("/endless", |request| request.ended)?;
    let mut client = client("e2e-pool-left-admin")?;
    let path = member_path(&fake.name, "/after");
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    ensure!(client.response()?.status() == 200);
    ensure!(fake.requests("/after")[0].connection != left);
    Ok(())
}

#[test]
fn surplus_idle_connections_are_closed_within_half_a_minute() -> Result<()> {
    let gate = Gate::closed();
    let held = gate.clone();
    let fake = FakeMember::start("e2e-pool-surplus", move |request| match request.target() {
        target if target.contains("/held") => [vec![Step::Wait(held.clone())], ok()].concat(),
        _ => ok(),
    })?;
    let clients = (0..BURST).map(|_| client("e2e-pool-surplus-admin"));
    let mut clients = clients.collect::<Result<Vec<_>>>()?;
    let path = member_path(&fake.name, "/held");
    for client in &mut clients {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    }
    eventually("all are held", SOON, || Ok((fake.requests("/held").len() == BURST).then_some(())))?;
    gate.open();
    for client in &mut clients {
        ensure!(client.response()?.status() == 200);
    }
    let burst = fake.open_connections();
    ensure!(burst >= BURST, "only {burst} are open");
    // One more is for the sidecar's own requests.
    let kept = KEPT_BY_WORKER * std::thread::available_parallelism()?.get() + 1;
    eventually("the surplus is closed", HALF_A_MINUTE + SOON, || {
        let open = fake.open_connections();
        ensure!(open <= kept, "{open} are open");
        Ok(Some(()))
    })
}

/// The maximum number of requests that one caller may have at one member.
const BURST: usize = 75;
/// `KEPT` in the sidecar's `upstream/pool.rs`.
const KEPT_BY_WORKER: usize = 8;
const HALF_A_MINUTE: Duration = Duration::from_secs(30);

fn client(name: &str) -> Result<Connection> {
    let admin = Caller::certificate(name, &["system:masters"])?;
    Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())?.connect()
}
