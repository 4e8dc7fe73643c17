//! The caller's credential never leaves the host, and the member's never leaves the sidecar.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::bed::{SYSTEM, bed, host, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, ok, reply};
use harness::http1::{Endpoint, Response, member_path, plain_get};
use harness::own_fleet::OwnFleet;
use harness::own_sidecar::Difference;
use harness::scene::{EVERY_VERB, Scene};
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::plugin;

#[test]
fn fault_16_callers_token_never_reaches_a_member() -> Result<()> {
    let fake = FakeMember::start("e2e-token-stays", |_| ok())?;
    let caller = Caller::token("ulrike")?;
    Scene::on("m2", "token-stays")?.let_in(&caller, &[&fake.name], EVERY_VERB)?;
    let path = member_path(&fake.name, "/asked");
    // The token as browsers send it: base64url("ulrike-token") as a WebSocket subprotocol.
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
fn member_token_is_in_no_answer_log_or_metric() -> Result<()> {
    // A member that fails in every way that could appear in an error message.
    let fake =
        FakeMember::unregistered("e2e-token-kept", |request| match request.target().rsplit('/').next() {
            Some("unauthorized") => reply("401 Unauthorized", "WWW-Authenticate: Bearer\r\n", "who are you?"),
            Some("forbidden") => reply("403 Forbidden", "", "cannot impersonate"),
            Some("redirect") => reply("302 Found", "Location: https://elsewhere.example/\r\n", ""),
            Some("garbage") => vec![Step::Send(b"this is no HTTP\r\n\r\n".to_vec()), Step::Close],
            Some("close") => vec![Step::Close],
            _ => ok(),
        })?;
    let admin = Caller::certificate("e2e-token-kept-admin", &["system:masters"])?;
    let fleet = OwnFleet::new("token-kept")?;
    // The default level, then all messages of our own crates, then also those of libraries.
    for (number, log) in
        ["info", "info,mc_sidecar=trace,sidecar=trace,kubectl_mc_api=trace", "trace"].into_iter().enumerate()
    {
        // A second token replaces the first while the sidecar runs.
        let tokens = [0, 1].map(|turn| format!("Kb7-secret-{number}{turn}-of-the-member"));
        fleet.register(&fake.name, &fake.secret(&json!({"token": tokens[0]})))?;
        let own = fleet.sidecar_with(&Difference { log: Some(log), ..Difference::default() })?;
        let endpoint = own.endpoint(admin.certificate.as_deref())?;
        let mut shown = vec![];
        for (turn, token) in tokens.iter().enumerate() {
            fleet.register(&fake.name, &fake.secret(&json!({"token": token})))?;
            let arrives = format!("/arrives/{number}{turn}");
            eventually("the token is in use", SOON, || {
                let path = member_path(&fake.name, &arrives);
                let answer =
                    endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
                let bearer = format!("Bearer {token}");
                let last = fake.requests(&arrives).pop().with_context(|| format!("{answer:?}"))?;
                Ok((last.values("authorization") == [bearer.as_str()]).then_some(()))
            })?;
            for way in ["fine", "unauthorized", "forbidden", "redirect", "garbage", "close", "version"] {
                for headers in ["", UPGRADE] {
                    let path = member_path(&fake.name, &format!("/{way}"));
                    let mut connection = endpoint.connect()?;
                    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())?;
                    shown.push((
                        format!("the answer {way} {headers}"),
                        format!("{:?}", connection.response()),
                    ));
                }
            }
            fleet.until(&fake.name, "Reachable", "True", "Answers")?;
        }
        let metrics = plain_get(&own.sidecar.admin, "/metrics")?;
        ensure!(metrics.status() == 200, "no metrics: {}", metrics.text());
        shown.push(("the metrics".to_owned(), metrics.text()));
        for path in [
            format!("/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{}", fake.name),
            format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{}", fake.name),
            "/apis/events.k8s.io/v1/events".to_owned(),
            format!("/api/v1/namespaces/{}/configmaps", fleet.namespace),
            format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", fleet.namespace),
        ] {
            shown.push((path.clone(), fleet.host.get(&path)?.to_string()));
        }
        let text = own.log()?;
        let more = text.contains(r#""level":"TRACE""#) || text.contains(r#""level":"DEBUG""#);
        ensure!(more == (log != "info"), "{log:?} is not what is logged");
        shown.push((format!("the log of {log:?}"), text));
        for (place, text) in shown {
            // In plain text, and in base64 as in the host's Secret.
            for secret in tokens.iter().flat_map(|token| [token.clone(), STANDARD.encode(token)]) {
                ensure!(!text.contains(&secret), "{place} holds it: {}", around(&text, &secret));
            }
        }
    }
    Ok(())
}

/// Metrics name members. The bed's admin port is not on a loopback address, as in the manifests.
#[test]
fn metrics_are_for_authorized_callers_only() -> Result<()> {
    let get = |caller: Option<&Caller>| -> Result<Response> {
        let certificate = caller.and_then(|caller| caller.certificate.as_deref());
        let endpoint = Endpoint::sidecar(sidecar()?, certificate)?;
        endpoint.exchange(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    };
    let stranger = Caller::certificate("e2e-metrics-stranger", &["e2e-metrics-strangers"])?;
    let admin = Caller::certificate("e2e-metrics-admin", &["system:masters"])?;
    assert_eq!(get(None)?.status(), 401);
    assert_eq!(get(Some(&stranger))?.status(), 403);
    let metrics = get(Some(&admin))?;
    ensure!(metrics.status() == 200 && metrics.text().contains("mc_sidecar_"), "{}", metrics.text());
    let plain = plain_get(&sidecar()?.admin, "/metrics")?;
    ensure!(plain.status() == 404 && !plain.text().contains("mc_sidecar_"), "{}", plain.text());
    Ok(())
}

#[test]
fn member_that_refuses_the_sidecars_token_is_503() -> Result<()> {
    let fake = FakeMember::start("e2e-unauthorized", |_| {
        reply("401 Unauthorized", "WWW-Authenticate: Bearer realm=\"member\"\r\n", "{}")
    })?;
    let admin = Caller::certificate("e2e-unauthorized-admin", &["system:masters"])?;
    // With a 401 kubectl would ask the caller for another credential.
    let endpoint = Endpoint::cluster(&bed()?.host, admin.certificate.as_deref())?;
    let path = member_path(&fake.name, "/api/v1/pods");
    let answer = endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert!(answer.head.value("www-authenticate").is_none(), "{:?}", answer.head);
    assert!(answer.text().contains("member authentication"), "{}", answer.text());
    Ok(())
}

#[test]
fn member_without_a_credential_has_its_own_error() -> Result<()> {
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

const UPGRADE: &str =
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n";

/// The first line of a text that contains a word.
fn around<'a>(text: &'a str, word: &str) -> &'a str {
    text.lines().find(|line| line.contains(word)).unwrap_or_default()
}
