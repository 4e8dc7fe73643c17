//! Members that acknowledge nothing. A member that does not read simulates a dead one:
//! TCP_USER_TIMEOUT does not distinguish them.

use super::*;
use crate::outbound::tunnel::stream::TunnelStream;

/// A connection to a member that does not read; it accepts no more bytes.
async fn blocked(joined: &Joined, purpose: Purpose) -> TunnelStream {
    let target = &joined.agent.config.target;
    let mut stream = joined.tunnels.open_here(&joined.cluster, target, purpose).await.unwrap();
    while timeout(Duration::from_millis(500), stream.write_all(&[b'x'; 64 * 1024])).await.is_ok() {}
    stream
}

#[tokio::test]
async fn fault_44_dead_member_of_an_agent_ends_plain_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let joined = joined(&listener.local_addr().unwrap().to_string()).await;
    let (mut upgraded, mut plain) =
        tokio::join!(blocked(&joined, Purpose::Any), blocked(&joined, Purpose::Requests));
    let mut byte = [0];
    let end = timeout(Duration::from_secs(60), plain.read(&mut byte)).await.expect("it waits");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    assert!(timeout(Duration::ZERO, upgraded.read(&mut byte)).await.is_err(), "a paused command ended");
}

#[tokio::test]
async fn agent_learns_what_a_connection_carries() {
    let (tunnels, cluster) = (AgentTunnels::none(), "m1".parse().unwrap());
    let (io, _sidecar) = link::tests::joined(&tunnels, no_accounts(), "instance");
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut connection = h2::server::handshake(io).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            if request.method() == Method::CONNECT {
                tell.send(Purpose::of(request.headers())).unwrap();
                drop(respond.send_response(Response::new(()), true));
            }
        }
    });
    while tunnels.oldest(&cluster).is_none() {
        tokio::task::yield_now().await;
    }
    for purpose in [Purpose::Requests, Purpose::Any] {
        let target = "127.0.0.1:1".parse().unwrap();
        drop(tunnels.open_here(&cluster, &target, purpose).await.unwrap());
        assert_eq!(told.recv().await, Some(purpose));
    }
}
