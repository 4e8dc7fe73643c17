//! A member's response headers cannot act for the host's origin, its proxies or the sidecar, in any kind of
//! answer.

use anyhow::{Result, ensure};
use harness::bed::{bed, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, ok, open_web_socket, reply};
use harness::http1::{Connection, Endpoint, Head, member_path};

#[test]
fn fault_58_success_keeps_only_headers_of_the_api() -> Result<()> {
    let (fake, endpoints) = forger("success", "200 OK", JSON)?;
    for endpoint in endpoints {
        let head = get(&endpoint, &fake, "/api/v1/pods")?;
        is_clean(&head, 200)?;
        ensure!(head.value("x-of-a-program").is_none(), "{head:?}");
        ensure!(head.value("content-security-policy").is_none(), "{head:?}");
    }
    Ok(())
}

#[test]
fn fault_58_error_keeps_only_headers_of_the_api() -> Result<()> {
    for (name, status, code) in [("403", "403 Forbidden", 403), ("503", "503 Service Unavailable", 503)] {
        let (fake, endpoints) = forger(name, status, JSON)?;
        for endpoint in endpoints {
            is_clean(&get(&endpoint, &fake, "/api/v1/pods")?, code)?;
        }
    }
    Ok(())
}

#[test]
fn fault_58_refused_upgrade_keeps_only_headers_of_the_api() -> Result<()> {
    let (fake, endpoints) = forger("refused", "400 Bad Request", JSON)?;
    for endpoint in endpoints {
        let mut connection = upgrade(&endpoint, &fake)?;
        is_clean(&connection.head()?, 400)?;
    }
    Ok(())
}

#[test]
fn fault_58_program_behind_a_member_adds_only_its_own_headers() -> Result<()> {
    let (fake, endpoints) = forger("program", "201 Created", JSON)?;
    for endpoint in endpoints {
        for path in ["/api/v1/namespaces/n/services/s/proxy/x", "/api/v1/nodes/n/proxy/x"] {
            let head = get(&endpoint, &fake, path)?;
            is_clean(&head, 201)?;
            assert_eq!(head.value("x-of-a-program"), Some("1"), "{path}: {head:?}");
        }
    }
    Ok(())
}

