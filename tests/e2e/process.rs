//! The sidecar as a process: how it ends, and how it lives on where the machine gives it too little.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Step, ok};
use harness::http1::{Connection, Endpoint, member_path};
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::wait::{SOON, eventually};

#[test]
fn fault_79_at_its_end_it_is_not_ready_answers_what_is_under_way_and_closes_tunnels() -> Result<()> {
    let gate = Gate::closed();
    let fake = FakeMember::start("e2e-process-end", {
        let gate = gate.clone();
        move |request| match request.target().contains("/tunnel") {
            true => vec![Step::Send(SWITCHED.into()), Step::ReceiveAll],
            false => [vec![Step::Wait(gate.clone())], ok()].concat(),
        }
    })?;
    let flags = ["--shutdown-delay-duration=3", "--shutdown-grace-period=3"];
    let mut own = OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?;
    let endpoint = own.endpoint(admin("end")?.certificate.as_deref())?;
    let mut tunnels = (0..TUNNELS).map(|_| tunnel(&endpoint, &fake)).collect::<Result<Vec<_>>>()?;
    let mut under_way = endpoint.connect()?;
    under_way.send(get(&fake, "/under-way").as_bytes())?;
    fake.wait_for("/under-way", |_| true)?;

    let told = Instant::now();
    own.terminate()?;
    eventually("it is not ready", SOON, || Ok((own.probe("/readyz")? == 503).then_some(())))?;
    // Until everybody knows, it still serves who comes.
    assert_eq!(own.probe("/livez")?, 200);
    assert_eq!(
        endpoint.exchange(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?.status(),
        200
    );
    gate.open();
    assert_eq!(under_way.response()?.status(), 200);
    for tunnel in &mut tunnels {
        assert_eq!(tunnel.rest()?, b"");
    }
    let status = own.ended()?;
    ensure!(status.success(), "it ended with {status}: {}", own.log()?);
    ensure!(told.elapsed() < Duration::from_secs(15), "it took {:?}", told.elapsed());
    fake.wait_for("/tunnel", |request| request.ended)?;
    ensure!(
        fake.requests("/tunnel").iter().all(|request| request.received.is_empty()),
        "something was made up"
    );
    Ok(())
}

#[test]
fn fault_74_more_tunnels_than_one_caller_may_open_are_refused_and_others_get_theirs() -> Result<()> {
    let fake =
        FakeMember::start("e2e-process-tunnels", |_| vec![Step::Send(SWITCHED.into()), Step::ReceiveAll])?;
    let flags = ["--max-tunnels=40"];
    let own = OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?;
    let endpoint = own.endpoint(admin("many-tunnels")?.certificate.as_deref())?;
    let open = (0..30).map(|_| tunnel(&endpoint, &fake)).collect::<Result<Vec<_>>>()?;
    for _ in 0..20 {
        let mut refused = endpoint.connect()?;
        refused.send(upgrade(&fake).as_bytes())?;
        let answer = refused.response()?;
        assert_eq!((answer.status(), answer.head.value("retry-after")), (429, Some("1")));
        assert_eq!(refused.rest()?, b"", "the connection is not closed");
    }
    assert_eq!(fake.requests("/tunnel").len(), 30, "what was refused reached the member");
    let other = own.endpoint(admin("other-tunnels")?.certificate.as_deref())?;
    tunnel(&other, &fake)?;
    drop(open);
    eventually("there is room again", SOON, || Ok(tunnel(&endpoint, &fake).ok()))?;
    Ok(())
}

#[test]
fn fault_80_without_files_to_open_it_waits_and_goes_on() -> Result<()> {
    let fake = FakeMember::start("e2e-process-files", |_| ok())?;
    let own = OwnSidecar::with(&Difference { open_files: Some(100), ..Difference::default() })?;
    let endpoint = own.endpoint(admin("files")?.certificate.as_deref())?;
    let mut known = endpoint.connect()?;
    known.send(get(&fake, "/known").as_bytes())?;
    assert_eq!(known.response()?.status(), 200);
    // More connections than it can have, none of which says a word.
    let silent = (0..200).map(|_| endpoint.dial()).collect::<Result<Vec<_>>>()?;
    eventually("it has run out of files", SOON, || {
        Ok(own.log()?.contains("cannot be accepted").then_some(()))
    })?;
    // Who is connected is served all the same.
    known.send(get(&fake, "/known").as_bytes())?;
    assert_eq!(known.response()?.status(), 200);
    drop(silent);
    eventually("it serves who comes", SOON, || {
        let answer = endpoint.exchange(get(&fake, "/after").as_bytes())?;
        Ok((answer.status() == 200 && own.probe("/readyz")? == 200).then_some(()))
    })
}

fn tunnel(endpoint: &Endpoint, fake: &FakeMember) -> Result<Connection> {
    let mut connection = endpoint.connect()?;
    connection.send(upgrade(fake).as_bytes())?;
    let status = connection.head()?.status;
    ensure!(status == 101, "it answers {status}");
    Ok(connection)
}

fn upgrade(fake: &FakeMember) -> String {
    let path = member_path(&fake.name, "/tunnel");
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
}

fn get(fake: &FakeMember, rest: &str) -> String {
    format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", member_path(&fake.name, rest))
}

fn admin(name: &str) -> Result<Caller> {
    Caller::certificate(&format!("e2e-process-{name}"), &["system:masters"])
}

const TUNNELS: usize = 200;
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
