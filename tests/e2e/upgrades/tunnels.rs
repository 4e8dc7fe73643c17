//! An open tunnel carries any bytes in any pieces, and its end reaches both sides. The sidecar does not parse
//! the bytes, so no content can disturb it.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, open_web_socket, reply};
use harness::http1::{Connection, Endpoint, member_path};
use harness::noise::{MEBIBYTE, noise, sha256};
use harness::own_sidecar::OwnSidecar;
use harness::usage;
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn fault_64_bytes_arrive_unchanged_in_any_pieces() -> Result<()> {
    let fake = FakeMember::start("e2e-tunnel-pieces", |_| switched(vec![Step::Echo]))?;
    let mut tunnel = open(&direct("pieces")?, &fake)?;
    let message = noise(64, 64);
    for boundary in 0..=message.len() {
        let (first, second) = message.split_at(boundary);
        tunnel.send(first)?;
        tunnel.send(second)?;
        assert_eq!(tunnel.exactly(message.len())?, message, "split at {boundary}");
    }
    let single = noise(65, 2000);
    single.iter().try_for_each(|byte| tunnel.send(&[*byte]))?;
    assert_eq!(tunnel.exactly(single.len())?, single);
    Ok(())
}

#[test]
fn fault_64_message_of_16_mib_arrives_whole_both_ways() -> Result<()> {
    let (up, down) = (noise(66, 16 * MEBIBYTE), noise(67, 16 * MEBIBYTE));
    let sent = down.clone();
    let fake = FakeMember::start("e2e-tunnel-large", move |_| {
        switched(vec![Step::Receive(16 * MEBIBYTE), Step::Send(sent.clone()), Step::ReceiveAll])
    })?;
    let mut tunnel = open(&direct("large")?, &fake)?;
    tunnel.send(&up)?;
    assert_eq!(sha256(&tunnel.exactly(down.len())?), sha256(&down));
    tunnel.finish()?;
    let arrived = fake.wait_for("/tunnel", |request| request.ended)?;
    assert_eq!(sha256(&arrived.received), sha256(&up));
    Ok(())
}

#[test]
fn fault_65_end_of_one_side_closes_the_other() -> Result<()> {
    let fake = FakeMember::start("e2e-tunnel-gone", |_| {
        switched(vec![Step::Receive(1), Step::Send(b"unread".to_vec()), Step::ReceiveAll])
    })?;
    let own = OwnSidecar::start()?;
    let endpoint = own.endpoint(admin("gone")?.certificate.as_deref())?;
    let files = usage::open_files(own.pid())?;

    // A killed client: its kernel closes without a TLS close_notify.
    let mut killed = open(&endpoint, &fake)?;
    killed.send(b"?")?;
    killed.exactly(6)?;
    drop(killed);
    // A client with unread bytes, whose kernel resets the connection.
    let mut reset = open(&endpoint, &fake)?;
    reset.send(b"?")?;
    reset.socket().set_nonblocking(true)?;
    eventually("something is unread", SOON, || match reset.socket().peek(&mut [0]) {
        Ok(1) => Ok(Some(())),
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error.into()),
        _ => Ok(None),
    })?;
    drop(reset);
    eventually("the member is told of both", AT_ONCE, || {
        let requests = fake.requests("/tunnel");
        Ok((requests.len() == 2 && requests.iter().all(|request| request.ended)).then_some(()))
    })?;

    // A killed member.
    let mut left = open(&endpoint, &fake)?;
    left.send(b"?")?;
    left.exactly(6)?;
    drop(fake);
    left.set_patience(AT_ONCE)?;
    assert_eq!(left.rest()?, b"");
    drop(left);
    eventually("nothing is left of them", SOON, || {
        let (tunnels, open) = (own.metric("mc_sidecar_tunnels ")?, usage::open_files(own.pid())?);
        ensure!(tunnels == 0.0 && open <= files, "{tunnels} tunnels, {open} files after {files}");
        Ok(Some(()))
    })
}

