//! The status of a member shows whether it is reachable, if not, why not, and its version. A probe
//! that finds no change writes nothing.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use harness::bed::bed;
use harness::black_hole::BlackHole;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Manners, Request, Step, ok, reply};
use harness::own_fleet::OwnFleet;
use harness::own_sidecar::OwnSidecar;
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::plugin;

#[test]
fn unreachable_member_shows_the_reason() -> Result<()> {
    let fleet = OwnFleet::new("health-why")?;
    let nobody = TcpListener::bind((bed()?.address, 0))?.local_addr()?;
    let hole = BlackHole::start()?;
    let fake = FakeMember::probed("e2e-health-fake", healthy)?;
    let other = FakeMember::probed("e2e-health-other", healthy)?;
    let expired =
        FakeMember::with("e2e-health-old", Manners { expired: true, ..Manners::default() }, healthy)?;
    let silent = FakeMember::probed("e2e-health-slow", |_| vec![Step::Wait(Gate::closed())])?;
    let at = |server: String| fake.secret(&json!({"server": server}));
    let members = [
        ("e2e-health-refuses", at(format!("https://{nobody}")), "ConnectionRefused"),
        ("e2e-health-no-name", at("https://member.invalid".to_owned()), "NameNotFound"),
        ("e2e-health-hole", at(format!("https://{}", hole.address)), "ConnectionTimeout"),
        ("e2e-health-name", fake.secret(&json!({"tls-server-name": "wrong.example"})), "TLSName"),
        ("e2e-health-authority", fake.secret(&json!({"ca.crt": other.ca()})), "TLSAuthority"),
        ("e2e-health-expired", expired.secret(&json!({})), "TLSExpired"),
        ("e2e-health-slow", silent.secret(&json!({})), "Slow"),
    ];
    for (name, data, _) in &members {
        fleet.register(name, data)?;
    }
    let _own = fleet.sidecar(&[])?;
    for (name, _, reason) in &members {
        fleet.until(name, "Reachable", "False", reason)?;
        fleet.until(name, "Ready", "False", reason)?;
    }
    Ok(())
}

#[test]
fn outage_and_recovery_are_shown_and_recorded_as_events() -> Result<()> {
    let fleet = OwnFleet::new("health-back")?;
    let fake = FakeMember::probed("e2e-health-back", healthy)?;
    fleet.register(&fake.name, &fake.secret(&json!({})))?;
    let own = fleet.sidecar(&[])?;
    fleet.until(&fake.name, "Ready", "True", "Ready")?;
    fake.shut(true);
    let gone = fleet.until(&fake.name, "Reachable", "False", "ConnectionFailed")?;
    fleet.until(&fake.name, "Ready", "False", "ConnectionFailed")?;
    ensure!(own.metric("mc_sidecar_member_reachable{cluster=\"e2e-health-back\"}")? == 0.0);
    // No caller has used the member, but its breaker is already open.
    eventually("the breaker is open", SOON, || Ok((unreachable(&own)? == 1.0).then_some(())))?;
    fake.shut(false);
    fleet.until(&fake.name, "Ready", "True", "Ready")?;
    eventually("it is closed again", SOON, || Ok((unreachable(&own)? == 0.0).then_some(())))?;
    let told = ("Warning".to_owned(), gone.reason.clone(), format!("Reachable: {}", gone.message));
    eventually("the Event is there", SOON, || {
        let events = fleet.events(&fake.name)?;
        ensure!(events.contains(&told), "{events:?}");
        ensure!(events.iter().any(|(kind, reason, _)| kind == "Normal" && reason == "Answers"), "{events:?}");
        Ok(Some(()))
    })
}

fn unreachable(own: &OwnSidecar) -> Result<f64> {
    own.metric("mc_sidecar_members_unreachable ")
}

#[test]
fn unchanged_member_status_is_not_written() -> Result<()> {
    let fleet = OwnFleet::new("health-quiet")?;
    let fake = FakeMember::probed("e2e-health-quiet", healthy)?;
    fleet.register(&fake.name, &fake.secret(&json!({})))?;
    let _own = fleet.sidecar(&[])?;
    fleet.until(&fake.name, "Ready", "True", "Ready")?;
    let version = || fleet.member(&fake.name).map(|member| member["metadata"]["resourceVersion"].clone());
    let (before, asked) = (version()?, fake.requests("/version").len());
    eventually("it was asked twenty times more", SOON, || {
        Ok((fake.requests("/version").len() >= asked + 20).then_some(()))
    })?;
    // Neither its own sidecar nor the bed's, which does not have its Secret, wrote it.
    ensure!(version()? == before, "it was written: {}", fleet.member(&fake.name)?);
    ensure!(fleet.member(&fake.name)?["status"]["namespace"] == *fleet.namespace);
    Ok(())
}

