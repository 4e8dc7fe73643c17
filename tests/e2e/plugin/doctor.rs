//! `kubectl mc doctor` finds the faults of real clusters, and of members that refuse streams or never answer
//! them.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Request, Step, ok, reply};
use harness::scene::Scene;
use harness::tool::Output;
use harness::wait::SOON;
use serde_json::{Value, json};

use crate::plugin;

#[test]
fn doctor_opens_streams_to_a_pod_of_a_healthy_member() -> Result<()> {
    let scene = Scene::new("doctor")?;
    scene.pod("shell", "sleep 1000000")?;
    let admin = admin(&scene.name)?;
    let said = admin.run(&["doctor", "m1"])?;
    ensure!(said.code == 0, "{said:?}");
    let member = said.text();
    let member = member.lines().find(|line| line.starts_with("m1: ok: ")).context(format!("{said:?}"))?;
    ensure!(
        member.contains("; Kubernetes v1.") && member.ends_with("; WebSocket and SPDY streams"),
        "{member}"
    );
    let without = admin.run(&["doctor", "m1", "--no-streams"])?.success()?;
    ensure!(!without.contains("streams"), "{without}");
    Ok(())
}

#[test]
fn doctor_names_the_missing_rights_of_a_caller() -> Result<()> {
    let stranger = Caller::certificate("e2e-doctor-stranger", &[])?;
    let said = plugin(&stranger)?.run(&["doctor", "m1", "-o", "json"])?;
    ensure!(said.code == 1, "{said:?}");
    let request = finding(&said, "request")?;
    ensure!(request["message"].as_str().unwrap_or_default().starts_with("host authorization: "), "{request}");
    ensure!(
        request["fix"]
            .as_str()
            .unwrap_or_default()
            .contains("access grant view --user=e2e-doctor-stranger -C m1"),
        "{request}"
    );
    Ok(())
}

#[test]
fn doctor_names_the_hop_that_refuses_streams() -> Result<()> {
    let fake = FakeMember::start("e2e-doctor-refuses", |request| {
        with_pod(request, || reply("502 Bad Gateway", "", "no"))
    })?;
    let said = admin("default")?.run(&["doctor", &fake.name, "-o", "json"])?;
    ensure!(said.code == 1, "{said:?}");
    let streams = finding(&said, "streams")?;
    let expected =
        "no stream to pod shop/web-0: WebSocket: member: 502 Bad Gateway; SPDY: member: 502 Bad Gateway";
    ensure!(streams["result"] == "problem" && streams["message"] == expected, "{streams}");
    ensure!(
        streams["fix"]
            .as_str()
            .unwrap_or_default()
            .contains("access explain -C e2e-doctor-refuses port-forward pods"),
        "{streams}"
    );
    Ok(())
}

#[test]
fn doctor_times_out_when_streams_get_no_answer() -> Result<()> {
    let fake = FakeMember::start("e2e-doctor-swallows", |request| with_pod(request, || vec![Step::Hang]))?;
    let begin = Instant::now();
    let said = admin("default")?.run(&["doctor", &fake.name, "-o", "json"])?;
    ensure!(said.code == 1 && begin.elapsed() < 3 * SOON, "{:?}: {said:?}", begin.elapsed());
    let streams = finding(&said, "streams")?;
    ensure!(
        streams["message"].as_str().unwrap_or_default().contains("WebSocket: no answer within 10 s"),
        "{streams}"
    );
    Ok(())
}

#[test]
fn doctor_names_a_member_that_is_down() -> Result<()> {
    let fake = FakeMember::unregistered("e2e-doctor-down", |_| ok())?;
    fake.shut(true);
    fake.register(&json!({}))?;
    let said = admin("default")?.run(&["doctor", &fake.name, "m1", "--no-streams"])?;
    let text = said.text();
    ensure!(
        said.code == 1 && text.contains("problem  request") && text.contains("member unreachable: "),
        "{said:?}"
    );
    ensure!(text.contains("m1: ok: ") && text.contains("2 clusters checked: "), "{said:?}");
    Ok(())
}

/// An administrator of the host and of its members.
fn admin(name: &str) -> Result<harness::tool::Tool> {
    plugin(&Caller::certificate(&format!("{name}-doctor-admin"), &["system:masters"])?)
}

/// A member with one pod. `streams` answers its port-forward.
fn with_pod(request: &Request, streams: impl Fn() -> Vec<Step>) -> Vec<Step> {
    let target = request.target();
    if target.ends_with("/portforward") {
        return streams();
    }
    let json = |body: &str| reply("200 OK", "Content-Type: application/json\r\n", body);
    match target {
        _ if target.starts_with("/api/v1/pods") => {
            json(r#"{"items": [{"metadata": {"name": "web-0", "namespace": "shop"}}]}"#)
        }
        "/version" => json(r#"{"gitVersion": "v1.36.3"}"#),
        _ => ok(),
    }
}

/// The finding of this check about the cluster.
fn finding(said: &Output, check: &str) -> Result<Value> {
    let data: Value = serde_json::from_str(&said.text())?;
    let all = data["checks"].as_array().context("no checks")?;
    let found = all.iter().find(|found| found["scope"] == "cluster" && found["check"] == check);
    found.cloned().with_context(|| format!("no {check} in {data}"))
}
