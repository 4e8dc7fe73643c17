//! The sidecar forwards bytes as they arrive: early ones, late ones, and the end of either side's
//! stream.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::bed::{bed, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Step};
use harness::http1::{Connection, Endpoint, member_path};

#[test]
fn fault_63_bytes_sent_with_the_heads_are_not_lost() -> Result<()> {
    // Not through the host: its kube-apiserver drops bytes that arrive before the switch.
    let fake = FakeMember::start("e2e-early", |_| {
        vec![Step::Send([SWITCHED, "hello"].concat().into()), Step::ReceiveAll]
    })?;
    let mut connection = entrances("early")?.remove(0).connect()?;
    connection.send([&upgrade(&fake), "early"].concat().as_bytes())?;
    assert_eq!(connection.head()?.status, 101);
    assert_eq!(connection.exactly(5)?, b"hello");
    connection.send(b" and late")?;
    fake.wait_for("/upgrade", |request| request.received == b"early and late")?;
    Ok(())
}

#[test]
fn fault_65_client_that_has_finished_sending_still_receives() -> Result<()> {
    let fake = FakeMember::start("e2e-half-client", |_| {
        vec![Step::Send(SWITCHED.into()), Step::ReceiveAll, Step::Send(b"last words".to_vec()), Step::Close]
    })?;
    let mut connection = switched(&fake, "half-client")?;
    connection.send(b"all I have")?;
    connection.finish()?;
    let upgrade = fake.wait_for("/upgrade", |request| request.ended)?;
    assert_eq!(upgrade.received, b"all I have");
    assert_eq!(connection.rest()?, b"last words");
    Ok(())
}

#[test]
fn fault_65_member_that_has_finished_sending_still_receives() -> Result<()> {
    let fake = FakeMember::start("e2e-half-member", |_| {
        vec![Step::Send([SWITCHED, "goodbye"].concat().into()), Step::Finish, Step::ReceiveAll]
    })?;
    let mut connection = switched(&fake, "half-member")?;
    assert_eq!(connection.rest()?, b"goodbye");
    connection.send(b"but I have")?;
    fake.wait_for("/upgrade", |request| request.received == b"but I have")?;
    connection.finish()?;
    fake.wait_for("/upgrade", |request| request.ended)?;
    Ok(())
}

#[test]
fn chunk_of_an_answer_arrives_before_the_next_is_sent() -> Result<()> {
    for (number, endpoint) in entrances("slow-answer")?.into_iter().enumerate() {
        let gate = Gate::closed();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        let steps = vec![
            Step::Send([head, "6\r\nfirst\n\r\n"].concat().into()),
            Step::Wait(gate.clone()),
            Step::Send(b"7\r\nsecond\n\r\n0\r\n\r\n".to_vec()),
        ];
        let fake = FakeMember::start(&format!("e2e-slow-answer-{number}"), move |_| steps.clone())?;
        let mut connection = endpoint.connect()?;
        let path = member_path(&fake.name, "/stream?watch=true");
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        assert_eq!(connection.head()?.status, 200);
        assert_eq!(connection.chunk()?, b"first\n");
        gate.open();
        assert_eq!(connection.chunk()?, b"second\n");
    }
    Ok(())
}

#[test]
fn chunk_of_a_request_arrives_before_the_next_is_sent() -> Result<()> {
    let fake = FakeMember::start("e2e-slow-request", |_| harness::fake_member::ok())?;
    let mut connection = entrances("slow-request")?.remove(0).connect()?;
    let path = member_path(&fake.name, "/upload");
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.send(format!("{head}5\r\nfirst\r\n").as_bytes())?;
    fake.wait_for("/upload", |request| harness::tool::contains(&request.received, "first"))?;
    connection.send(b"6\r\nsecond\r\n0\r\n\r\n")?;
    assert_eq!(connection.response()?.status(), 200);
    fake.wait_for("/upload", |request| harness::tool::contains(&request.received, "second"))?;
    Ok(())
}

#[test]
fn member_death_inside_an_answer_is_not_a_clean_end() -> Result<()> {
    let fake = FakeMember::start("e2e-dies", |_| {
        vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec()), Step::Close]
    })?;
    let mut connection = entrances("dies")?.remove(0).connect()?;
    let path = member_path(&fake.name, "/half");
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    let error = connection.response().err();
    ensure!(
        error.is_some_and(|error| error.to_string().contains("closed after")),
        "a whole answer was made of it"
    );
    Ok(())
}

#[test]
fn fault_43_disconnect_inside_the_answer_reaches_the_member() -> Result<()> {
    let fake = FakeMember::start("e2e-leaves", |_| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n";
        vec![Step::Send(head.into()), Step::ReceiveAll]
    })?;
    for endpoint in entrances("leaves")? {
        let before = fake.requests("/watch").len();
        let mut connection = endpoint.connect()?;
        let path = member_path(&fake.name, &format!("/watch/{before}"));
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        connection.head()?;
        drop(connection);
        fake.wait_for(&format!("/watch/{before}"), |request| request.ended)?;
    }
    Ok(())
}

#[test]
fn fault_43_disconnect_before_the_answer_reaches_the_member() -> Result<()> {
    let fake = FakeMember::start("e2e-leaves-early", |_| vec![Step::ReceiveAll])?;
    for (number, endpoint) in entrances("leaves-early")?.into_iter().enumerate() {
        let target = format!("/waiting/{number}");
        let mut connection = endpoint.connect()?;
        let path = member_path(&fake.name, &target);
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        fake.wait_for(&target, |_| true)?;
        let left = Instant::now();
        drop(connection);
        fake.wait_for(&target, |request| request.ended)?;
        ensure!(left.elapsed() < AT_ONCE, "it took {:?}", left.elapsed());
    }
    Ok(())
}

/// A connection whose 101 has been read.
fn switched(fake: &FakeMember, name: &str) -> Result<Connection> {
    let mut connection = entrances(name)?.remove(0).connect()?;
    connection.send(upgrade(fake).as_bytes())?;
    assert_eq!(connection.head()?.status, 101);
    Ok(connection)
}

fn upgrade(fake: &FakeMember) -> String {
    let path = member_path(&fake.name, "/upgrade");
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\
         X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
    )
}

/// The sidecar's own port and the host's, as an administrator.
fn entrances(name: &str) -> Result<Vec<Endpoint>> {
    let admin = Caller::certificate(&format!("e2e-stream-{name}"), &["system:masters"])?;
    let certificate = admin.certificate.as_deref();
    Ok(vec![Endpoint::sidecar(sidecar()?, certificate)?, Endpoint::cluster(&bed()?.host, certificate)?])
}

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                        X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n";
/// The limit for one disconnect on a busy machine. Without a disconnect, the exchange ends at its
/// timeout of a minute.
const AT_ONCE: Duration = Duration::from_secs(10);
