//! When a member vanishes from the network, its open connections end within seconds. It is used
//! again when it is back.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, SERVER_NAME, Step, ok};
use harness::http1::{Connection, Endpoint, member_path};
use harness::vanishing::Vanishing;
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn connections_to_a_vanished_member_end_within_seconds() -> Result<()> {
    let fake = FakeMember::unregistered("e2e-vanished", |request| match request.target() {
        target if target.contains("watch=1") => {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n";
            vec![Step::Send(head.into()), Step::ReceiveAll]
        }
        "/tunnel" => vec![Step::Send(SWITCHED.into()), Step::Echo],
        _ => ok(),
    })?;
    let way = Vanishing::to(&format!("https://{}", fake.address), 1)?;
    fake.register(&json!({"server": format!("https://{}", way.address()), "tls-server-name": SERVER_NAME}))?;
    fake.wait_until_reachable()?;
    let admin = Caller::certificate("e2e-vanished-admin", &["system:masters"])?;
    let endpoint = Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())?;

    let ask = |rest: &str, headers: &str| -> Result<Connection> {
        let mut connection = endpoint.connect()?;
        connection.set_patience(2 * FOUND)?;
        let path = member_path(&fake.name, rest);
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())?;
        Ok(connection)
    };
    let mut watch = ask("/api/v1/pods?watch=1", "")?;
    ensure!(watch.head()?.status == 200 && watch.chunk()? == b"event", "no watch");
    let mut tunnel = ask("/tunnel", "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n")?;
    ensure!(tunnel.head()?.status == 101, "no tunnel");
    tunnel.send(b"echo")?;
    ensure!(tunnel.exactly(4)? == b"echo");
    // A connection of the pool, on which the next request gets no reply.
    ensure!(ask("/before", "")?.response()?.status() == 200);

    way.vanish()?;
    let vanished = Instant::now();
    let answer = ask("/after", "")?.response()?;
    ensure!(answer.status() == 503 && answer.text().contains("member unreachable"), "{}", answer.text());
    found(vanished, "a pooled connection")?;
    ensure!(watch.chunk().is_err(), "the watch has an end in good order");
    found(vanished, "a watch")?;
    ensure!(tunnel.rest()?.is_empty());
    found(vanished, "a tunnel")?;

    way.come_back()?;
    eventually("it is used again", SOON + FOUND, || {
        Ok((ask("/back", "")?.response()?.status() == 200).then_some(()))
    })
}

fn found(since: Instant, what: &str) -> Result<()> {
    ensure!(since.elapsed() < FOUND, "{what} was found dead after {:?}", since.elapsed());
    Ok(())
}

/// Twenty seconds, with a margin for a busy machine.
const FOUND: Duration = Duration::from_secs(25);
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
