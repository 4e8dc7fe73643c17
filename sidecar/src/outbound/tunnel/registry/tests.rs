use super::attempts::MAX_ATTEMPTS;
use super::*;
use crate::outbound::tunnel::link;
use crate::outbound::tunnel::link::tests::no_accounts;

impl AgentTunnels {
    /// A registry without a tunnel.
    pub(crate) fn none() -> Arc<Self> {
        Self::new(
            "replica",
            Peers::new(Vec::new(), ([127, 0, 0, 1], 10250).into(), Arc::default()),
            &mut Registry::default(),
        )
    }

    /// The same with a different limit on unread bytes.
    pub(crate) fn with_unread(limit: UnreadLimit) -> Arc<Self> {
        let mut tunnels = Self::none();
        Arc::get_mut(&mut tunnels).unwrap().unread = Arc::new(limit);
        tunnels
    }
}

fn agent(instance: &str) -> AgentInfo {
    AgentInfo { version: "1".into(), instance: instance.into() }
}

fn m1() -> ClusterName {
    "m1".parse().unwrap()
}

#[tokio::test]
async fn agent_instance_has_one_tunnel_to_a_replica() {
    let tunnels = AgentTunnels::none();
    let first = tunnels.reserve(&m1(), agent("a")).unwrap();
    assert_eq!(tunnels.reserve(&m1(), agent("a")).unwrap_err(), Refused::Held("replica".to_owned()));
    let _other = tunnels.reserve(&m1(), agent("b")).unwrap();
    let _elsewhere = tunnels.reserve(&"m2".parse().unwrap(), agent("a")).unwrap();
    drop(first);
    tunnels.reserve(&m1(), agent("a")).unwrap();
}

#[tokio::test]
async fn tunnels_of_a_cluster_are_bounded() {
    let tunnels = AgentTunnels::none();
    let reserved: Vec<_> =
        (0..MAX_TUNNELS).map(|n| tunnels.reserve(&m1(), agent(&n.to_string())).unwrap()).collect();
    assert_eq!(tunnels.reserve(&m1(), agent("more")).unwrap_err(), Refused::Full(m1()));
    drop(reserved);
    tunnels.reserve(&m1(), agent("more")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn attempts_of_a_cluster_are_bounded() {
    let tunnels = AgentTunnels::none();
    let allowed = (0..100).take_while(|_| tunnels.reserve(&m1(), agent("a")).is_ok()).count();
    assert_eq!(allowed, MAX_ATTEMPTS as usize);
    assert_eq!(tunnels.reserve(&m1(), agent("a")).unwrap_err(), Refused::TooOften(m1()));
    tunnels.reserve(&"m2".parse().unwrap(), agent("a")).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    tunnels.reserve(&m1(), agent("a")).unwrap();
}

#[tokio::test]
async fn missing_tunnel_error_has_its_start_time() {
    let tunnels = AgentTunnels::none();
    let error = tunnels
        .open_here(&m1(), &"kubernetes.default.svc:443".parse().unwrap(), Purpose::Any)
        .await
        .unwrap_err();
    let DialError::NoAgent { since } = error else { panic!("{error}") };
    assert_eq!(since, tunnels.began);
}

/// An agent that answers nothing must not use up the time in which another replica's tunnel would work.
#[tokio::test(start_paused = true)]
async fn silent_tunnel_is_not_waited_for_until_the_caller_gives_up() {
    let tunnels = AgentTunnels::none();
    let (io, _sidecar) = link::tests::joined(&tunnels, no_accounts(), "instance");
    let mut connection = h2::server::handshake(io).await.unwrap();
    let agent = async {
        let mut ignored = Vec::new();
        while let Some(request) = connection.accept().await {
            ignored.push(request);
        }
    };
    let opening = async {
        let begin = Instant::now();
        let target = "kubernetes.default.svc:443".parse().unwrap();
        let error = tunnels.open(&m1(), &target, Purpose::Any).await.unwrap_err();
        assert!(matches!(error, DialError::Silent), "{error}");
        begin.elapsed()
    };
    let waited = tokio::select! {
        waited = opening => waited,
        () = agent => panic!("the tunnel ended"),
    };
    assert_eq!(waited.as_secs(), OPEN_TIMEOUT.as_secs());
    assert!(tunnels.oldest(&m1()).unwrap().is_late.load(Ordering::Relaxed));
}
