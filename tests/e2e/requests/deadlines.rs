//! A request ends at its own timeout. A watch does not. (`faults/member_refusals.rs` tests the
//! limit of a minute.)

use anyhow::{Result, ensure};
use harness::bed::{bed, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Step, ok};
use harness::http1::{Endpoint, Response, member_path};

#[test]
fn request_ends_at_its_own_timeout() -> Result<()> {
    let fake = FakeMember::start("e2e-own-timeout", |_| vec![Step::Hang])?;
    for (entrance, endpoint) in entrances("own")? {
        let rest = format!("/api/v1/pods/{entrance}?limit=1&timeout=2s");
        let answer = get(&endpoint, &fake, &rest)?;
        ensure!(answer.status() == 504, "{entrance}: {} {}", answer.status(), answer.text());
        ensure!(answer.text().contains("member unreachable"), "{entrance}: {}", answer.text());
        // The member gets the timeout too, and could end the request by itself.
        ensure!(fake.requests("timeout=2s").iter().any(|request| request.target().contains(entrance)));
    }
    Ok(())
}

#[test]
fn watch_outlives_its_timeout_parameter() -> Result<()> {
    let gate = Gate::closed();
    let held = gate.clone();
    let fake = FakeMember::start("e2e-watch-timeout", move |request| {
        if !request.target().contains("watch") {
            return vec![Step::Hang];
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
        vec![Step::Send(head.into()), Step::Wait(held.clone()), Step::Send(b"word".to_vec())]
    })?;
    let [(_, endpoint), _] = entrances("watch")?;
    let mut watch = endpoint.connect()?;
    let path = member_path(&fake.name, "/api/v1/pods?watch=1&timeout=1s");
    watch.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    ensure!(watch.head()?.status == 200, "no watch");
    // A later request with the same timeout has ended, so the watch has outlived its own.
    let other = get(&endpoint, &fake, "/api/v1/pods?timeout=1s")?;
    ensure!(other.status() == 504, "{}", other.text());
    gate.open();
    ensure!(watch.exactly(4)? == b"word");
    Ok(())
}

#[test]
fn invalid_timeout_is_refused_and_not_forwarded() -> Result<()> {
    let fake = FakeMember::start("e2e-bad-timeout", |_| ok())?;
    for (entrance, endpoint) in entrances("bad")? {
        let answer = get(&endpoint, &fake, "/api/v1/pods?timeout=5")?;
        ensure!(answer.status() == 400, "{entrance}: {} {}", answer.status(), answer.text());
        let message = "invalid timeout specified in the request URL - time: missing unit in duration";
        ensure!(answer.text().contains(message), "{entrance}: {}", answer.text());
    }
    ensure!(fake.requests("timeout=5").is_empty(), "it was forwarded");
    Ok(())
}

/// Both entrances, as an administrator.
fn entrances(name: &str) -> Result<[(&'static str, Endpoint); 2]> {
    let admin = Caller::certificate(&format!("e2e-deadlines-{name}"), &["system:masters"])?;
    let certificate = admin.certificate.as_deref();
    Ok([
        ("direct", Endpoint::sidecar(sidecar()?, certificate)?),
        ("host", Endpoint::cluster(&bed()?.host, certificate)?),
    ])
}

fn get(endpoint: &Endpoint, fake: &FakeMember, rest: &str) -> Result<Response> {
    let path = member_path(&fake.name, rest);
    endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
}
