//! After a failed upgrade no byte of the client reaches the member: the member would read it as a request of
//! the sidecar itself.

use anyhow::{Context, Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, reply};
use harness::http1::{Endpoint, member_path};
use harness::noise::MEBIBYTE;

#[test]
fn fault_61_cve_2018_1002105_status_403_closes_both_sides() -> Result<()> {
    nothing_follows("403", 403, reply("403 Forbidden", "", "no"))
}

#[test]
fn fault_61_cve_2018_1002105_status_200_closes_both_sides() -> Result<()> {
    nothing_follows("200", 502, reply("200 OK", "", "fine"))
}

#[test]
fn fault_61_cve_2018_1002105_status_400_closes_both_sides() -> Result<()> {
    nothing_follows("400", 400, reply("400 Bad Request", "", "what?"))
}

#[test]
fn fault_61_status_503_closes_both_sides() -> Result<()> {
    nothing_follows("503", 503, reply("503 Service Unavailable", "", "later"))
}

#[test]
fn fault_61_unanswered_upgrade_ends_with_its_client() -> Result<()> {
    let fake = FakeMember::start("e2e-upgrade-silent", |_| vec![Step::ReceiveAll])?;
    let mut connection = direct("silent")?.connect()?;
    let path = member_path(&fake.name, "/upgrade");
    connection.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\n{SPDY}\r\n").as_bytes())?;
    fake.wait_for("/upgrade", |_| true)?;
    drop(connection);
    let upgrade =
        fake.wait_for("/upgrade", |request| request.ended).context("the member's side stays open")?;
    assert_eq!(String::from_utf8_lossy(&upgrade.received), "");
    Ok(())
}

#[test]
fn fault_61_status_307_closes_both_sides() -> Result<()> {
    nothing_follows(
        "307",
        502,
        reply("307 Temporary Redirect", "Location: https://elsewhere.example/\r\n", ""),
    )
}

#[test]
fn fault_61_endless_200_closes_both_sides() -> Result<()> {
    let endless = "HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
    nothing_follows("endless", 502, vec![Step::Send(endless.into())])
}

#[test]
fn fault_61_cve_2020_8559_status_302_closes_both_sides() -> Result<()> {
    nothing_follows("302", 502, reply("302 Found", "Location: /elsewhere\r\n", ""))
}

#[test]
fn fault_62_switch_to_another_protocol_closes_both_sides() -> Result<()> {
    let other = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    nothing_follows("other", 502, vec![Step::Send(other.into())])
}

#[test]
fn fault_62_switch_to_no_protocol_closes_both_sides() -> Result<()> {
    let none = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    nothing_follows("none", 502, vec![Step::Send(none.into())])
}

#[test]
fn fault_59_upgrade_to_another_protocol_is_not_forwarded() -> Result<()> {
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

#[test]
fn fault_59_golang_80416_only_two_protocols_are_upgraded_to() -> Result<()> {
    let fake = FakeMember::start("e2e-upgrade-protocols", |_| vec![Step::ReceiveAll])?;
    let path = member_path(&fake.name, "/upgrade");
    for headers in [
        "Connection: Upgrade\r\nUpgrade: h2c\r\n",
        "Connection: Upgrade\r\nUpgrade: foo\r\n",
        "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n",
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1, h2c\r\n",
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nUpgrade: h2c\r\n",
        "Connection: Upgrade\r\n",
        "Connection: x-upgrade-y\r\nUpgrade: SPDY/3.1\r\n",
        "Upgrade: SPDY/3.1\r\n",
    ] {
        is_a_bad_request("GET", &path, headers)?;
    }
    assert_eq!(fake.requests("/").iter().filter(|request| request.target() != "/harness-ready").count(), 0);
    Ok(())
}

#[test]
fn fault_60_websocket_without_its_handshake_is_not_opened() -> Result<()> {
    let fake = FakeMember::start("e2e-upgrade-handshake", |_| vec![Step::ReceiveAll])?;
    let path = member_path(&fake.name, "/upgrade");
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    let (key, version) = ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "Sec-WebSocket-Version: 13\r\n");
    for (method, headers) in [
        ("POST", format!("{websocket}{key}{version}Content-Length: 0\r\n")),
        ("GET", format!("{websocket}{version}")),
        ("GET", format!("{websocket}{key}")),
        ("GET", format!("{websocket}{key}Sec-WebSocket-Version: 8\r\n")),
    ] {
        is_a_bad_request(method, &path, &headers)?;
    }
    assert_eq!(fake.requests("/upgrade").len(), 0);
    Ok(())
}