#[test]
fn fault_58_page_of_a_member_is_sandboxed() -> Result<()> {
    for (name, content_type) in
        [("html", "Content-Type: text/html\r\n"), ("svg", "Content-Type: image/svg+xml\r\n"), ("untyped", "")]
    {
        let (fake, endpoints) = forger(name, "200 OK", content_type)?;
        for endpoint in endpoints {
            for path in ["/api/v1/pods", "/api/v1/namespaces/n/services/s/proxy/x"] {
                let head = get(&endpoint, &fake, path)?;
                is_clean(&head, 200)?;
                assert_eq!(values(&head, "content-security-policy"), ["sandbox"], "{path}: {head:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn fault_58_switch_of_protocols_keeps_only_its_handshake() -> Result<()> {
    let fake = FakeMember::start("e2e-forged-switch", |request| {
        if !request.target().contains("/exec") {
            return ok();
        }
        let Step::Send(mut head) = open_web_socket(request, "v5.channel.k8s.io") else { return ok() };
        head.truncate(head.len() - 2);
        head.extend(format!("{}\r\n", forged()).as_bytes());
        vec![Step::Send(head), Step::Send(b"frames".to_vec()), Step::ReceiveAll]
    })?;
    for endpoint in entrances(&fake.name)? {
        let mut connection = upgrade(&endpoint, &fake)?;
        let head = connection.head()?;
        assert_eq!(head.status, 101, "{head:?}");
        is_free_of_forgeries(&head)?;
        ensure!(head.value("x-of-a-program").is_none() && head.value("warning").is_none(), "{head:?}");
        for (name, value) in [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            // RFC 6455, 1.3: the answer to the key from its example.
            ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            ("sec-websocket-protocol", "v5.channel.k8s.io"),
        ] {
            assert_eq!(values(&head, name), [value], "{head:?}");
        }
        assert_eq!(connection.exactly(6)?, b"frames");
    }
    Ok(())
}

#[test]
fn fault_58_only_errors_of_the_sidecar_name_a_hop() -> Result<()> {
    let unknown = Endpoint::sidecar(sidecar()?, None)?;
    let answer = unknown
        .exchange(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", member_path("m1", "/version")).as_bytes())?;
    assert_eq!(values(&answer.head, HOP), ["host authentication"], "{answer:?}");
    let name = "e2e-forged-nobody";
    for endpoint in entrances(name)? {
        let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", member_path(name, "/api/v1/pods"));
        let answer = endpoint.exchange(request.as_bytes())?;
        assert_eq!(values(&answer.head, HOP), ["cluster unknown"], "{answer:?}");
    }
    Ok(())
}

/// A member that sends forged headers with each answer, and the entrances to it.
fn forger(
    name: &str,
    status: &'static str,
    content_type: &'static str,
) -> Result<(FakeMember, Vec<Endpoint>)> {
    let name = format!("e2e-forged-{name}");
    let fake = FakeMember::start(&name, move |request| match request.target() {
        "/readyz" | "/version" => ok(),
        _ => reply(status, &format!("{content_type}{}", forged()), "{}"),
    })?;
    Ok((fake, entrances(&name)?))
}

fn forged() -> String {
    let own = [("warning", "299 - \"kept\""), ("x-of-a-program", "1")];
    FORGED.iter().chain(&own).map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

/// Checks that a member's answer has no forged header, names the member as its hop, and forbids sniffing.
fn is_clean(head: &Head, status: u16) -> Result<()> {
    assert_eq!(head.status, status, "{head:?}");
    is_free_of_forgeries(head)?;
    assert_eq!(values(head, HOP), ["member"], "{head:?}");
    assert_eq!(values(head, "x-content-type-options"), ["nosniff"], "{head:?}");
    assert_eq!(head.value("warning"), Some("299 - \"kept\""), "{head:?}");
    Ok(())
}

fn is_free_of_forgeries(head: &Head) -> Result<()> {
    for (name, value) in FORGED {
        ensure!(!values(head, name).contains(value), "{name} passed: {head:?}");
    }
    Ok(())
}

fn values<'a>(head: &'a Head, name: &str) -> Vec<&'a str> {
    head.lines.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
}

fn get(endpoint: &Endpoint, fake: &FakeMember, path: &str) -> Result<Head> {
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", member_path(&fake.name, path));
    Ok(endpoint.exchange(request.as_bytes())?.head)
}

fn upgrade(endpoint: &Endpoint, fake: &FakeMember) -> Result<Connection> {
    let mut connection = endpoint.connect()?;
    let path = member_path(&fake.name, "/api/v1/namespaces/n/pods/p/exec");
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{WEB_SOCKET}\r\n").as_bytes())?;
    Ok(connection)
}

/// The sidecar's own port and the host's, as an administrator.
fn entrances(name: &str) -> Result<Vec<Endpoint>> {
    let admin = Caller::certificate(&format!("{name}-admin"), &["system:masters"])?;
    let certificate = admin.certificate.as_deref();
    Ok(vec![Endpoint::sidecar(sidecar()?, certificate)?, Endpoint::cluster(&bed()?.host, certificate)?])
}

const HOP: &str = "x-kubectl-mc-hop";
const JSON: &str = "Content-Type: application/json\r\n";
const WEB_SOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n";
/// Headers with which a member could deceive browsers, proxies and clients of the host. None of
/// them redirects without a redirect status, and the sidecar refuses such statuses.
const FORGED: &[(&str, &str)] = &[
    ("accept-ch", "Sec-CH-UA"),
    ("access-control-allow-credentials", "true"),
    ("access-control-allow-origin", "*"),
    ("alt-svc", "h3=\":443\""),
    ("clear-site-data", "\"*\""),
    ("content-security-policy", "default-src *"),
    ("impersonate-user", "admin"),
    ("link", "</x>; rel=preload; as=script"),
    ("location", "https://evil.example/"),
    ("nel", "{}"),
    ("refresh", "0; url=https://evil.example/"),
    ("report-to", "{}"),
    ("service-worker-allowed", "/"),
    ("set-cookie", "session=stolen; Path=/"),
    ("strict-transport-security", "max-age=31536000"),
    ("www-authenticate", "Basic realm=\"host\""),
    ("x-accel-redirect", "/etc/passwd"),
    ("x-content-type-options", "sniff"),
    ("x-kubectl-mc-hop", "host authentication"),
    ("x-remote-group", "system:masters"),
    ("x-remote-user", "admin"),
];
