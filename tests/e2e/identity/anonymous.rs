//! Requests without a credential are refused by default, and authorized by RBAC with `--anonymous-auth`.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::bed::{bed, host, sidecar};
use harness::fake_member::{FakeMember, ok};
use harness::http1::{Endpoint, Response, member_path};
use harness::http2::Http2;
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn by_default_only_the_host_accepts_anonymous_requests() -> Result<()> {
    let fake = FakeMember::start("e2e-anonymous-host", |_| ok())?;
    let direct = get(&Endpoint::sidecar(sidecar()?, None)?, &fake, "/direct")?;
    ensure!(direct.status() == 401, "{} {}", direct.status(), direct.text());
    let host = get(&Endpoint::cluster(&bed()?.host, None)?, &fake, "/host")?;
    // The host authenticates the request as a user without rights.
    ensure!(host.status() == 403, "{} {}", host.status(), host.text());
    ensure!(host.text().contains("system:anonymous"), "{}", host.text());
    Ok(())
}

#[test]
fn refused_http2_login_is_answered_and_connection_closes() -> Result<()> {
    let mut http2 = Http2::connect(&Endpoint::sidecar(sidecar()?, None)?)?;
    let asked = Instant::now();
    let stream = http2.get(&member_path("m2", "/api"), &[("authorization", "Bearer wrong")])?;
    // For kubectl's discovery calls, the sidecar answers 403 instead of 401, with a text.
    ensure!(http2.answer(stream)?.status == Some(403), "not refused");
    ensure!(http2.end()? == Some(0), "no goodbye");
    // A connection without a successful login ends after a minute in any case.
    ensure!(asked.elapsed() < Duration::from_secs(30), "it took {:?}", asked.elapsed());
    Ok(())
}

#[test]
fn anonymous_auth_forwards_system_anonymous_if_rbac_allows() -> Result<()> {
    let own = OwnSidecar::with(&Difference { flags: &["--anonymous-auth"], ..Difference::default() })?;
    let fake = FakeMember::start("e2e-anonymous", |_| ok())?;
    let endpoint = own.endpoint(None)?;
    let refused = get(&endpoint, &fake, "/refused")?;
    ensure!(refused.status() == 403, "{} {}", refused.status(), refused.text());
    ensure!(refused.text().contains("system:anonymous"), "{}", refused.text());

    let (role, group) = ("e2e-anonymous", "rbac.authorization.k8s.io");
    let path = |kind: &str| format!("/apis/{group}/v1/{kind}/{role}");
    let rule = json!({
        "apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters/proxy"],
        "resourceNames": [fake.name], "verbs": ["get"],
    });
    host()?.apply(
        &path("clusterroles"),
        &json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": role},
            "rules": [rule]}),
    )?;
    host()?.apply(
        &path("clusterrolebindings"),
        &json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": role},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:unauthenticated"}]}),
    )?;
    // The sidecar caches a refusal for 10 s.
    eventually("anonymous is let in", SOON, || {
        Ok((get(&endpoint, &fake, "/allowed")?.status() == 200).then_some(()))
    })?;
    let arrived = fake.wait_for("/allowed", |_| true)?;
    ensure!(arrived.values("impersonate-user") == ["system:anonymous"], "{}", arrived.head);
    // The member adds system:unauthenticated by itself.
    ensure!(arrived.values("impersonate-group").is_empty(), "{}", arrived.head);

    let wrong = "Authorization: Bearer wrong\r\n";
    let path = member_path(&fake.name, "/wrong");
    let answer = endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{wrong}\r\n").as_bytes())?;
    ensure!(answer.status() == 401, "a wrong token is not none: {}", answer.text());
    Ok(())
}

fn get(endpoint: &Endpoint, fake: &FakeMember, rest: &str) -> Result<Response> {
    let path = member_path(&fake.name, rest);
    endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
}
