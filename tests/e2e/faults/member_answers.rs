//! A caller gets a clear error, and no other answer, when a member's answer is late, broken, endless or
//! hostile.

use std::time::Instant;

use anyhow::{Result, ensure};
use harness::bed::{bed, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Step, ok, reply};
use harness::http1::{Connection, Endpoint, member_path};
use harness::noise::MEBIBYTE;
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::usage;

#[test]
fn fault_46_hanging_member_times_out_but_watch_continues() -> Result<()> {
    let gate = Gate::closed();
    let (hung, later) = (gate.clone(), gate.clone());
    let trickle = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let fake = FakeMember::start("e2e-hangs-late", move |request| match request.target() {
        target if target.contains("/head") => vec![Step::Wait(hung.clone())],
        target if target.contains("/body") || target.contains("watch=") => vec![
            Step::Send([trickle, "6\r\nbegun\n\r\n"].concat().into()),
            Step::Wait(later.clone()),
            Step::Send(b"6\r\nended\n\r\n0\r\n\r\n".to_vec()),
        ],
        _ => ok(),
    })?;
    let mut watch = ask(&fake, "/api/v1/namespaces/default/pods?watch=true")?;
    assert_eq!(watch.head()?.status, 200);
    assert_eq!(watch.chunk()?, b"begun\n");

    let mut head = ask(&fake, "/api/v1/namespaces/default/head?timeout=2s")?;
    let answer = head.response()?;
    ensure!(answer.status() == 504 && answer.text().contains("member unreachable"), "{}", answer.text());

    let mut body = ask(&fake, "/api/v1/namespaces/default/body?timeout=2s")?;
    assert_eq!(body.head()?.status, 200);
    assert_eq!(body.chunk()?, b"begun\n");
    ensure!(body.chunk().is_err(), "an answer that broke off at its deadline has an end");

    gate.open();
    assert_eq!(watch.chunk()?, b"ended\n");
    assert_eq!(watch.chunk()?, b"");
    Ok(())
}

#[test]
fn fault_47_answer_cut_inside_a_chunk_has_no_clean_end() -> Result<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (name, cut) in [("chunk", "a\r\nhalf"), ("size", "4\r\nhalf\r\n"), ("end", "4\r\nhalf\r\n0\r\n")] {
        let steps = vec![Step::Send([head, cut].concat().into()), Step::Close];
        let fake = FakeMember::start(&format!("e2e-cut-{name}"), move |_| steps.clone())?;
        for endpoint in entrances(&fake.name)? {
            let mut connection = endpoint.connect()?;
            send(&mut connection, &fake, "/cut")?;
            ensure!(connection.response().is_err(), "a whole answer was made of a {name} that is cut");
        }
    }
    Ok(())
}

#[test]
fn fault_48_redirect_of_a_plain_request_is_502() -> Result<()> {
    for (number, status) in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"].iter().enumerate() {
        let (name, head) = (format!("e2e-redirects-{number}"), "Location: https://elsewhere.example/\r\n");
        let fake = FakeMember::start(&name, move |_| reply(status, head, ""))?;
        let answer = ask(&fake, "/redirected")?.response()?;
        ensure!(answer.status() == 502 && !answer.text().contains("elsewhere"), "{}", answer.text());
        ensure!(answer.head.value("location").is_none(), "{:?}", answer.head);
    }
    Ok(())
}

#[test]
fn fault_49_unrequested_switch_of_protocols_is_502() -> Result<()> {
    let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
    let fake = FakeMember::start("e2e-switches", move |_| {
        vec![Step::Send([switched, "bytes of another protocol"].concat().into()), Step::ReceiveAll]
    })?;
    let mut client = ask(&fake, "/plain")?;
    let answer = client.response()?;
    ensure!(answer.status() == 502 && answer.text().contains("switched protocols"), "{}", answer.text());
    // The next request gets a new connection.
    send(&mut client, &fake, "/next")?;
    ensure!(client.response()?.status() == 502);
    let (plain, next) = (fake.requests("/plain"), fake.requests("/next"));
    ensure!(plain[0].received.is_empty() && plain[0].connection != next[0].connection);
    Ok(())
}

#[test]
fn fault_50_answers_that_are_not_http_are_502() -> Result<()> {
    let large = format!("HTTP/1.1 200 OK\r\nX-Large: {}\r\n\r\n", "x".repeat(MEBIBYTE));
    for (name, answer) in [
        ("large", large.as_str()),
        ("bare-cr", "HTTP/1.1 200 OK\r\nX-Split: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"),
        ("bare-nul", "HTTP/1.1 200 OK\r\nX-Nul: a\0b\r\nContent-Length: 0\r\n\r\n"),
        ("lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        ("words", "it is not HTTP that this speaks\r\n\r\n"),
    ] {
        let steps = vec![Step::Send(answer.into()), Step::ReceiveAll];
        let fake = FakeMember::start(&format!("e2e-no-http-{name}"), move |_| steps.clone())?;
        let answer = ask(&fake, "/answer")?.response()?;
        ensure!(answer.status() == 502, "{name}: {}: {}", answer.status(), answer.text());
        ensure!(answer.text().contains("member unreachable"), "{name}: {}", answer.text());
        ensure!(answer.head.value("set-cookie").is_none(), "{:?}", answer.head);
    }
    Ok(())
}

#[test]
fn fault_50_endless_interim_answers_are_502() -> Result<()> {
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".repeat(1000);
    let fake = FakeMember::start("e2e-interim", move |_| {
        vec![Step::Repeat(interim.clone().into(), 1000), Step::ReceiveAll]
    })?;
    let upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    for (path, headers) in [("/plain", ""), ("/api/v1/pods?watch=true", ""), ("/upgraded", upgrade)] {
        let mut connection = entrances(&fake.name)?.remove(0).connect()?;
        let path = member_path(&fake.name, path);
        let asked = Instant::now();
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())?;
        let answer = connection.response()?;
        ensure!(answer.status() == 502, "{path}: {}: {}", answer.status(), answer.text());
        ensure!(asked.elapsed().as_secs() < 10, "{path}: {:?}", asked.elapsed());
    }
    Ok(())
}

