//! After an upgrade that did not happen, nothing the client sends reaches the member: the
//! member would take it for requests by the sidecar itself.

use anyhow::{Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, reply};
use harness::http1::{Endpoint, member_path};
use harness::noise::MEBIBYTE;

#[test]
fn refused_by_403() -> Result<()> {
    nothing_follows("403", reply("403 Forbidden", "", "no"))
}

#[test]
fn answered_by_200() -> Result<()> {
    nothing_follows("200", reply("200 OK", "", "fine"))
}

#[test]
fn answered_by_200_without_an_end() -> Result<()> {
    let endless = "HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
    nothing_follows("endless", vec![Step::Send(endless.into())])
}

#[test]
fn redirected_by_302() -> Result<()> {
    nothing_follows("302", reply("302 Found", "Location: /elsewhere\r\n", ""))
}

#[test]
fn switched_to_another_protocol() -> Result<()> {
    let other = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    nothing_follows("other", vec![Step::Send(other.into())])
}

#[test]
fn switched_to_no_protocol_in_particular() -> Result<()> {
    let none = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    nothing_follows("none", vec![Step::Send(none.into())])
}

#[test]
fn an_upgrade_to_anything_else_is_not_forwarded_as_one() -> Result<()> {
    let fake = FakeMember::start("e2e-upgrade-h2c", |_| {
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
        vec![Step::Send(head.into()), Step::ReceiveAll]
    })?;
    let mut connection = direct("h2c")?.connect()?;
    let path = member_path(&fake.name, "/upgrade");
    connection.send(
        format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
             HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n{SMUGGLED}"
        )
        .as_bytes(),
    )?;
    let head = connection.head()?;
    ensure!(head.status != 101, "h2c was switched to");
    let _ = connection.rest();
    assert_eq!(fake.requests("/smuggled").len(), 0);
    for request in fake.requests("/upgrade") {
        ensure!(request.values("upgrade").is_empty(), "{}", request.head);
    }
    Ok(())
}

/// The member gives this answer to an upgrade; the client goes on as if it had worked.
fn nothing_follows(name: &str, answer: Vec<Step>) -> Result<()> {
    let fake = FakeMember::start(&format!("e2e-upgrade-{name}"), move |request| {
        let mut steps = answer.clone();
        if !request.values("upgrade").is_empty() {
            steps.push(Step::ReceiveAll);
        }
        steps
    })?;
    let mut connection = direct(name)?.connect()?;
    let path = member_path(&fake.name, "/upgrade");
    // Some comes with the head, as from a client that does not wait, and some after the answer.
    connection.send(
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
             X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n{SMUGGLED}"
        )
        .as_bytes(),
    )?;
    ensure!(connection.head()?.status != 101, "it was switched");
    // It may be closed already, so that sending fails: just what is promised.
    let _ = connection.send(SMUGGLED.as_bytes());
    let rest = connection.rest().map(|rest| rest.len());
    ensure!(rest.as_ref().is_ok_and(|&length| length < MEBIBYTE), "the client's side stays open: {rest:?}");

    let upgrade = fake.wait_for("/upgrade", |request| request.ended)?;
    assert_eq!(String::from_utf8_lossy(&upgrade.received), "");
    assert_eq!(fake.requests("/smuggled").len(), 0);
    Ok(())
}

/// The sidecar's own port, as an administrator.
fn direct(name: &str) -> Result<Endpoint> {
    let admin = Caller::certificate(&format!("e2e-upgrade-{name}"), &["system:masters"])?;
    Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())
}

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
