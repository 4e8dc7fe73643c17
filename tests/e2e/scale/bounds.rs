//! One client or member does not noticeably slow down the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, ok};
use harness::hostile::unread::{Request, Stall, Unread};
use harness::http1::{Connection, Endpoint, member_path};
use harness::http2::{END_HEADERS, END_STREAM, HEADERS, Http2, frame, literal};
use harness::noise::MEBIBYTE;
use harness::own_sidecar::OwnSidecar;
use harness::scene::Scene;
use harness::wait::{SOON, eventually};

use crate::plugin_in;

#[test]
fn hanging_member_slows_no_other_member() -> Result<()> {
    let scene = Scene::on("m2", "beside-hanging")?;
    let plugin = plugin_in(&scene, &scene.caller()?)?;
    plugin.ok(&["get", "configmaps"])?;
    let fake = FakeMember::start("e2e-hangs", |_| vec![Step::Hang])?;
    let mut waiting = Vec::new();
    for number in 0..50 {
        waiting.push(ask(&direct("hangs")?, &fake, &format!("/hang/{number}"))?);
    }
    fake.wait_for("/hang/49", |_| true)?;
    let asked = Instant::now();
    plugin.ok(&["get", "configmaps"])?;
    // A request that waits for the hanging member takes longer: that member never answers.
    ensure!(asked.elapsed() < Duration::from_secs(15), "it took {:?}", asked.elapsed());
    Ok(())
}

#[test]
fn flood_of_one_caller_keeps_no_other_out() -> Result<()> {
    // The flooder does not read, so the sidecar must not wait until its answers are sent.
    for stall in Stall::ALL {
        let name = format!("e2e-flooded-{stall:?}").to_lowercase();
        let fake = FakeMember::start(&name, |request| match request.target() {
            target if target.contains("/flood") => flood(),
            _ => ok(),
        })?;
        let flooder = direct("flooder")?;
        // A priority level has 100 places at a member, and no caller holds more than three quarters of them.
        let requests = vec![Request::get(member_path(&fake.name, "/flood")); 80];
        let mut flood = Unread::send(stall, &flooder, &requests)?;
        let arrived = || fake.requests("/flood").len();
        eventually("the flood is there", SOON, || Ok((arrived() == 75).then_some(())))?;
        Unread::settle([&mut flood])?;
        let mut polite = ask(&direct("polite")?, &fake, "/polite")?;
        ensure!(polite.response()?.status() == 200, "{stall:?}: another caller does not get through");
        // One more request of the flood waits for a place for a quarter of its timeout of a second.
        let refused = ask(&flooder, &fake, "/flood/refused?timeout=1s")?.response()?;
        ensure!(refused.status() == 429, "{stall:?}: {} {}", refused.status(), refused.text());
        ensure!(refused.head.value("retry-after") == Some("1"), "{:?}", refused.head);
        ensure!(arrived() == 75, "{stall:?}: more than a share arrived");
    }
    Ok(())
}

#[test]
fn forbidden_caller_takes_no_capacity_of_a_member() -> Result<()> {
    let fake = FakeMember::start("e2e-full", |request| match request.target() {
        target if target.contains("/hang") => vec![Step::Hang],
        _ => ok(),
    })?;
    let own = OwnSidecar::start()?;
    let caller = |name: &str, groups: &[&str]| {
        let caller = Caller::certificate(&format!("e2e-full-{name}"), groups)?;
        own.endpoint(caller.certificate.as_deref())
    };
    let mut held = Vec::new();
    // Each caller takes all the places that its threshold allows after the previous callers.
    for (name, share) in [("first", 75), ("second", 19), ("third", 5), ("fourth", 1)] {
        let endpoint = caller(name, &["system:masters"])?;
        for number in 0..share {
            held.push(ask(&endpoint, &fake, &format!("/hang/{name}/{number}"))?);
        }
    }
    eventually("the member is full", SOON, || Ok((fake.requests("/hang").len() == 100).then_some(())))?;
    let full = ask(&caller("fifth", &["system:masters"])?, &fake, "/asked?timeout=1s")?.response()?;
    ensure!(full.status() == 429, "it is not full: {}", full.text());
    // The answer is that the caller has no right. It neither waits for a place nor shows that there is none.
    let stranger = ask(&caller("stranger", &[])?, &fake, "/asked?timeout=1s")?.response()?;
    ensure!(
        stranger.status() == 403 && stranger.text().contains("host authorization"),
        "{}",
        stranger.text()
    );
    assert_eq!(fake.requests("/asked").len(), 0);
    Ok(())
}

#[test]
fn header_of_two_mebibytes_is_refused() -> Result<()> {
    refused("header", &format!("X-Large: {}\r\n", "x".repeat(2 * MEBIBYTE)))
}

#[test]
fn five_thousand_header_lines_are_refused() -> Result<()> {
    refused("lines", &"X-Many: x\r\n".repeat(5_000))
}