#[test]
fn fault_65_endless_stream_ends_with_its_client() -> Result<()> {
    let fake = FakeMember::start("e2e-tunnel-endless", |_| {
        switched(vec![Step::Receive(1), Step::Repeat(noise(65, 64 * 1024), usize::MAX)])
    })?;
    let own = OwnSidecar::start()?;
    let mut client = open(&own.endpoint(admin("endless")?.certificate.as_deref())?, &fake)?;
    client.send(b"?")?;
    client.exactly(MEBIBYTE)?;
    drop(client);
    eventually("the tunnel has ended, and the member knows it", Duration::from_secs(5), || {
        let open = own.metric("mc_sidecar_tunnels ")?;
        Ok((open == 0.0 && fake.requests("/tunnel")[0].ended).then_some(()))
    })
}

#[test]
fn fault_68_invalid_websocket_frames_pass_unchanged() -> Result<()> {
    let ping = [0x89, 0x80, 1, 2, 3, 4];
    pass(
        "websocket",
        &[
            ping.repeat(10_000),
            vec![0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe], // text that is not UTF-8
            vec![0x82, 0x03, 1, 2, 3],                // a client's frame without a mask
            vec![0xf2, 0x81, 0, 0, 0, 0, 1],          // reserved bits
            vec![0x8f, 0x80, 0, 0, 0, 0],             // an unknown opcode
            vec![0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], // a length of 2^64 - 1
        ],
    )
}

#[test]
fn fault_69_unknown_channels_pass_unchanged() -> Result<()> {
    pass(
        "channels",
        &[
            vec![0x82, 0x81, 0, 0, 0, 0, 255],       // CLOSE without a channel
            vec![0x82, 0x83, 0, 0, 0, 0, 255, 0, 1], // CLOSE of two channels
            vec![0x82, 0x82, 0, 0, 0, 0, 9, b'x'],   // channel 9
            vec![0x82, 0x80, 0, 0, 0, 0],            // no channel
        ],
    )
}

#[test]
fn fault_70_cve_2026_35469_invalid_spdy_frames_pass_unchanged() -> Result<()> {
    pass(
        "spdy",
        &[
            vec![0x80, 3, 0, 4, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff], // SETTINGS of 2^32 - 1 entries
            vec![0x80, 3, 0, 1, 0, 0, 0, 14, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0], // a header of 2^31 bytes
            vec![0x80, 3, 0, 1, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],                // stream 0
            [[0x80, 3, 0, 1, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]; 2].concat(),      // a stream twice
            vec![0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, b'x'], // data after the end
            [&[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff][..], &[0x78, 0xf9, 0, 0, 0, 0], &noise(70, 64 * 1024)]
                .concat(),
        ],
    )
}

#[test]
fn fault_71_malformed_websocket_token_is_refused() -> Result<()> {
    let fake = FakeMember::start("e2e-tunnel-token", |_| vec![Step::ReceiveAll])?;
    let nobody = Endpoint::sidecar(sidecar()?, None)?;
    let path = member_path(&fake.name, "/tunnel");
    // base64url("ulrike-token"): ulrike has a token of the host.
    let token = "base64url.bearer.authorization.k8s.io.dWxyaWtlLXRva2Vu";
    for protocols in [
        format!("v5.channel.k8s.io, {token}, {token}"),
        token.to_owned(),
        "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.!!!".to_owned(),
        "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.dWxyaWtlLXRva2Vu=".to_owned(),
        "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.".to_owned(),
        "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io._w".to_owned(), // 0xff
    ] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {protocols}\r\n\r\n"
        );
        assert_eq!(nobody.exchange(request.as_bytes())?.status(), 401, "{protocols}");
    }
    assert_eq!(fake.requests("/tunnel").len(), 0);
    Ok(())
}