#[test]
fn fault_62_subprotocol_that_was_not_offered_is_refused() -> Result<()> {
    for (name, protocol) in [("spdy", "SPDY/3.1"), ("websocket", "websocket")] {
        let fake = FakeMember::start(&format!("e2e-upgrade-offer-{name}"), move |_| {
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
                 X-Stream-Protocol-Version: v1\r\nSec-WebSocket-Protocol: v1\r\n\r\n"
            );
            vec![Step::Send(head.into()), Step::ReceiveAll]
        })?;
        let mut connection = direct(&format!("offer-{name}"))?.connect()?;
        let path = member_path(&fake.name, "/upgrade");
        connection.send(
            format!(
                "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                 Sec-WebSocket-Protocol: v5.channel.k8s.io\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n\
                 {SMUGGLED}"
            )
            .as_bytes(),
        )?;
        let answer = connection.response()?;
        assert_eq!(answer.status(), 502, "{}", answer.text());
        connection.rest()?;
        let upgrade = fake.wait_for("/upgrade", |request| request.ended)?;
        assert_eq!(String::from_utf8_lossy(&upgrade.received), "");
    }
    Ok(())
}

/// A browser sends the certificate of its user with the handshake that a page of any origin asks for, and with a
/// POST whose body has no content type, which a kube-apiserver reads as JSON.
#[test]
fn fault_82_page_of_another_origin_opens_no_stream() -> Result<()> {
    let fake = FakeMember::start("e2e-upgrade-origin", |_| reply("403 Forbidden", "", "the member"))?;
    let path = member_path(&fake.name, "/upgrade");
    let websocket = "GET {} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let post = "POST {} HTTP/1.1\r\nContent-Length: 0\r\n";
    for request in [websocket, post] {
        for (origin, arrives) in [
            ("Origin: https://evil.example\r\n", false),
            ("Origin: null\r\n", false),
            ("Origin: https://mc.example:8443\r\n", true),
            ("", true),
        ] {
            let before = fake.requests("/upgrade").len();
            let mut connection = direct("origin")?.connect()?;
            let head = request.replace("{}", &path);
            connection.send(format!("{head}Host: mc.example:8443\r\n{origin}\r\n").as_bytes())?;
            let answer = connection.response()?;
            let text = answer.text();
            ensure!(answer.status() == 403, "{origin:?}: {}: {text}", answer.status());
            ensure!(text.contains("--cors-allowed-origins") != arrives, "{origin:?}: {text}");
            ensure!((fake.requests("/upgrade").len() > before) == arrives, "{origin:?}: {text}");
        }
    }
    Ok(())
}

/// Checks that the sidecar itself refuses the request and closes.
fn is_a_bad_request(method: &str, path: &str, headers: &str) -> Result<()> {
    let mut connection = direct("bad-request")?.connect()?;
    connection.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n{SMUGGLED}").as_bytes())?;
    let answer = connection.response()?;
    ensure!(answer.status() == 400, "{headers:?}: {}: {}", answer.status(), answer.text());
    ensure!(connection.rest()?.is_empty(), "{headers:?}: something follows");
    Ok(())
}

/// Checks an upgrade to which the member sends `answer` and the client gets `status`. The client continues as
/// if the upgrade had worked.
fn nothing_follows(name: &str, status: u16, answer: Vec<Step>) -> Result<()> {
    let fake = FakeMember::start(&format!("e2e-upgrade-{name}"), move |request| {
        let mut steps = answer.clone();
        if !request.values("upgrade").is_empty() {
            steps.push(Step::ReceiveAll);
        }
        steps
    })?;
    let mut connection = direct(name)?.connect()?;
    let path = member_path(&fake.name, "/upgrade");
    // Some bytes arrive with the head, as from a client that does not wait, and some after the answer.
    connection.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\n{SPDY}\r\n{SMUGGLED}").as_bytes())?;
    let (before, head) = (fake.requests("/").len(), connection.head()?);
    ensure!(head.status == status && head.value("location").is_none(), "{head:?}");
    // The connection may be closed already, and then sending fails, as intended.
    let _ = connection.send(SMUGGLED.as_bytes());
    let rest = connection.rest().map(|rest| rest.len());
    ensure!(rest.as_ref().is_ok_and(|&length| length < MEBIBYTE), "the client's side stays open: {rest:?}");

    let upgrade = fake.wait_for("/upgrade", |request| request.ended)?;
    assert_eq!(String::from_utf8_lossy(&upgrade.received), "");
    // The sidecar does not follow a redirect.
    let after: Vec<_> = fake.requests("/").into_iter().skip(before).map(|request| request.head).collect();
    ensure!(after.iter().all(|head| head.contains("/upgrade ")), "{after:?}");
    Ok(())
}

/// The sidecar's own port, as an administrator.
fn direct(name: &str) -> Result<Endpoint> {
    let admin = Caller::certificate(&format!("e2e-upgrade-{name}"), &["system:masters"])?;
    Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())
}

const SPDY: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                    X-Stream-Protocol-Version: v4.channel.k8s.io\r\n";
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
