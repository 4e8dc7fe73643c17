//! The caller's credential stays at the host, the member's stays in the sidecar.

use anyhow::{Context, Result, ensure};
use harness::bed::{SYSTEM, bed, host, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, ok, reply};
use harness::http1::{Endpoint, member_path, plain_get};
use harness::scene::{EVERY_VERB, Scene};

use crate::plugin;

#[test]
fn fault_16_the_callers_token_never_reaches_a_member() -> Result<()> {
    let fake = FakeMember::start("e2e-token-stays", |_| ok())?;
    let caller = Caller::token("ulrike")?;
    Scene::on("m2", "token-stays")?.let_in(&caller, &[&fake.name], EVERY_VERB)?;
    let path = member_path(&fake.name, "/asked");
    // The token as browsers bring it: base64url("ulrike-token") as a WebSocket subprotocol.
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io, \
                     base64url.bearer.authorization.k8s.io.dWxyaWtlLXRva2Vu\r\n";
    for endpoint in [Endpoint::sidecar(sidecar()?, None)?, Endpoint::cluster(&bed()?.host, None)?] {
        for credential in [caller.authorization().as_str(), websocket] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{credential}\r\n");
            endpoint.connect()?.send(request.as_bytes())?;
            let mut connection = endpoint.connect()?;
            connection.send(request.as_bytes())?;
            connection.head()?;
        }
    }
    let requests = fake.requests("/asked");
    ensure!(!requests.is_empty(), "nothing arrived at all");
    for request in requests {
        let head = &request.head;
        ensure!(!head.contains("ulrike-token") && !head.contains("dWxyaWtlLXRva2Vu"), "{head}");
        ensure!(!head.contains("base64url.bearer"), "{head}");
    }
    Ok(())
}

#[test]
fn a_members_token_is_in_no_answer_log_or_metric() -> Result<()> {
    // A member that fails in every way an error message could be made of.
    let fake = FakeMember::start("e2e-token-kept", |request| match request.target().rsplit('/').next() {
        Some("unauthorized") => reply("401 Unauthorized", "WWW-Authenticate: Bearer\r\n", "who are you?"),
        Some("forbidden") => reply("403 Forbidden", "", "cannot impersonate"),
        Some("redirect") => reply("302 Found", "Location: https://elsewhere.example/\r\n", ""),
        Some("garbage") => vec![Step::Send(b"this is no HTTP\r\n\r\n".to_vec()), Step::Close],
        Some("close") => vec![Step::Close],
        _ => ok(),
    })?;
    let admin = Caller::certificate("e2e-token-kept-admin", &["system:masters"])?;
    let endpoint = Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())?;
    for way in ["fine", "unauthorized", "forbidden", "redirect", "garbage", "close"] {
        let path = member_path(&fake.name, &format!("/{way}"));
        let answer = endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        ensure!(
            !format!("{:?} {}", answer.head, answer.text()).contains(&fake.token),
            "{way}: {}",
            answer.text()
        );
    }
    let log = std::fs::read_to_string(&sidecar()?.log)?;
    ensure!(!log.contains(&fake.token), "the log holds it");
    let metrics = plain_get(&sidecar()?.admin, "/metrics")?;
    ensure!(metrics.status() == 200, "no metrics: {}", metrics.text());
    ensure!(!metrics.text().contains(&fake.token), "a metric holds it");
    let cluster = host()?.get(&format!("/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{}", fake.name))?;
    ensure!(!cluster.to_string().contains(&fake.token), "the inventory holds it");
    Ok(())
}

#[test]
fn a_member_that_refuses_our_credential_is_not_the_callers_fault() -> Result<()> {
    let fake = FakeMember::start("e2e-unauthorized", |_| {
        reply("401 Unauthorized", "WWW-Authenticate: Bearer realm=\"member\"\r\n", "{}")
    })?;
    let admin = Caller::certificate("e2e-unauthorized-admin", &["system:masters"])?;
    // A bare 401 would make kubectl ask the caller for another credential.
    let endpoint = Endpoint::cluster(&bed()?.host, admin.certificate.as_deref())?;
    let path = member_path(&fake.name, "/api/v1/pods");
    let answer = endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert!(answer.head.value("www-authenticate").is_none(), "{:?}", answer.head);
    assert!(answer.text().contains("member authentication"), "{}", answer.text());
    Ok(())
}

#[test]
fn a_member_without_a_credential_has_its_own_error() -> Result<()> {
    let fake = FakeMember::start("e2e-no-credential", |_| ok())?;
    let admin = Caller::certificate("e2e-no-credential-admin", &["system:masters"])?;
    host()?.delete(&format!("/api/v1/namespaces/{SYSTEM}/secrets/e2e-no-credential.member"))?;
    let plugin = plugin(&admin)?.with(&["--cluster=e2e-no-credential"]);
    harness::wait::eventually("the proxy is off", harness::wait::SOON, || {
        let error = plugin.run(&["get", "pods"])?.failure(&["e2e-no-credential"])?;
        Ok(error.contains("proxy off").then_some(()))
    })
    .with_context(|| format!("{} requests arrived", fake.requests("/").len()))
}
