//! A request has one audit ID, from its answer to the member's audit log.

use anyhow::{Context, Result, ensure};
use harness::audit::AuditLog;
use harness::bed::{bed, member, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, ok, reply};
use harness::http1::{Endpoint, Head, member_path};

#[test]
fn audit_id_of_an_answer_is_in_the_members_audit_log() -> Result<()> {
    for (entrance, endpoint) in entrances("log")? {
        let uri = format!("/api/v1/namespaces/default/configmaps?audit-id-test={entrance}");
        let head = get(&endpoint, &member_path("m2", &uri), "")?;
        let event = AuditLog::of(member("m2")?).request(&uri)?;
        ensure!(head.value("audit-id") == event["auditID"].as_str(), "{entrance}: {head:?} {event}");
    }
    Ok(())
}

#[test]
fn callers_audit_id_reaches_the_member_and_returns() -> Result<()> {
    let fake = FakeMember::start("e2e-audit-id", |request| match request.target() {
        target if target.contains("agreed") => {
            let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
            vec![Step::Send(head.into()), Step::Close]
        }
        target if target.contains("refused") => reply("403 Forbidden", "Audit-ID: another\r\n", "no"),
        _ => ok(),
    })?;
    let upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    for (entrance, endpoint) in entrances("own")? {
        for (way, headers) in [("plain", ""), ("agreed", upgrade), ("refused", upgrade)] {
            let (id, rest) = (format!("id-{way}-{entrance}"), format!("/{way}/{entrance}"));
            let headers = format!("{headers}Audit-ID: {id}\r\n");
            let head = get(&endpoint, &member_path(&fake.name, &rest), &headers)?;
            let arrived = fake.wait_for(&rest, |_| true)?;
            ensure!(arrived.values("audit-id") == [id.as_str()], "{}", arrived.head);
            let told: Vec<_> = head.lines.iter().filter(|(name, _)| name == "audit-id").collect();
            ensure!(!told.is_empty() && told.iter().all(|(_, value)| *value == id), "{way}: {head:?}");
            // The host may repeat it in another line.
            ensure!(told.len() == 1 || entrance == "host", "{way}: {head:?}");
        }
    }
    Ok(())
}

#[test]
fn request_that_reaches_no_member_has_an_audit_id() -> Result<()> {
    let stranger = Endpoint::sidecar(sidecar()?, None)?;
    for path in ["/apis", "/livez", "/nowhere", &member_path("m2", "/api")] {
        let head = get(&stranger, path, "")?;
        ensure!(head.value("audit-id").is_some_and(|id| id.len() == 36), "{path}: {head:?}");
    }
    Ok(())
}

/// Both entrances, as an administrator.
fn entrances(name: &str) -> Result<[(&'static str, Endpoint); 2]> {
    let admin = Caller::certificate(&format!("e2e-audit-id-{name}"), &["system:masters"])?;
    let certificate = admin.certificate.as_deref();
    Ok([
        ("direct", Endpoint::sidecar(sidecar()?, certificate)?),
        ("host", Endpoint::cluster(&bed()?.host, certificate)?),
    ])
}

fn get(endpoint: &Endpoint, path: &str, headers: &str) -> Result<Head> {
    let mut connection = endpoint.connect()?;
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())?;
    connection.head().with_context(|| path.to_owned())
}
