//! The port of the authorization webhook answers only the host's kube-apiserver, and no client
//! holds a place for long.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::front_proxy;
use harness::http1::Endpoint;
use harness::own_sidecar::{Difference, OwnSidecar};
use serde_json::{Value, json};
use testbed::ClientCertificate;

/// A sidecar whose webhook accepts the host's front proxy, which is the default.
struct Webhook {
    own: OwnSidecar,
    port: u16,
}

impl Webhook {
    fn start() -> Result<Self> {
        let port = TcpListener::bind((harness::bed::bed()?.address, 0))?.local_addr()?.port();
        let flag = format!("--authorization-webhook-port={port}");
        let own = OwnSidecar::with(&Difference { flags: &[&flag], ..Difference::default() })?;
        Ok(Self { own, port })
    }

    fn endpoint(&self, certificate: Option<&ClientCertificate>) -> Result<Endpoint> {
        let endpoint = self.own.endpoint(certificate)?;
        let mut address = endpoint.address();
        address.set_port(self.port);
        Ok(endpoint.at(address))
    }

    /// The host's kube-apiserver.
    fn host(&self) -> Result<Endpoint> {
        self.endpoint(Some(&front_proxy::certificate()?))
    }
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn review() -> String {
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:karmada:agent:a", "groups": ["system:karmada:agents"],
            "resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "karmada-cluster", "name": "b"},
        },
    })
    .to_string()
}

#[test]
fn only_the_hosts_kube_apiserver_is_answered() -> Result<()> {
    let webhook = Webhook::start()?;
    let answer = webhook.host()?.exchange(&post("/authorize", &review()))?;
    let denied: Value = serde_json::from_slice(&answer.body).context("no JSON")?;
    ensure!(answer.status() == 200 && denied["status"]["denied"] == true, "{}", answer.text());
    let strangers = [
        None,
        Some(front_proxy::called("kube-apiserver")?),
        Some(front_proxy::called("")?),
        Some(front_proxy::expired()?),
        Some(front_proxy::of_a_stranger()?),
        // A user of the host, whose certificate is valid on the secure port.
        Some(harness::bed::bed()?.host.client_certificate("front-proxy-client", &["system:masters"])?),
    ];
    let number = strangers.len();
    for stranger in strangers {
        let answer = webhook.endpoint(stranger.as_ref())?.exchange(&post("/authorize", &review()));
        ensure!(answer.is_err(), "a stranger was answered: {}", answer?.text());
    }
    let refused = webhook.own.metric("mc_sidecar_authorization_webhook_connections_refused_total")?;
    ensure!(refused >= number as f64 - 1.0, "{refused} refused");
    // The webhook exists only on its own port, which serves nothing else.
    let secure = webhook.own.endpoint(Some(&front_proxy::certificate()?))?;
    ensure!(secure.exchange(&post("/authorize", &review()))?.status() != 200);
    for path in ["/", "/metrics", "/authorize/", "/authorize?x=1/..", "/apis", "//authorize"] {
        let status = webhook.host()?.exchange(&post(path, &review()))?.status();
        ensure!(status == 404 || path.starts_with("/authorize?"), "{path}: {status}");
    }
    let get = b"GET /authorize HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    ensure!(webhook.host()?.exchange(get)?.status() == 405);
    Ok(())
}

#[test]
fn malformed_and_endless_reviews_are_cut_off() -> Result<()> {
    let webhook = Webhook::start()?;
    for garbage in ["", "\0\0\0", "{\"kind\":", "[[[[", &"x".repeat(100_000)] {
        ensure!(webhook.host()?.exchange(&post("/authorize", garbage))?.status() == 400);
    }
    // This is more than a review may have.
    let mut connection = webhook.host()?.connect()?;
    connection.send(b"POST /authorize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    let chunk = format!("10000\r\n{}\r\n", "y".repeat(0x10000));
    let sent = connection.send_until_held_back(chunk.as_bytes(), 64 << 20, Duration::from_secs(2));
    if let Ok(sent) = sent {
        ensure!(sent < 32 << 20, "{sent} bytes of one review were read");
    }
    // A body that stops.
    let mut slow = webhook.host()?.connect()?;
    slow.send(b"POST /authorize HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"kind\":")?;
    let begun = Instant::now();
    ensure!(slow.head()?.status == 408, "a review that stopped was waited for");
    ensure!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    // A head that stops.
    let mut slow = webhook.host()?.connect()?;
    slow.send(b"POST /authorize HTTP/1.1\r\nHost: ")?;
    slow.set_patience(Duration::from_secs(60))?;
    let begun = Instant::now();
    ensure!(slow.head().map_or(true, |head| head.status == 408), "a head that stopped was answered");
    ensure!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    ensure!(webhook.host()?.exchange(&post("/authorize", &review()))?.status() == 200, "it answers no more");
    Ok(())
}

#[test]
fn flood_of_strangers_delays_no_request_of_the_host() -> Result<()> {
    let webhook = Webhook::start()?;
    let stranger = webhook.endpoint(None)?;
    // Connections that never begin a handshake.
    let _held: Vec<_> = (0..1500).map_while(|_| stranger.dial().ok()).collect();
    for _ in 0..20 {
        let begun = Instant::now();
        ensure!(webhook.host()?.exchange(&post("/authorize", &review()))?.status() == 200);
        ensure!(begun.elapsed() < HANDSHAKE_TIMEOUT / 2, "the host waited {:?}", begun.elapsed());
    }
    Ok(())
}

/// The webhooks close a connection without a handshake after this time. A caller without a place
/// waits that long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