#[test]
fn fault_50_few_interim_answers_precede_the_final_one() -> Result<()> {
    let hints = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    let fake = FakeMember::start("e2e-hints", move |_| {
        vec![Step::Send([hints, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nreal"].concat().into())]
    })?;
    let answer = ask(&fake, "/hinted")?.response()?;
    assert_eq!((answer.status(), answer.text().as_str()), (200, "real"));
    Ok(())
}

#[test]
fn fault_53_members_429_is_forwarded_unchanged() -> Result<()> {
    let body =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}"#;
    let headers =
        "Content-Type: application/json\r\nRetry-After: 17\r\nX-Kubernetes-Pf-Flowschema-Uid: 1\r\n";
    let fake = FakeMember::start("e2e-429", move |_| reply("429 Too Many Requests", headers, body))?;
    for endpoint in entrances(&fake.name)? {
        let mut connection = endpoint.connect()?;
        send(&mut connection, &fake, "/busy")?;
        let answer = connection.response()?;
        assert_eq!((answer.status(), answer.text().as_str()), (429, body));
        assert_eq!(answer.head.value("retry-after"), Some("17"));
        assert_eq!(answer.head.value("x-kubernetes-pf-flowschema-uid"), Some("1"));
    }
    assert_eq!(fake.requests("/busy").len(), 2);
    Ok(())
}

#[test]
fn fault_55_compressed_answer_arrives_byte_for_byte() -> Result<()> {
    // The body is not valid gzip: neither the host nor the sidecar decodes it.
    let body: Vec<u8> =
        [0x1f, 0x8b].into_iter().chain((0..100_000u32).map(|n| n.to_le_bytes()[0] ^ 0x5a)).collect();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n";
    let sent = [format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes(), body.clone()].concat();
    let fake = FakeMember::start("e2e-gzip", move |_| vec![Step::Send(sent.clone())])?;
    for endpoint in entrances(&fake.name)? {
        let mut connection = endpoint.connect()?;
        let path = member_path(&fake.name, "/gzip");
        connection
            .send(format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n").as_bytes())?;
        let answer = connection.response()?;
        assert_eq!(answer.head.value("content-encoding"), Some("gzip"));
        ensure!(answer.body == body, "{} bytes of {}", answer.body.len(), body.len());
    }
    assert_eq!(fake.requests("/gzip")[0].values("accept-encoding"), ["gzip"]);
    Ok(())
}

#[test]
fn fault_55_bytes_past_the_length_reach_no_other_answer() -> Result<()> {
    let poisoned = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine";
    let extra = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned";
    let fake = FakeMember::start("e2e-poisoned", move |request| match request.target() {
        target if target.contains("/first") => vec![Step::Send([poisoned, extra].concat().into())],
        _ => reply("200 OK", "", "yours"),
    })?;
    let mut client = entrances(&fake.name)?.remove(0).connect()?;
    for n in 0..10 {
        for (part, body) in [("first", "mine"), ("second", "yours")] {
            send(&mut client, &fake, &format!("/{part}/{n}"))?;
            let answer = client.response()?;
            assert_eq!((answer.status(), answer.text().as_str()), (200, body), "{part} {n}");
        }
    }
    Ok(())
}

#[test]
fn fault_57_gibibyte_answer_leaves_memory_constant() -> Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        1024 * MEBIBYTE
    );
    let fake = FakeMember::start("e2e-gibibyte", move |request| match request.target() {
        "/gibibyte" => vec![Step::Send(head.clone().into()), Step::Repeat(vec![b'x'; MEBIBYTE], 1024)],
        _ => ok(),
    })?;
    // A separate sidecar, because other tests change the memory of the bed's. On a busy machine a
    // gibibyte takes longer than the default timeout of a request.
    let flags = ["--request-timeout=10m"];
    let own = OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?;
    let admin = Caller::certificate(&format!("{}-admin", fake.name), &["system:masters"])?;
    let mut client = own.endpoint(admin.certificate.as_deref())?.connect()?;
    send(&mut client, &fake, "/gibibyte")?;
    assert_eq!(client.head()?.status, 200);
    let before = usage::resident(own.pid())?;
    let mut highest = before;
    for _ in 0..64 {
        let piece = client.exactly(16 * MEBIBYTE)?;
        ensure!(piece.iter().all(|&byte| byte == b'x'));
        highest = highest.max(usage::resident(own.pid())?);
    }
    // The answer contains this 32 times.
    ensure!(highest < before + 32 * MEBIBYTE, "it grew by {} MiB", (highest - before) / MEBIBYTE);
    Ok(())
}

fn ask(fake: &FakeMember, path: &str) -> Result<Connection> {
    let mut connection = entrances(&fake.name)?.remove(0).connect()?;
    send(&mut connection, fake, path)?;
    Ok(connection)
}

fn send(connection: &mut Connection, fake: &FakeMember, path: &str) -> Result<()> {
    connection.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", member_path(&fake.name, path)).as_bytes())
}

/// The sidecar's own port and the host's, as an administrator.
fn entrances(name: &str) -> Result<Vec<Endpoint>> {
    let admin = Caller::certificate(&format!("{name}-admin"), &["system:masters"])?;
    let certificate = admin.certificate.as_deref();
    Ok(vec![Endpoint::sidecar(sidecar()?, certificate)?, Endpoint::cluster(&bed()?.host, certificate)?])
}
