//! Callers of an unreachable member get a clear 503 in time, and other members are not affected.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::bed::{bed, sidecar};
use harness::black_hole::BlackHole;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Manners, ok, reply};
use harness::http1::{Connection, Endpoint, Response, member_path};
use harness::registration::register;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn fault_44_refused_connections_are_503_within_the_timeout() -> Result<()> {
    let nobody = TcpListener::bind((bed()?.address, 0))?.local_addr()?;
    let client = Client::of("e2e-refuses", &format!("https://{nobody}"))?;
    let (answer, took) = client.ask()?;
    ensure!(took < CONNECT_DEADLINE, "{took:?}");
    unreachable(&answer, "Connection refused")
}

#[test]
fn fault_44_black_holed_member_costs_one_connect_timeout() -> Result<()> {
    let hole = BlackHole::start()?;
    let beside = FakeMember::start("e2e-beside-black-hole", |_| ok())?;
    let client = Client::of("e2e-black-hole", &format!("https://{}", hole.address))?;
    let (answer, took) = client.ask()?;
    ensure!(took < CONNECT_DEADLINE, "{took:?}");
    unreachable(&answer, "did not answer in time")?;
    // The breaker makes its first attempt after a second at the soonest, and the attempt takes as
    // long again.
    let (answer, took) = client.ask()?;
    ensure!(took < AT_ONCE, "{took:?}");
    for words in ["is unreachable since 2", "it did not answer in time", "next try in"] {
        unreachable(&answer, words)?;
    }
    ensure!(unreachable_members()? >= 1, "it is not counted");
    let asked = Instant::now();
    client.get(&beside.name, "/beside")?.response().and_then(|answer| {
        ensure!(answer.status() == 200, "{}", answer.text());
        Ok(())
    })?;
    ensure!(asked.elapsed() < AT_ONCE, "another member waited {:?}", asked.elapsed());
    Ok(())
}

#[test]
fn fault_44_unresolved_name_is_503_within_the_timeout() -> Result<()> {
    let client = Client::of("e2e-no-name", "https://member.invalid")?;
    let (answer, took) = client.ask()?;
    ensure!(took < CONNECT_DEADLINE, "{took:?}");
    unreachable(&answer, "member e2e-no-name is unreachable")
}

#[test]
fn fault_44_member_that_closes_connections_is_503_at_once() -> Result<()> {
    let fake = unpooled("e2e-closes")?;
    let client = Client::knows("e2e-closes")?;
    fake.shut(true);
    let (answer, took) = client.ask()?;
    ensure!(took < AT_ONCE, "{took:?}");
    unreachable(&answer, "member e2e-closes is unreachable")
}

#[test]
fn fault_45_expired_certificate_gets_no_request() -> Result<()> {
    distrusted(
        "e2e-expired",
        Manners { expired: true, ..Manners::default() },
        &json!({}),
        "certificate expired",
    )
}

#[test]
fn fault_45_certificate_of_another_name_gets_no_request() -> Result<()> {
    let other = json!({"tls-server-name": "wrong.example"});
    distrusted("e2e-other-name", Manners::default(), &other, "not valid for name")
}

#[test]
fn fault_45_certificate_of_an_unknown_ca_gets_no_request() -> Result<()> {
    let other = FakeMember::unregistered("e2e-unknown-ca-other", |_| ok())?;
    distrusted("e2e-unknown-ca", Manners::default(), &json!({"ca.crt": other.ca()}), "certificate")
}

#[test]
fn fault_56_dead_member_gets_single_trials_and_recovers() -> Result<()> {
    let fake = unpooled("e2e-gone")?;
    let client = Client::knows("e2e-gone")?;
    fake.shut(true);
    let refused = eventually("nothing is sent any more", SOON, || {
        let (answer, _) = client.ask()?;
        Ok(answer.text().contains("next try in").then_some(answer))
    })?;
    unreachable(&refused, "since")?;
    // The outage is recent: a caller that can wait may wait until the current attempt has ended.
    let again: u32 = refused.head.value("retry-after").context("no Retry-After")?.parse()?;
    ensure!((1..=14).contains(&again), "{again}");
    let before = fake.knocked();
    for _ in 0..200 {
        ensure!(client.ask()?.0.status() == 503);
    }
    let tried = fake.knocked() - before;
    ensure!(tried <= 5, "{tried} of 200 requests tried");

    fake.shut(false);
    eventually("it is reached again", SOON, || Ok((client.ask()?.0.status() == 200).then_some(())))?;
    for _ in 0..20 {
        ensure!(client.ask()?.0.status() == 200, "a member that is back is not used");
    }
    Ok(())
}

#[test]
fn fault_56_outage_has_a_retry_date_that_kubectl_ignores() -> Result<()> {
    let fake = unpooled("e2e-outage")?;
    let admin = Caller::certificate("e2e-outage-admin", &["system:masters"])?;
    let client = Client::knows("e2e-outage")?;
    fake.shut(true);
    let refused = eventually("it is no restart any more", SOON, || {
        let (answer, _) = client.ask()?;
        let again = answer.head.value("retry-after").unwrap_or("0");
        Ok(again.parse::<u32>().is_err().then_some(answer))
    })?;
    unreachable(&refused, "next try in")?;
    due_soon(&refused)?;

    // The host forwards the answer unchanged.
    let host = Endpoint::cluster(&bed()?.host, admin.certificate.as_deref())?;
    let mut connection = host.connect()?;
    send(&mut connection, &fake.name, "/asked")?;
    let through_host = connection.response()?;
    unreachable(&through_host, "next try in")?;
    due_soon(&through_host)?;

    let kubectl = Tool::kubectl(&admin.at(&fake.name)?)?;
    let asked = Instant::now();
    kubectl.run(&["get", "--raw", "/api/v1/nodes"])?.failure(&["member e2e-outage is unreachable since"])?;
    ensure!(asked.elapsed() < AT_ONCE, "kubectl waited {:?}", asked.elapsed());
    Ok(())
}

