//! HTTP/1.1 messages that come in an odd order or that two servers could read differently are
//! either refused or forwarded in a single reading. No body becomes a second request.

use anyhow::{Context, Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, ok, reply};
use harness::http1::{Endpoint, member_path};
use harness::tool::contains;

#[test]
fn fault_32_head_that_is_not_http_is_a_bad_request() -> Result<()> {
    let (fake, direct) = member("heads")?;
    let path = member_path(&fake.name, "/body");
    let with =
        |headers: &str| format!("POST {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n0\r\n\r\n{SMUGGLED}");
    for request in [
        with("Content-Length: 5\r\nContent-Length: 0"),
        with("Content-Length: +5"),
        with("Content-Length: 0x5"),
        with("Content-Length: 5, 5"),
        with("Content-Length: -1"),
        with("Content-Length: 99999999999999999999999999"),
        with("Transfer-Encoding: gzip, chunked"),
        with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        with("Transfer-Encoding: xchunked"),
        with("Transfer-Encoding: \x0bchunked"),
        with("Transfer-Encoding : chunked"),
        with("Transfer-Encoding:\r\n chunked"),
        with("X-Nul: a\0b"),
        with("X-Return: a\rb"),
        with(": no name"),
        format!("POST {path} HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}"),
        format!("GET {path} HTTP/1.2\r\nHost: x\r\n\r\n{SMUGGLED}"),
        format!("GET {path}\r\n\r\n{SMUGGLED}"),
        format!("GET {path} HTTP/1.1\r\n\r\n{SMUGGLED}"),
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n{SMUGGLED}"),
        format!("GET {path}/\u{e9} HTTP/1.1\r\nHost: x\r\n\r\n{SMUGGLED}"),
    ] {
        let mut connection = direct.connect()?;
        connection.send(request.as_bytes())?;
        let status = connection.head().with_context(|| request.clone())?.status;
        ensure!([400, 431].contains(&status), "{request:?}: {status}");
        // The sidecar answers nothing more on this connection.
        connection.rest()?;
    }
    ensure!(
        fake.requests("/").iter().all(|request| request.target() == "/harness-ready"),
        "something arrived"
    );
    Ok(())
}

#[test]
fn fault_32_unambiguous_messages_are_forwarded() -> Result<()> {
    let (fake, direct) = member("one-reading")?;
    // The inner proxy lets headers through that the Kubernetes API does not know, including a
    // length.
    let path = member_path(&fake.name, "/api/v1/namespaces/x/pods/p/proxy/body");
    // The transfer coding counts and the length is dropped (RFC 9112, 6.3), or the request is refused.
    let length = 5 + SMUGGLED.len();
    let both = format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}");
    let mut connection = direct.connect()?;
    connection.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\n{both}").as_bytes())?;
    let first = connection.response()?;
    ensure!([200, 400].contains(&first.status()), "{first:?}");
    ensure!(connection.rest()?.is_empty(), "a second answer on a connection that is not to be trusted");
    for request in fake.requests("/body") {
        ensure!(request.values("content-length").is_empty(), "{}", request.head);
        ensure!(!contains(&request.received, "smuggled"), "{request:?}");
    }
    // The same length twice is one length (RFC 9112, 6.3), and is forwarded once.
    let twice = "Content-Length: 5\r\nContent-Length: 5\r\nConnection: close\r\n\r\n0\r\n\r\n";
    let answer = direct.exchange(format!("POST {path}/twice HTTP/1.1\r\nHost: x\r\n{twice}").as_bytes())?;
    ensure!([200, 400].contains(&answer.status()), "{answer:?}");
    for request in fake.requests("/twice") {
        assert_eq!(
            (request.values("content-length"), request.received.as_slice()),
            (vec!["5"], &b"0\r\n\r\n"[..])
        );
    }
    // The sidecar may read a bare line feed as the end of a line, but never forwards one.
    let mut connection = direct.connect()?;
    connection.send(format!("GET {path}/lf HTTP/1.1\nHost: x\nX-Anything: b\n\n").as_bytes())?;
    ensure!([200, 400].contains(&connection.head()?.status), "a bare line feed");
    for request in fake.requests("/lf") {
        ensure!(!request.head.replace("\r\n", "").contains('\n'), "{:?}", request.head);
    }
    ensure!(fake.requests("/smuggled").is_empty(), "a second request was served");
    Ok(())
}

