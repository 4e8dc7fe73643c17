//! Misbehaving agents: the tests write their frames one by one.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::host::fake::host;
use crate::outbound::tunnel::registry::{AgentInfo, AgentTunnels};

/// The agent's end of a tunnel of m1 to a replica, and the sidecar's end, which ends with the tunnel.
pub(crate) fn joined(
    tunnels: &Arc<AgentTunnels>,
    accounts: Arc<Accounts>,
    instance: &str,
) -> (WebSocket<DuplexStream>, AbortOnDropHandle<()>) {
    let (ours, theirs) = duplex(1 << 20);
    let info = AgentInfo { version: "1".into(), instance: instance.into() };
    let reservation = tunnels.reserve(&"m1".parse().unwrap(), info).unwrap();
    let carry = async move { _ = carry(ours, reservation, pending(), &accounts).await };
    (WebSocket::new(theirs, Role::Client), AbortOnDropHandle::new(tokio::spawn(carry)))
}

/// Accounts of a host that answers every request with 404.
pub(crate) fn no_accounts() -> Arc<Accounts> {
    Accounts::new(host(|_| (404, serde_json::json!({}))).0, tokio::sync::watch::channel(None).1)
}

fn tunnel() -> (WebSocket<DuplexStream>, AbortOnDropHandle<()>) {
    joined(&AgentTunnels::none(), no_accounts(), "instance")
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
/// The length of a client's preface (RFC 9113, 3.4).
const PREFACE: usize = 24;
const SOON: Duration = Duration::from_secs(10);
const A_MOMENT: Duration = Duration::from_millis(100);

/// Whether the tunnel ends within this time after an agent, which reads everything, sends these frames.
async fn ends_within(patience: Duration, frames: &[u8]) -> bool {
    let (agent, sidecar) = tunnel();
    let (mut reader, mut writer) = tokio::io::split(agent);
    let reading = tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    // The sidecar may close before all of it is written.
    let _ = writer.write_all(&frame(SETTINGS, 0, 0, &[])).await;
    let _ = writer.write_all(frames).await;
    let _ = writer.flush().await;
    let ended = timeout(patience, sidecar).await.is_ok();
    reading.abort();
    ended
}

#[tokio::test]
async fn floods_of_frames_end_the_tunnel() {
    for (what, flood) in [
        ("pings", frame(PING, 0, 0, &[7; 8])),
        ("settings", frame(SETTINGS, 0, 0, &[])),
        ("window updates", frame(8, 0, 0, &[0, 0, 0, 1])),
        ("unknown frames", frame(0x77, 0, 0, b"x")),
    ] {
        assert!(ends_within(SOON, &flood.repeat(25_000)).await, "{what}");
        assert!(!ends_within(A_MOMENT, &flood.repeat(10)).await, "a few {what}");
    }
}

#[tokio::test]
async fn agent_cannot_open_a_stream() {
    // HEADERS of a complete request `GET https: /` by indexed fields (RFC 7541, A).
    assert!(ends_within(SOON, &frame(1, 5, 2, &[0x82, 0x87, 0x84])).await);
    // PUSH_PROMISE on a stream that was never opened.
    assert!(ends_within(SOON, &frame(5, 4, 1, &[0, 0, 0, 2, 0x82])).await);
}

/// Answers every request with an empty 200.
async fn answer_requests(agent: &mut WebSocket<DuplexStream>) {
    agent.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    agent.read_exact(&mut [0; PREFACE]).await.unwrap();
    let mut head = [0; 9];
    loop {
        agent.flush().await.unwrap();
        agent.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        agent.read_exact(&mut vec![0; length as usize]).await.unwrap();
        if head[3] == HEADERS {
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            // END_STREAM, END_HEADERS, and `:status: 200` (RFC 7541, A).
            agent.write_all(&frame(HEADERS, 5, stream, &[0x88])).await.unwrap();
        }
    }
}

/// Opens streams of a tunnel whose agent sends data on all of them after their end, and no longer
/// reads. Returns whether the tunnel ends within this time.
async fn ends_by_late_data(patience: Duration, streams: u32) -> bool {
    let tunnels = AgentTunnels::none();
    let (mut agent, sidecar) = joined(&tunnels, no_accounts(), "instance");
    let asking = async {
        let tunnel = loop {
            match tunnels.oldest(&"m1".parse().unwrap()) {
                Some(tunnel) => break tunnel,
                None => tokio::task::yield_now().await,
            }
        };
        for _ in 0..streams {
            tunnel.ask(Method::GET, "/", Bytes::new()).await.unwrap();
        }
    };
    tokio::select! {
        () = asking => {}
        () = answer_requests(&mut agent) => unreachable!(),
    }
    let late: Vec<u8> = (0..streams).flat_map(|number| frame(DATA, 0, 2 * number + 1, b"late")).collect();
    let sending = async {
        let _ = agent.write_all(&late).await;
        let _ = agent.flush().await;
        pending::<()>().await
    };
    tokio::select! {
        () = sending => unreachable!(),
        ended = timeout(patience, sidecar) => ended.is_ok(),
    }
}

#[tokio::test]
async fn data_on_ended_streams_is_limited() {
    assert!(ends_by_late_data(SOON, 10_100).await);
    assert!(!ends_by_late_data(A_MOMENT, 1000).await);
}

#[tokio::test(start_paused = true)]
async fn silent_agents_tunnel_ends() {
    let (mut agent, sidecar) = tunnel();
    let before = tokio::time::Instant::now();
    timeout(Duration::from_secs(3600), sidecar).await.unwrap().unwrap();
    assert!(before.elapsed() < Duration::from_secs(30), "{:?}", before.elapsed());
    let mut rest = Vec::new();
    agent.read_to_end(&mut rest).await.unwrap();
}

/// Answers to pings wait behind the data on a slow line.
#[tokio::test(start_paused = true)]
async fn tunnel_stays_open_while_the_agent_sends_data() {
    let (agent, sidecar) = tunnel();
    let (mut reader, mut writer) = tokio::io::split(agent);
    let reading = tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    writer.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    for _ in 0..60 {
        writer.write_all(&frame(0x77, 0, 0, b"x")).await.unwrap();
        writer.flush().await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(!sidecar.is_finished());
    timeout(Duration::from_secs(60), sidecar).await.unwrap().unwrap();
    reading.abort();
}

#[tokio::test]
async fn idle_tunnel_uses_little_memory() {
    let (ours, _theirs) = duplex(1);
    let info = AgentInfo { version: "1".into(), instance: "instance".into() };
    let reservation = AgentTunnels::none().reserve(&"m1".parse().unwrap(), info).unwrap();
    let accounts = no_accounts();
    let size = size_of_val(&carry(ours, reservation, pending::<()>(), &accounts));
    assert!(size <= 4096, "{size} bytes: box what is rarely awaited");
}
