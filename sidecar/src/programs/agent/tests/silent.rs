//! Agents that stop answering.

use super::*;

/// A tunnel whose agent answers this many requests, and then only pings.
fn falls_silent_after(answers: usize, tunnels: &Arc<AgentTunnels>) -> [AbortOnDropHandle<()>; 2] {
    let (io, sidecar) = link::tests::joined(tunnels, no_accounts(), "silent");
    let agent = tokio::spawn(async move {
        let mut connection = h2::server::handshake(io).await.unwrap();
        let mut requests = Vec::new();
        while let Some(request) = connection.accept().await {
            let (request, mut respond) = request.unwrap();
            if requests.len() < answers {
                let unknown = Response::builder().status(StatusCode::NOT_IMPLEMENTED).body(());
                respond.send_response(unknown.unwrap(), true).unwrap();
            }
            requests.push((request, respond));
        }
    });
    [sidecar, AbortOnDropHandle::new(agent)]
}

/// Waits until the silent agent's tunnel is, or is no longer, marked as late.
async fn until_silent(joined: &Joined, is_late: bool) {
    let is_it =
        |tunnel: &Arc<crate::outbound::tunnel::registry::AgentTunnel>| &*tunnel.agent.instance == "silent";
    let found = || joined.tunnels.by_preference(&joined.cluster).unwrap().into_iter().find(is_it);
    let waiting = async {
        while found().is_none_or(|tunnel| tunnel.is_late.load(Ordering::Relaxed) != is_late) {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), waiting).await.unwrap();
}

#[tokio::test]
async fn agent_that_stops_answering_is_used_last() {
    let joined = joined(&echo().await.to_string()).await;
    let _silent = falls_silent_after(1, &joined.tunnels);
    until_silent(&joined, false).await;
    // It has the fewest connections and is the newest, so it is tried first.
    let _open = joined.open().await.unwrap();
    timeout(Duration::from_secs(20), joined.open()).await.unwrap().unwrap();
    let begun = Instant::now();
    joined.open().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn another_replica_waits_for_no_silent_agent() {
    let (tunnels, cluster) = (AgentTunnels::none(), "m1".parse().unwrap());
    let _silent = falls_silent_after(0, &tunnels);
    while tunnels.oldest(&cluster).is_none() {
        tokio::task::yield_now().await;
    }
    let (mut asker, stream) = duplex(1024);
    let answering = tokio::spawn(async move { answer(stream, &tunnels, std::future::pending()).await });
    asker.write_all(b"connect m1 127.0.0.1:1\n").await.unwrap();
    tokio::time::pause();
    let mut heard = String::new();
    timeout(Duration::from_secs(60), asker.read_to_string(&mut heard)).await.unwrap().unwrap();
    assert_eq!(heard, "silent\n");
    assert!(answering.await.unwrap().is_ok());
}

#[tokio::test]
async fn agent_that_has_never_answered_is_used_last() {
    let joined = joined(&echo().await.to_string()).await;
    joined.tunnels.oldest(&joined.cluster).unwrap().about().await.unwrap();
    let _silent = falls_silent_after(0, &joined.tunnels);
    until_silent(&joined, true).await;
    for _ in 0..3 {
        timeout(Duration::from_secs(1), joined.open()).await.unwrap().unwrap();
    }
}

/// Like an agent of an earlier release, which knows no requests about the tunnel.
#[tokio::test]
async fn agent_that_only_carries_connections_stays_connected() {
    let (tunnels, cluster) = (AgentTunnels::none(), "m1".parse().unwrap());
    let (io, sidecar) = link::tests::joined(&tunnels, no_accounts(), "earlier");
    tokio::spawn(async move {
        let mut connection = h2::server::handshake(io).await.unwrap();
        let mut open = Vec::new();
        while let Some(request) = connection.accept().await {
            let (request, mut respond) = request.unwrap();
            let is_connect = request.method() == Method::CONNECT;
            let status = if is_connect { StatusCode::OK } else { StatusCode::NOT_IMPLEMENTED };
            let response = Response::builder().status(status).body(()).unwrap();
            let mut send = respond.send_response(response, !is_connect).unwrap();
            if is_connect {
                send.send_data("hello".into(), true).unwrap();
                open.push((request, send));
            }
        }
    });
    while tunnels.oldest(&cluster).is_none() {
        tokio::task::yield_now().await;
    }
    let tunnel = tunnels.oldest(&cluster).unwrap();
    assert!(tunnel.about().await.is_none() && !tunnel.renew_credential("token").await);
    tunnel.drain().await;
    let mut stream =
        tunnels.open_here(&cluster, &"127.0.0.1:1".parse().unwrap(), Purpose::Any).await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "hello");
    assert!(!sidecar.is_finished());
}