#[test]
fn fault_08_user_of_hundreds_of_groups_gets_through() -> Result<()> {
    let groups: Vec<String> = (0..300).map(|number| format!("e2e-group-{number:03}")).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let scene = Scene::on("m2", "many-groups")?;
    let caller = Caller::certificate("e2e-many-groups", &groups)?;
    scene.welcome(&caller)?;
    plugin_in(&scene, &caller)?.ok(&["get", "configmaps"])?;
    Ok(())
}

#[test]
fn fault_35_endless_head_times_out() -> Result<()> {
    let fake = FakeMember::start("e2e-slow-head", |_| ok())?;
    let endpoint = direct("slow-head")?;
    let begin = Instant::now();
    let begun = "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ";
    let mut first = endpoint.connect()?;
    first.send(begun.as_bytes())?;
    let mut second = ask(&endpoint, &fake, "/before")?;
    ensure!(second.response()?.status() == 200, "the request before is not served");
    second.send(begun.as_bytes())?;
    // Part of an HTTP/2 frame, and a HEADERS frame without the end of the head.
    let mut cut = Http2::connect(&endpoint)?;
    cut.send_bytes(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0; 64])?[..20])?;
    let mut unfinished = Http2::connect(&endpoint)?;
    unfinished.send(HEADERS, END_STREAM, 1, &literal(":method", "GET"))?;
    let mut idle = ask(&endpoint, &fake, "/first")?;
    ensure!(idle.response()?.status() == 200, "the first request is not served");

    // With or without an answer, the connection closes after 32 s, as it does at a kube-apiserver.
    for connection in [&mut first, &mut second] {
        connection.set_patience(GIVEN_UP)?;
        connection.rest()?;
        let elapsed = begin.elapsed();
        ensure!(elapsed > Duration::from_secs(25) && elapsed < GIVEN_UP, "given up after {elapsed:?}");
    }
    for connection in [&mut cut, &mut unfinished] {
        connection.connection().set_patience(GIVEN_UP)?;
        connection.end()?;
        ensure!(begin.elapsed() < GIVEN_UP, "given up after {:?}", begin.elapsed());
    }
    // A connection on which no request has begun is idle, and stays open for longer.
    let path = member_path(&fake.name, "/second");
    idle.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    ensure!(idle.response()?.status() == 200, "the idle connection is not served");
    Ok(())
}

#[test]
fn slow_probe_times_out() -> Result<()> {
    let address = sidecar()?.admin.trim_start_matches("http://");
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    socket.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n")?;
    // The timeout is two seconds. That of a kubelet's probe is one.
    let began = Instant::now();
    socket.read_to_end(&mut Vec::new())?;
    ensure!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    Ok(())
}

#[test]
fn endless_head_of_a_member_times_out() -> Result<()> {
    let fake = FakeMember::start("e2e-endless-head", |_| {
        let mut steps = vec![Step::Send(b"HTTP/1.1 200 OK\r\n".to_vec())];
        steps.extend((0..16).map(|_| Step::Send(b"X-More: more\r\n".repeat(100_000))));
        steps.push(Step::Hang);
        steps
    })?;
    let mut connection = ask(&direct("endless-head")?, &fake, "/endless")?;
    let head = connection.head()?;
    ensure!(head.status == 502, "answered {}", head.status);
    Ok(())
}

/// Checks that the request gets an error or a closed connection, and that the next one is served.
fn refused(name: &str, headers: &str) -> Result<()> {
    let fake = FakeMember::start(&format!("e2e-large-{name}"), |_| ok())?;
    let endpoint = direct(name)?;
    let mut connection = endpoint.connect()?;
    let path = member_path(&fake.name, "/large");
    // The sidecar may close before all of it is sent.
    let sent = connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes());
    if let (Ok(()), Ok(head)) = (sent, connection.head()) {
        ensure!((400..500).contains(&head.status), "answered {}", head.status);
    }
    assert_eq!(fake.requests("/large").len(), 0);
    ensure!(ask(&endpoint, &fake, "/next")?.response()?.status() == 200, "the next request is not served");
    Ok(())
}

/// An answer far larger than the buffers of sockets.
fn flood() -> Vec<Step> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 256 * MEBIBYTE);
    vec![Step::Send(head.into()), Step::Repeat(vec![b'x'; MEBIBYTE], 256)]
}

/// 32 s, with a margin for a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(45);

fn ask(endpoint: &Endpoint, fake: &FakeMember, rest: &str) -> Result<Connection> {
    let mut connection = endpoint.connect()?;
    let path = member_path(&fake.name, rest);
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    Ok(connection)
}

/// The sidecar's own port, as an administrator.
fn direct(name: &str) -> Result<Endpoint> {
    let admin = Caller::certificate(&format!("e2e-bounds-{name}"), &["system:masters"])?;
    Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())
}