#[test]
fn upgraded_member_shows_its_new_version() -> Result<()> {
    let minor = Arc::new(AtomicUsize::new(35));
    let fleet = OwnFleet::new("health-version")?;
    let now = minor.clone();
    let fake = FakeMember::probed("e2e-health-version", move |request| match request.target() {
        "/version" => version(&format!("v1.{}.0", now.load(Ordering::SeqCst))),
        _ => ok(),
    })?;
    fleet.register(&fake.name, &fake.secret(&json!({})))?;
    let _own = fleet.sidecar(&[])?;
    for version in [35, 36] {
        minor.store(version, Ordering::SeqCst);
        eventually("its version is known", SOON, || {
            let known = fleet.member(&fake.name)?["status"]["version"].clone();
            ensure!(known == format!("v1.{version}.0"), "{known}");
            Ok(Some(()))
        })?;
    }
    Ok(())
}

#[test]
fn member_that_is_not_ready_is_reported_with_its_answer() -> Result<()> {
    let fleet = OwnFleet::new("health-not-ready")?;
    let fake = FakeMember::probed("e2e-health-not-ready", |request| match request.target() {
        "/readyz" => reply("500 Internal Server Error", "", "[+]ping ok\n[-]etcd failed: reason withheld\n"),
        _ => ok(),
    })?;
    fleet.register(&fake.name, &fake.secret(&json!({})))?;
    let _own = fleet.sidecar(&[])?;
    let condition = fleet.until(&fake.name, "Ready", "False", "NotReady")?;
    ensure!(condition.message.contains("[-]etcd failed"), "{condition}");
    Ok(())
}

#[test]
fn probe_sends_the_credential_and_no_identity() -> Result<()> {
    let fleet = OwnFleet::new("health-asks")?;
    let fake = FakeMember::probed("e2e-health-asks", healthy)?;
    fleet.register(&fake.name, &fake.secret(&json!({})))?;
    let _own = fleet.sidecar(&[])?;
    fleet.until(&fake.name, "Ready", "True", "Ready")?;
    for request in fake.requests("/") {
        ensure!(["/readyz", "/version"].contains(&request.target()), "{}", request.head);
        ensure!(request.head.starts_with("GET "), "{}", request.head);
        ensure!(request.values("authorization") == [format!("Bearer {}", fake.token)], "{}", request.head);
        ensure!(!request.head.to_ascii_lowercase().contains("impersonate"), "{}", request.head);
    }
    Ok(())
}

#[test]
fn member_without_a_credential_is_probed_without_one() -> Result<()> {
    let fleet = OwnFleet::new("health-no-credential")?;
    let fake = FakeMember::probed("e2e-health-no-credential", healthy)?;
    fleet.register(&fake.name, &fake.secret(&json!({"token": ""})))?;
    let _own = fleet.sidecar(&[])?;
    fleet.until(&fake.name, "Reachable", "True", "Answers")?;
    fleet.until(&fake.name, "CredentialValid", "False", "NoCredential")?;
    fleet.until(&fake.name, "Ready", "False", "NoCredential")?;
    let asked = fake.requests("/readyz");
    ensure!(!asked.is_empty() && asked.iter().all(|request| request.values("authorization").is_empty()));
    Ok(())
}

#[test]
fn missing_secret_of_a_member_is_reported() -> Result<()> {
    let fleet = OwnFleet::new("health-no-secret")?;
    let name = "e2e-health-no-secret";
    fleet.host.apply(
        &format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{name}"),
        &json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
            "metadata": {"name": name}, "spec": {},
        }),
    )?;
    // The bed's sidecar reports this.
    fleet.until(name, "Ready", "False", "NoSecret")?;
    fleet.until(name, "Reachable", "Unknown", "NoSecret")?;
    Ok(())
}

#[test]
fn plugin_shows_readiness_and_version_of_members() -> Result<()> {
    let admin = Caller::certificate("e2e-health-admin", &["system:masters"])?;
    let plugin = plugin(&admin)?;
    let version = &bed()?.members["m1"].version;
    eventually("m1 is ready", SOON, || {
        let table = plugin.ok(&["clusters"])?;
        let row = table.lines().find(|line| line.starts_with("m1 ")).unwrap_or_default().to_owned();
        let cells: Vec<&str> = row.split_whitespace().collect();
        ensure!(cells.len() >= 3 && cells[1] == "True" && cells[2] == *version, "{table}");
        Ok(Some(()))
    })
}

fn healthy(request: &Request) -> Vec<Step> {
    match request.target() {
        "/version" => version("v1.36.0"),
        _ => ok(),
    }
}

fn version(version: &str) -> Vec<Step> {
    reply("200 OK", "Content-Type: application/json\r\n", &json!({"gitVersion": version}).to_string())
}