/// Checks that the answer names the time of the next attempt, in the date format of RFC 9110.
fn due_soon(answer: &Response) -> Result<()> {
    let date = |name: &str| {
        let text = answer.head.value(name).with_context(|| format!("no {name}"))?;
        ensure!(text.ends_with(" GMT"), "{name}: {text}");
        Ok(jiff::fmt::rfc2822::parse(text).with_context(|| text.to_owned())?.timestamp())
    };
    let wait = date("retry-after")?.duration_since(date("date")?).as_secs();
    // The longest pause, its jitter, and the interval over which callers that were refused together
    // are spread.
    ensure!((0..=40).contains(&wait), "in {wait} s");
    Ok(())
}

#[test]
fn fault_56_flapping_member_is_used_when_up() -> Result<()> {
    let fake = unpooled("e2e-flaps")?;
    let steady = FakeMember::start("e2e-steady", |_| ok())?;
    let client = Client::knows("e2e-flaps")?;
    for round in 0..20 {
        fake.shut(true);
        for _ in 0..3 {
            let (answer, took) = client.ask()?;
            ensure!(answer.status() == 503 && took < AT_ONCE, "{} after {took:?}", answer.status());
        }
        ensure!(client.get(&steady.name, "/steady")?.response()?.status() == 200);
        fake.shut(false);
        for _ in 0..3 {
            let (answer, _) = client.ask()?;
            ensure!(answer.status() == 200, "round {round}: {}", answer.text());
        }
    }
    Ok(())
}

/// A member whose connections are not pooled, so that each request opens a new one.
fn unpooled(name: &str) -> Result<FakeMember> {
    let fake = FakeMember::unregistered(name, |_| reply("200 OK", "Connection: close\r\n", ""))?;
    fake.register(&json!({}))?;
    Ok(fake)
}

/// Checks that a member whose certificate is not trusted gets no request, and that the answer says so.
fn distrusted(name: &str, manners: Manners, keys: &serde_json::Value, words: &str) -> Result<()> {
    let fake = FakeMember::with(name, manners, |_| ok())?;
    fake.register(keys)?;
    let client = Client::knows(name)?;
    unreachable(&client.ask()?.0, words)?;
    // An upgrade takes a connection to itself.
    let mut upgrade = client.endpoint.connect()?;
    let path = member_path(name, "/upgrade");
    upgrade.send(
        format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
            .as_bytes(),
    )?;
    unreachable(&upgrade.response()?, words)?;
    ensure!(fake.requests("/").is_empty(), "it got {:?}", fake.requests("/"));
    Ok(())
}

fn unreachable(answer: &Response, words: &str) -> Result<()> {
    let text = answer.text();
    ensure!(answer.status() == 503 && text.contains("member unreachable"), "{}: {text}", answer.status());
    ensure!(text.contains(words), "{words}: {text}");
    ensure!(!text.contains("token-of"), "a secret: {text}");
    Ok(())
}

/// The metric, for all members of the bed together.
fn unreachable_members() -> Result<u32> {
    let admin = Caller::certificate("e2e-reach-metrics", &["system:masters"])?;
    let endpoint = Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())?;
    let metrics = endpoint.exchange(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("mc_sidecar_members_unreachable "));
    Ok(line.with_context(|| metrics.clone())?.parse()?)
}

/// An administrator of the host, at the sidecar's own port.
struct Client {
    member: String,
    endpoint: Endpoint,
}

impl Client {
    /// The client of a new member that is only an address.
    fn of(member: &str, server: &str) -> Result<Self> {
        let ca = std::fs::read_to_string(&bed()?.host.ca_certificate)?;
        register(member, &json!({"server": server, "ca.crt": ca, "token": "token-of-nobody"}))?;
        Self::knows(member)
    }

    /// The client of a registered member.
    fn knows(member: &str) -> Result<Self> {
        let admin = Caller::certificate(&format!("{member}-admin"), &["system:masters"])?;
        let endpoint = Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())?;
        Ok(Self { member: member.to_owned(), endpoint })
    }

    /// Sends a request as soon as the sidecar knows the member, and returns the answer and its duration.
    fn ask(&self) -> Result<(Response, Duration)> {
        eventually("the sidecar knows the member", SOON, || {
            let mut connection = self.endpoint.connect()?;
            let asked = Instant::now();
            send(&mut connection, &self.member, "/asked")?;
            let (answer, took) = (connection.response()?, asked.elapsed());
            let known = answer.status() != 404 && !answer.text().contains("proxy off");
            Ok(known.then_some((answer, took)))
        })
    }

    fn get(&self, member: &str, path: &str) -> Result<Connection> {
        let mut connection = self.endpoint.connect()?;
        send(&mut connection, member, path)?;
        Ok(connection)
    }
}

fn send(connection: &mut Connection, member: &str, path: &str) -> Result<()> {
    connection.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", member_path(member, path)).as_bytes())
}

/// The connect timeout and a second.
const CONNECT_DEADLINE: Duration = Duration::from_secs(11);
/// Half of the connect timeout, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(5);