#[test]
fn fault_72_truncated_status_is_not_a_success() -> Result<()> {
    let whole = r#"{"metadata":{},"status":"Success"}"#;
    for (name, status, succeeds) in [("whole", whole, true), ("cut", &whole[..20], false)] {
        let fake = FakeMember::start(&format!("e2e-tunnel-status-{name}"), move |request| {
            let target = request.target().split('?').next().unwrap_or_default();
            match target.rsplit('/').next().unwrap_or_default() {
                "api" => json_reply(&json!({"kind": "APIVersions", "versions": ["v1"]})),
                "apis" => json_reply(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})),
                "v1" => json_reply(&json!({
                    "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [
                        {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["get"]},
                    ],
                })),
                "shell" => json_reply(&json!({
                    "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "shell", "namespace": "default"},
                    "spec": {"containers": [{"name": "main", "image": "x"}]}, "status": {"phase": "Running"},
                })),
                // Channel 3, which carries the exit status, and then the WebSocket's own end.
                "exec" => {
                    let mut frames = vec![0x82, status.len() as u8 + 1, 3];
                    frames.extend(status.as_bytes());
                    frames.extend([0x88, 2, 0x03, 0xe8]);
                    vec![open_web_socket(request, "v5.channel.k8s.io"), Step::Send(frames), Step::Close]
                }
                _ => json_reply(&json!({})),
            }
        })?;
        let plugin = crate::plugin(&admin(&format!("status-{name}"))?)?;
        let output = plugin.run(&[&format!("--cluster={}", fake.name), "exec", "shell", "--", "true"])?;
        ensure!((output.code == 0) == succeeds, "{name}: {output:?}");
        ensure!(!fake.requests("/exec").is_empty(), "{name}: nothing was run: {output:?}");
    }
    Ok(())
}

fn json_reply(value: &serde_json::Value) -> Vec<Step> {
    reply("200 OK", "Content-Type: application/json\r\n", &value.to_string())
}

/// Checks that these bytes are echoed unchanged, and need no memory although they announce gigabytes.
fn pass(name: &str, attacks: &[Vec<u8>]) -> Result<()> {
    let fake = FakeMember::start(&format!("e2e-tunnel-{name}"), |_| switched(vec![Step::Echo]))?;
    let own = OwnSidecar::start()?;
    let endpoint = own.endpoint(admin(name)?.certificate.as_deref())?;
    let mut tunnel = open(&endpoint, &fake)?;
    let before = usage::resident(own.pid())?;
    for attack in attacks {
        for piece in attack.chunks(4096) {
            tunnel.send(piece)?;
            assert_eq!(tunnel.exactly(piece.len())?, piece);
        }
    }
    let grown = usage::resident(own.pid())?.saturating_sub(before);
    ensure!(grown < MEBIBYTE, "it keeps {grown} bytes");
    Ok(())
}

/// A tunnel whose 101 has been read.
fn open(endpoint: &Endpoint, fake: &FakeMember) -> Result<Connection> {
    open_at(endpoint, fake, "/tunnel")
}

fn open_at(endpoint: &Endpoint, fake: &FakeMember, rest: &str) -> Result<Connection> {
    let mut connection = endpoint.connect()?;
    let path = member_path(&fake.name, rest);
    connection.send(
        format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
            .as_bytes(),
    )?;
    let status = connection.head()?.status;
    ensure!(status == 101, "answered {status}");
    Ok(connection)
}

/// Switches to SPDY, and continues with these steps.
fn switched(steps: Vec<Step>) -> Vec<Step> {
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
    [vec![Step::Send(head.into())], steps].concat()
}

fn admin(name: &str) -> Result<Caller> {
    Caller::certificate(&format!("e2e-tunnel-{name}"), &["system:masters"])
}

/// The sidecar's own port, as an administrator.
fn direct(name: &str) -> Result<Endpoint> {
    Endpoint::sidecar(sidecar()?, admin(name)?.certificate.as_deref())
}

/// The limit until the other side of a tunnel sees the end, on a busy machine. If the end were not
/// forwarded, it would never see it.
const AT_ONCE: Duration = Duration::from_secs(15);
