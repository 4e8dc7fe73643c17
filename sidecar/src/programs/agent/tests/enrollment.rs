//! Tests of what the agent sends during an enrollment, and until when.

use super::*;

#[tokio::test]
async fn agent_without_enrollment_sends_no_credentials() {
    let joined = joined("127.0.0.1:1").await;
    let about = joined.tunnels.oldest(&joined.cluster).unwrap().about().await.unwrap();
    assert_eq!(about.capabilities, ["enroll"]);
    let reply = joined.tunnels.enroll(&joined.cluster, Request::Enroll).await.unwrap();
    assert_eq!((reply.status, reply.body.as_str()), (StatusCode::GONE, "the enrollment is over"));
}

#[tokio::test]
async fn enrollment_ends_by_the_agents_own_clock() {
    let past = "2020-01-01T00:00:00Z".parse().unwrap();
    let agent = with_config(Config { enroll_until: Some(past), ..config("127.0.0.1:1", 4) });
    let (tunnels, cluster) = (AgentTunnels::none(), "m1".parse().unwrap());
    let (io, _sidecar) = link::tests::joined(&tunnels, no_accounts(), "instance");
    tokio::spawn(serve::serve(agent, io, oneshot::channel().0));
    while tunnels.oldest(&cluster).is_none() {
        tokio::task::yield_now().await;
    }
    let reply = tunnels.enroll(&cluster, Request::Enroll).await.unwrap();
    assert_eq!(reply.status, StatusCode::GONE, "{}", reply.body);
}

/// The member's API server is unreachable; the reason reaches the sidecar.
#[tokio::test]
async fn agent_reports_why_it_cannot_enroll() {
    let folder = tempfile::tempdir().unwrap();
    let until = Timestamp::now().checked_add(Duration::from_secs(600)).unwrap();
    let kubeconfig = Some(folder.path().join("missing"));
    let agent = with_config(Config { enroll_until: Some(until), kubeconfig, ..config("127.0.0.1:1", 4) });
    let (tunnels, cluster) = (AgentTunnels::none(), "m1".parse().unwrap());
    let (io, _sidecar) = link::tests::joined(&tunnels, no_accounts(), "instance");
    tokio::spawn(serve::serve(agent, io, oneshot::channel().0));
    while tunnels.oldest(&cluster).is_none() {
        tokio::task::yield_now().await;
    }
    for request in [Request::Enroll, Request::Confirm] {
        let reply = tunnels.enroll(&cluster, request).await.unwrap();
        assert_eq!(reply.status, StatusCode::BAD_GATEWAY);
        assert!(reply.body.contains("cannot read") && reply.body.contains("missing"), "{}", reply.body);
    }
}
