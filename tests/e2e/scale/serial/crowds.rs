//! The sidecar withstands thousands of half-open connections, unread tunnels, and tunnels that open in one
//! second or are open at shutdown. Each test needs all of a small machine, so the tests run alone.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Manners, Step, ok};
use harness::http1::{Connection, Endpoint, PATIENCE, member_path};
use harness::noise::{MEBIBYTE, noise};
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::usage;
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::scale::serial::soak::say;

#[test]
fn fault_42_ten_thousand_half_open_connections_time_out() -> Result<()> {
    usage::room_for_files(HALF_OPEN as u64 + SPARE)?;
    let own = OwnSidecar::start()?;
    let endpoint = own.endpoint(None)?;
    let (memory, files) = (usage::resident(own.pid())?, usage::open_files(own.pid())?);
    let begun = Instant::now();
    let number = AtomicUsize::new(0);
    let silent = many(HALF_OPEN, || {
        let mut socket = endpoint.dial()?;
        if number.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            // The beginning of a ClientHello that never ends.
            socket.write_all(&[22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3])?;
        }
        Ok(socket)
    })?;
    eventually("all of them are accepted", SOON, || {
        Ok((usage::open_files(own.pid())? >= HALF_OPEN).then_some(()))
    })?;
    let accepted = begun.elapsed();
    ensure!(accepted < HANDSHAKE, "the first were given up before the last came: {accepted:?}");
    let asked = Instant::now();
    assert_eq!(endpoint.exchange(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")?.status(), 200);
    assert_eq!((own.probe("/livez")?, own.probe("/readyz")?), (200, 200));
    ensure!(asked.elapsed() < Duration::from_secs(2), "others waited {:?}", asked.elapsed());
    let grown = usage::resident(own.pid())?.saturating_sub(memory);
    ensure!(grown < HALF_OPEN * 32 * 1024, "it keeps {} KiB for each", grown / HALF_OPEN / 1024);
    eventually("they are given up", SOON, || {
        let open = usage::open_files(own.pid())?;
        ensure!(open < files + 100, "{open} files are open");
        Ok(Some(()))
    })?;
    let (each, given_up) = (grown / HALF_OPEN / 1024, begun.elapsed());
    say(&format!("{HALF_OPEN} half open after {accepted:?}, {each} KiB each, given up after {given_up:?}"));
    drop(silent);
    Ok(())
}

#[test]
fn fault_66_unread_gibibyte_does_not_block_a_thousand_tunnels() -> Result<()> {
    usage::room_for_files(2 * TUNNELS as u64 + SPARE)?;
    let gate = Gate::closed();
    let manners = Manners { forgets: true, ..Manners::default() };
    let fake = FakeMember::with("e2e-crowd-stall", manners, {
        let gate = gate.clone();
        move |request| match request.target().contains("/stalled") {
            true => {
                switched(vec![Step::Wait(gate.clone()), Step::Receive(GIBIBYTE), Step::Send(b"all".to_vec())])
            }
            false => switched(vec![Step::Echo]),
        }
    })?;
    fake.register(&json!({}))?;
    fake.wait_until_reachable()?;
    let own = OwnSidecar::start()?;
    let endpoint = own.endpoint(admin("stall")?.certificate.as_deref())?;
    let mut others = many(TUNNELS - 1, || tunnel(&endpoint, &fake, "/tunnel"))?;
    let mut stalled = tunnel(&endpoint, &fake, "/tunnel/stalled")?;
    let message = noise(66, 4096);
    echoed(&mut others, &message)?;

    let (before, begun) = (usage::resident(own.pid())?, Instant::now());
    let piece = vec![b's'; 64 * 1024];
    let sent = stalled.send_until_held_back(&piece, GIBIBYTE, Duration::from_secs(1))?;
    ensure!(sent < 64 * MEBIBYTE, "{} MiB were taken for a member that reads nothing", sent / MEBIBYTE);
    echoed(&mut others, &message)?;
    flat(&own, before)?;
    // When the member reads again, all bytes arrive.
    gate.open();
    stalled.socket().set_write_timeout(Some(PATIENCE))?;
    let mut left = GIBIBYTE - sent;
    while left > 0 {
        stalled.send(&piece[..left.min(piece.len())])?;
        left -= left.min(piece.len());
    }
    assert_eq!(stalled.exactly(3)?, b"all");
    flat(&own, before)?;
    say(&format!(
        "{} MiB, then a gibibyte past {} others: {:?}",
        sent / MEBIBYTE,
        others.len(),
        begun.elapsed()
    ));
    Ok(())
}

#[test]
fn fault_74_each_caller_gets_its_share_of_tunnels() -> Result<()> {
    usage::room_for_files(4 * TUNNELS as u64 + SPARE)?;
    let fake = FakeMember::start("e2e-crowd-execs", |_| switched(vec![Step::ReceiveAll]))?;
    let own = OwnSidecar::start()?;
    let endpoint = own.endpoint(admin("execs")?.certificate.as_deref())?;
    // The handshakes are complete, so the requests arrive within a second.
    let mut all = many(2 * TUNNELS, || {
        let mut connection = endpoint.connect()?;
        connection.send(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")?;
        ensure!(connection.response()?.status() == 200, "it does not answer");
        Ok(connection)
    })?;
    let begun = Instant::now();
    let exec = upgrade(&fake, "/tunnel");
    for connection in &mut all {
        connection.send(exec.as_bytes())?;
    }
    let asked = begun.elapsed();
    ensure!(asked < Duration::from_secs(1), "the test itself was too slow: {asked:?}");
    let (mut open, mut refused) = (Vec::new(), 0);
    for mut connection in all {
        let head = connection.head()?;
        match head.status {
            101 => open.push(connection),
            429 => {
                ensure!(head.value("retry-after") == Some("1"), "{head:?}");
                let rest = String::from_utf8(connection.rest()?)?;
                ensure!(rest.contains("TooManyRequests"), "{rest}");
                refused += 1;
            }
            other => anyhow::bail!("answered {other}"),
        }
    }
    let took = begun.elapsed();
    ensure!((open.len(), refused) == (SHARE, 2 * TUNNELS - SHARE), "{} open, {refused} refused", open.len());
    ensure!(fake.requests("/tunnel").len() == SHARE, "what was refused reached the member");
    let other = own.endpoint(admin("other")?.certificate.as_deref())?;
    tunnel(&other, &fake, "/tunnel")?;
    drop(open);
    eventually("there is room again", SOON, || Ok(tunnel(&endpoint, &fake, "/tunnel").ok()))?;
    eventually("nothing is left of them", SOON, || {
        let tunnels = own.metric("mc_sidecar_tunnels ")?;
        ensure!(tunnels == 0.0, "{tunnels} tunnels");
        Ok(Some(()))
    })?;
    say(&format!("asked for in {asked:?}, all answered after {took:?}"));
    Ok(())
}

#[test]
fn fault_79_shutdown_closes_a_thousand_tunnels_in_time() -> Result<()> {
    usage::room_for_files(2 * TUNNELS as u64 + SPARE)?;
    let gate = Gate::closed();
    let fake = FakeMember::start("e2e-crowd-end", {
        let gate = gate.clone();
        move |request| match request.target().contains("/tunnel") {
            true => switched(vec![Step::ReceiveAll]),
            false => [vec![Step::Wait(gate.clone())], ok()].concat(),
        }
    })?;
    let flags = ["--shutdown-delay-duration=3", "--shutdown-grace-period=3"];
    let mut own = OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?;
    let endpoint = own.endpoint(admin("end")?.certificate.as_deref())?;
    let mut tunnels = many(TUNNELS, || tunnel(&endpoint, &fake, "/tunnel"))?;
    let mut under_way = endpoint.connect()?;
    under_way
        .send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", member_path(&fake.name, "/slow")).as_bytes())?;
    fake.wait_for("/slow", |_| true)?;

    let told = Instant::now();
    own.terminate()?;
    eventually("it is not ready", SOON, || Ok((own.probe("/readyz")? == 503).then_some(())))?;
    // During the shutdown delay the sidecar still serves new connections.
    assert_eq!(own.probe("/livez")?, 200);
    let late = endpoint.exchange(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    assert_eq!(late.status(), 200);
    gate.open();
    assert_eq!(under_way.response()?.status(), 200);
    ensure!(told.elapsed() < GRACE, "the test itself was too slow: {:?}", told.elapsed());
    for tunnel in &mut tunnels {
        assert_eq!(tunnel.rest()?, b"");
    }
    let closed = told.elapsed();
    ensure!(closed >= 2 * GRACE, "they were closed before the grace was over: {closed:?}");
    let status = own.ended()?;
    let ended = told.elapsed();
    ensure!(status.success(), "it ended with {status}: {}", own.log()?);
    ensure!(ended < 2 * GRACE + Duration::from_secs(2), "it took {ended:?}");
    fake.wait_for("/tunnel", |request| request.ended)?;
    eventually("the member is told of each", SOON, || {
        let requests = fake.requests("/tunnel");
        ensure!(requests.iter().all(|request| request.received.is_empty()), "something was made up");
        Ok((requests.iter().filter(|request| request.ended).count() == TUNNELS).then_some(()))
    })?;
    say(&format!("{TUNNELS} tunnels were closed after {closed:?}, and it ended after {ended:?}"));
    Ok(())
}

/// Checks that each tunnel echoes the message.
fn echoed(tunnels: &mut [Connection], message: &[u8]) -> Result<()> {
    tunnels.iter_mut().try_for_each(|tunnel| tunnel.send(message))?;
    for tunnel in tunnels {
        ensure!(tunnel.exactly(message.len())? == message, "another answer came back");
    }
    Ok(())
}

fn flat(own: &OwnSidecar, before: usize) -> Result<()> {
    let grown = usage::resident(own.pid())?.saturating_sub(before);
    ensure!(grown < 16 * MEBIBYTE, "it keeps {} MiB", grown / MEBIBYTE);
    Ok(())
}

/// Makes `count` values, several at a time.
fn many<T: Send>(count: usize, make: impl Fn() -> Result<T> + Sync) -> Result<Vec<T>> {
    let made = std::thread::scope(|scope| {
        let part = |number| (count + number) / MAKERS;
        let make = &make;
        let makers: Vec<_> = (0..MAKERS)
            .map(|number| scope.spawn(move || (0..part(number)).map(|_| make()).collect::<Result<Vec<_>>>()))
            .collect();
        makers
            .into_iter()
            .map(|maker| maker.join().ok().context("a maker panicked")?)
            .collect::<Result<Vec<_>>>()
    })?;
    Ok(made.into_iter().flatten().collect())
}

/// A tunnel whose 101 has been read.
fn tunnel(endpoint: &Endpoint, fake: &FakeMember, rest: &str) -> Result<Connection> {
    let mut connection = endpoint.connect()?;
    connection.send(upgrade(fake, rest).as_bytes())?;
    let status = connection.head()?.status;
    ensure!(status == 101, "it answers {status}");
    Ok(connection)
}

fn upgrade(fake: &FakeMember, rest: &str) -> String {
    let path = member_path(&fake.name, rest);
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
}

fn switched(steps: Vec<Step>) -> Vec<Step> {
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
    [vec![Step::Send(head.into())], steps].concat()
}

fn admin(name: &str) -> Result<Caller> {
    Caller::certificate(&format!("e2e-crowd-{name}"), &["system:masters"])
}

const HALF_OPEN: usize = 10_000;
/// The timeout of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
const TUNNELS: usize = 1_000;
/// Three quarters of `--max-tunnels`: the maximum of one caller.
const SHARE: usize = 1_500;
/// The shutdown delay and the grace period of this test together.
const GRACE: Duration = Duration::from_secs(3);
const GIBIBYTE: usize = 1024 * MEBIBYTE;
/// The number of files that everything else needs.
const SPARE: u64 = 1_000;
const MAKERS: usize = 4;