#[test]
fn fault_32_broken_chunk_closes_both_connections() -> Result<()> {
    let (fake, direct) = member("chunks")?;
    let extension = "a".repeat(20 * 1024);
    for (number, body) in [
        "3\nabc\n0\n\n".to_owned(),
        "0x3\r\nabc\r\n0\r\n\r\n".to_owned(),
        "-3\r\nabc\r\n0\r\n\r\n".to_owned(),
        "fffffffffffffffff\r\nabc\r\n0\r\n\r\n".to_owned(),
        "3\r\nabcX\r\n0\r\n\r\n".to_owned(),
        "3\r\nabc0\r\n\r\n".to_owned(),
        format!("3;{extension}\r\nabc\r\n0\r\n\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = member_path(&fake.name, &format!("/chunk/{number}"));
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut connection = direct.connect()?;
        connection.send(format!("{head}{body}{SMUGGLED}").as_bytes())?;
        // With or without an error answer, the request must not count as complete.
        if let Ok(head) = connection.head() {
            ensure!((400..600).contains(&head.status), "{body:.30}: {}", head.status);
        }
        let rest = connection.rest()?;
        ensure!(!contains(&rest, "HTTP/1.1 200"), "{body:.30}: {}", String::from_utf8_lossy(&rest));
        for request in fake.requests(&format!("/chunk/{number}")) {
            ensure!(!contains(&request.received, "0\r\n\r\n"), "{body:.30} ended: {request:?}");
        }
    }
    ensure!(fake.requests("/smuggled").is_empty(), "a second request was served");
    Ok(())
}

#[test]
fn fault_32_more_than_a_hundred_header_lines_are_refused() -> Result<()> {
    let (fake, direct) = member("lines")?;
    let path = member_path(&fake.name, "/lines");
    for (lines, expected) in [(99, 200), (100, 431)] {
        let more = "X-More: x\r\n".repeat(lines);
        let answer = direct.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n").as_bytes())?;
        ensure!(answer.status() == expected, "{lines} and Host: {}", answer.status());
    }
    Ok(())
}

#[test]
fn fault_33_pipelined_requests_are_answered_in_their_order() -> Result<()> {
    let fake = FakeMember::start("e2e-messages-pipeline", |request| reply("200 OK", "", request.target()))?;
    let mut connection = admin("pipeline")?.connect()?;
    let all: String = (0..20)
        .map(|number| {
            let path = member_path(&fake.name, &format!("/pipelined/{number}"));
            // A refusal among them keeps its position.
            let path = if number == 7 { path.replace("e2e-messages", "e2e-nowhere") } else { path };
            format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        })
        .collect();
    connection.send(all.as_bytes())?;
    for number in 0..20 {
        let answer = connection.response()?;
        let expected = format!("/pipelined/{number}");
        ensure!((answer.text() == expected) == (number != 7), "{number}: {}", answer.text());
        ensure!(number != 7 || answer.status() == 404, "{}", answer.status());
    }
    Ok(())
}

#[test]
fn fault_34_refused_request_is_answered_without_its_body() -> Result<()> {
    let (fake, direct) = member("expect")?;
    let stranger = Endpoint::sidecar(sidecar()?, None)?;
    let path = member_path(&fake.name, "/expected");
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    let mut connection = stranger.connect()?;
    connection.send(head.as_bytes())?;
    assert_eq!(connection.head()?.status, 401, "the body is not asked for");
    assert_eq!(fake.requests("/expected").len(), 0);
    // An authorized caller gets 100 Continue.
    let mut connection = direct.connect()?;
    connection.send(head.as_bytes())?;
    assert_eq!(connection.head()?.status, 100);
    connection.send(b"abc")?;
    assert_eq!(connection.response()?.status(), 200);
    fake.wait_for("/expected", |request| request.received == b"abc")?;
    Ok(())
}

fn member(name: &str) -> Result<(FakeMember, Endpoint)> {
    Ok((FakeMember::start(&format!("e2e-messages-{name}"), |_| ok())?, admin(name)?))
}

/// The sidecar's own port, as an administrator.
fn admin(name: &str) -> Result<Endpoint> {
    let admin = Caller::certificate(&format!("e2e-messages-{name}"), &["system:masters"])?;
    Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())
}

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\nImpersonate-User: admin\r\n\r\n";
