//! The port of the admission webhooks, whose callers need no certificate, limits bodies and
//! connections, and a flood there takes no places on the secure port.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::front_proxy;
use harness::http1::Endpoint;
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};
use testbed::ClientCertificate;

struct Port {
    own: OwnSidecar,
    port: u16,
}

impl Port {
    fn start() -> Result<Self> {
        let port = TcpListener::bind((harness::bed::bed()?.address, 0))?.local_addr()?.port();
        let flag = format!("--admission-webhook-port={port}");
        let own = OwnSidecar::with(&Difference { flags: &[&flag], ..Difference::default() })?;
        Ok(Self { own, port })
    }

    fn endpoint(&self, certificate: Option<&ClientCertificate>) -> Result<Endpoint> {
        let endpoint = self.own.endpoint(certificate)?;
        let mut address = endpoint.address();
        address.set_port(self.port);
        Ok(endpoint.at(address))
    }

    fn status(&self, request: &[u8]) -> Result<u16> {
        Ok(self.endpoint(None)?.exchange(request)?.status())
    }
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn review() -> String {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "resource": {"group": "", "version": "v1", "resource": "secrets"},
            "userInfo": {"username": "system:karmada:agent:a", "groups": ["system:karmada:agents"]},
            "object": {"metadata": {"name": "a"}},
        },
    })
    .to_string()
}

#[test]
fn webhooks_answer_reviews_and_nothing_else() -> Result<()> {
    let port = Port::start()?;
    let answer = port.endpoint(None)?.exchange(&post("/owner", &review()))?;
    let answered: Value = serde_json::from_slice(&answer.body)?;
    ensure!(answered["response"]["allowed"] == true, "{answered}");
    for path in ["/", "/metrics", "/authorize", "/owner/", "//owner", "/healthz", "/apis", "/debug/config"] {
        ensure!(port.status(&post(path, &review()))? == 404, "{path}");
    }
    ensure!(port.status(b"GET /owner HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")? == 405);
    for garbage in ["", "\0\0\0", "{\"kind\":", &"[".repeat(50_000)] {
        for path in ["/owner", "/enrollment"] {
            ensure!(port.status(&post(path, garbage))? == 400, "{path}");
        }
    }
    // The secure port has no such path.
    ensure!(port.own.endpoint(None)?.exchange(&post("/owner", &review()))?.status() != 200);
    Ok(())
}

#[test]
fn bodies_of_unknown_callers_are_bounded() -> Result<()> {
    let port = Port::start()?;
    let chunked = b"POST /owner HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    ensure!(port.endpoint(None)?.exchange(chunked)?.status() == 411);
    let head = |path: &str, length: usize| {
        format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{{").into_bytes()
    };
    for (path, length) in [("/enrollment", 65_537), ("/owner", (4 << 20) + 1), ("/owner", usize::MAX / 2)] {
        let mut connection = port.endpoint(None)?.connect()?;
        connection.send(&head(path, length))?;
        let chunk = "y".repeat(0x10000);
        let sent = connection.send_until_held_back(chunk.as_bytes(), 64 << 20, Duration::from_secs(2));
        ensure!(sent.unwrap_or_default() < 16 << 20, "{path}: a body of {length} bytes was read");
    }
    // Large bodies that stop: the sidecar holds a limited number, each for a short time.
    let begun = Instant::now();
    let mut held = Vec::new();
    for _ in 0..16 {
        let mut connection = port.endpoint(None)?.connect()?;
        connection.send(&head("/owner", 1 << 20))?;
        held.push(connection);
    }
    eventually("no more large bodies are read", SOON, || {
        let mut one_more = port.endpoint(None)?.connect()?;
        one_more.send(&head("/owner", 1 << 20))?;
        Ok((one_more.head()?.status == 503).then_some(()))
    })?;
    ensure!(port.status(&post("/owner", &review()))? == 200, "a small review waits for large ones");
    for connection in &mut held {
        ensure!(connection.head()?.status == 408, "a body that stopped was waited for");
    }
    ensure!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let large = review()
        .replace("\"a\"}}", &format!("\"a\", \"labels\": {{\"x\": \"{}\"}}}}}}", "y".repeat(1 << 20)));
    ensure!(port.status(&post("/owner", &large))? == 200, "a large object is refused");
    Ok(())
}

#[test]
fn flood_delays_neither_the_host_nor_the_secure_port() -> Result<()> {
    let port = Port::start()?;
    let stranger = port.endpoint(None)?;
    // Connections that never begin a handshake, and connections that never send a request.
    let held: Vec<_> = (0..1200).map_while(|_| stranger.dial().ok()).collect();
    let asking: Vec<_> = (0..100).map_while(|_| stranger.connect().ok()).collect();
    for _ in 0..20 {
        let begun = Instant::now();
        let host = port.endpoint(Some(&front_proxy::certificate()?))?;
        ensure!(host.exchange(&post("/owner", &review()))?.status() == 200);
        ensure!(
            port.own
                .endpoint(None)?
                .exchange(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                .is_ok()
        );
        ensure!(begun.elapsed() < HANDSHAKE_TIMEOUT / 2, "they waited {:?}", begun.elapsed());
    }
    drop((held, asking));
    eventually("places are free again", SOON, || {
        Ok((port.status(&post("/owner", &review()))? == 200).then_some(()))
    })
}

/// The webhooks close a connection without a handshake after this time. A caller without a place
/// waits that long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
