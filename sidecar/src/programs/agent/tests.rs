//! Joins both ends of a tunnel in memory: the agent's [`serve`] and the sidecar's `tunnel::link`.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Response;
use http::uri::Authority;
use jiff::Timestamp;
use kubectl_mc_api::direct::Publication;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::oneshot;

use super::*;
use crate::outbound::tunnel::accounts::Accounts;
use crate::outbound::tunnel::enrollment::Request;
use crate::outbound::tunnel::link;
use crate::outbound::tunnel::link::tests::no_accounts;
use crate::outbound::tunnel::peers::answer::answer;
use crate::outbound::tunnel::protocol::STREAM_WINDOW;
use crate::outbound::tunnel::purpose::Purpose;
use crate::outbound::tunnel::registry::{AgentTunnels, DialError, Reason};

mod dead_member;
mod enrollment;
mod silent;
mod unread;

struct Joined {
    tunnels: Arc<AgentTunnels>,
    cluster: kubectl_mc_api::ClusterName,
    agent: Arc<Agent>,
    left: oneshot::Receiver<Left>,
    sidecar: AbortOnDropHandle<()>,
}

fn agent(target: &str, max_streams: u32) -> Arc<Agent> {
    with_config(config(target, max_streams))
}

pub(super) fn config(target: &str, max_streams: u32) -> Config {
    Config {
        cluster: "m1".parse().unwrap(),
        connection_dir: None,
        files: Default::default(),
        values: Default::default(),
        token_secret: None,
        kubeconfig: None,
        enroll_until: None,
        enroll_token_duration: Duration::from_secs(3600),
        target: target.parse().unwrap(),
        tunnels: 1,
        max_streams,
        stream_window: 64 * 1024,
        admin_address: ([127, 0, 0, 1], 0).into(),
        log_format: crate::programs::args::LogFormat::Text,
    }
}

fn with_config(config: Config) -> Arc<Agent> {
    Arc::new(Agent {
        login: Login::new(&config),
        enrollment: Enrollment::new(&config),
        config,
        instance: "instance".to_owned(),
        held: ArcSwap::default(),
        leave: CancellationToken::new(),
        tasks: TaskTracker::new(),
        drained: Arc::new(Semaphore::new(1)),
        unread: Arc::new(UnreadLimit::of_agent()),
    })
}

/// A tunnel whose agent connects to `target`.
async fn joined(target: &str) -> Joined {
    joined_with(target, 4).await
}

/// The same with another limit on connections.
async fn joined_with(target: &str, max_streams: u32) -> Joined {
    let (tunnels, cluster) = (AgentTunnels::none(), "m1".parse().unwrap());
    let (io, sidecar) = link::tests::joined(&tunnels, no_accounts(), "instance");
    let (agent, (left, told)) = (agent(target, max_streams), oneshot::channel());
    tokio::spawn(serve::serve(agent.clone(), io, left));
    while tunnels.oldest(&cluster).is_none() {
        tokio::task::yield_now().await;
    }
    Joined { tunnels, cluster, agent, left: told, sidecar }
}

impl Joined {
    async fn open(&self) -> Result<crate::outbound::tunnel::stream::TunnelStream, DialError> {
        self.tunnels.open_here(&self.cluster, &self.agent.config.target, Purpose::Any).await
    }
}

/// A server that returns all bytes once its client has ended.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await.unwrap();
                stream.write_all(&all).await.unwrap();
            });
        }
    });
    address
}

#[tokio::test]
async fn half_close_is_forwarded_and_no_byte_is_lost() {
    let joined = joined(&echo().await.to_string()).await;
    let mut stream = joined.open().await.unwrap();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    stream.write_all(&sent).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.unwrap();
    assert!(back == sent, "{} bytes came back", back.len());
}

/// The target closes with unread input: writing to it fails, and some of its bytes are still unread.
#[tokio::test]
async fn fault_65_last_bytes_of_a_closed_target_arrive() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let joined = joined(&listener.local_addr().unwrap().to_string()).await;
    let (opened, accepted) = tokio::join!(joined.open(), listener.accept());
    let (mut stream, (mut target, _)) = (opened.unwrap(), accepted.unwrap());
    target.set_nodelay(true).unwrap();
    stream.write_all(b"input").await.unwrap();
    // The agent reads no more than fits into the stream's window.
    target.write_all(&[b'x'; STREAM_WINDOW as usize]).await.unwrap();
    while stream.unread() < STREAM_WINDOW as usize {
        tokio::task::yield_now().await;
    }
    target.write_all(&[b'x'; 40 * 1024]).await.unwrap();
    drop(target);
    stream.write_all(b"more input").await.unwrap();
    let mut heard = Vec::new();
    let ended = stream.read_to_end(&mut heard).await;
    assert_eq!(heard.len(), STREAM_WINDOW as usize + 40 * 1024, "{ended:?}");
}

#[tokio::test]
async fn agent_connects_only_to_its_target() {
    let joined = joined(&echo().await.to_string()).await;
    let other: Authority = "127.0.0.1:1".parse().unwrap();
    let refused = joined.tunnels.open_here(&joined.cluster, &other, Purpose::Any).await.unwrap_err();
    assert!(matches!(refused, DialError::NotTheTarget(_)), "{refused}");
}

#[tokio::test]
async fn agent_reports_why_it_cannot_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let refused = joined(&address.to_string()).await.open().await.unwrap_err();
    assert!(matches!(refused, DialError::Failed(Reason::Refused)), "{refused}");
    let unknown = joined("no-such-host.invalid:443").await.open().await.unwrap_err();
    assert!(matches!(unknown, DialError::Failed(Reason::Dns)), "{unknown}");
}

#[tokio::test]
async fn unread_connection_blocks_no_other() {
    let joined = joined(&echo().await.to_string()).await;
    let mut unread = joined.open().await.unwrap();
    unread.write_all(&vec![1; 1_000_000]).await.unwrap();
    unread.shutdown().await.unwrap();
    for _ in 0..10 {
        let mut stream = joined.open().await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut back = String::new();
        stream.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, "hello");
    }
}

#[tokio::test]
async fn connections_beyond_the_agents_limit_are_refused() {
    let joined = joined(&echo().await.to_string()).await;
    // The agent's settings arrive with its first answer.
    drop(joined.open().await.unwrap());
    let mut open = Vec::new();
    while open.len() < 4 {
        open.push(joined.open().await.unwrap());
    }
    assert!(matches!(joined.open().await, Err(DialError::Full)));
    drop(open);
    joined.open().await.unwrap();
}

#[tokio::test]
async fn agent_leaves_a_draining_replica_after_its_connections() {
    let joined = joined(&echo().await.to_string()).await;
    let mut stream = joined.open().await.unwrap();
    stream.write_all(b"still").await.unwrap();
    joined.tunnels.oldest(&joined.cluster).unwrap().drain().await;
    assert!(matches!(joined.left.await.unwrap(), Left::Drained));
    joined.agent.leave.cancel();
    stream.shutdown().await.unwrap();
    let mut back = String::new();
    stream.read_to_string(&mut back).await.unwrap();
    assert_eq!(back, "still");
    joined.sidecar.await.unwrap();
    assert!(matches!(
        joined.tunnels.open_here(&joined.cluster, &joined.agent.config.target, Purpose::Any).await,
        Err(DialError::NoAgent { .. })
    ));
}

#[tokio::test]
async fn agent_describes_itself_and_accepts_a_new_credential() {
    let joined = joined("127.0.0.1:1").await;
    let tunnel = joined.tunnels.oldest(&joined.cluster).unwrap();
    let about = tunnel.about().await.unwrap();
    assert_eq!((about.version.as_str(), about.credential), (env!("CARGO_PKG_VERSION"), None));
    let claims = r#"{"sub": "system:serviceaccount:kubectl-mc-agents:m1", "iat": 1, "exp": 9}"#;
    let claims = URL_SAFE_NO_PAD.encode(claims);
    assert!(tunnel.renew_credential(&format!("e30.{claims}.x")).await);
    let life = tunnel.about().await.unwrap().credential.unwrap();
    assert_eq!((life.issued, life.expires), (1, 9));
    assert!(!tunnel.renew_credential(&"x".repeat(70_000)).await);
}

#[tokio::test]
async fn ended_tunnel_ends_its_connections() {
    let joined = joined(&echo().await.to_string()).await;
    let mut stream = joined.open().await.unwrap();
    stream.write_all(b"question").await.unwrap();
    joined.tunnels.end(&joined.cluster);
    assert!(stream.read(&mut [0]).await.is_err());
    assert!(matches!(joined.left.await.unwrap(), Left::Ended(_)));
    assert!(matches!(
        joined.tunnels.open_here(&joined.cluster, &joined.agent.config.target, Purpose::Any).await,
        Err(DialError::NoAgent { .. })
    ));
}

/// The connection is dropped with unread bytes: its stream is reset, and more data still arrives for it.
#[tokio::test]
async fn dropped_connections_do_not_end_the_tunnel() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move { while stream.write_all(&[0; 16 * 1024]).await.is_ok() {} });
        }
    });
    let joined = joined_with(&address.to_string(), 400).await;
    for _ in 0..5 {
        let mut open = Vec::new();
        while open.len() < 300 {
            match joined.open().await {
                Ok(stream) => open.push(stream),
                // The places of earlier connections are not free yet.
                Err(DialError::Full) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
        for stream in &mut open {
            stream.read_exact(&mut [0]).await.unwrap();
        }
    }
    assert!(joined.tunnels.oldest(&joined.cluster).is_some_and(|tunnel| !tunnel.has_ended()));
}

#[tokio::test]
async fn agent_shutdown_marks_its_tunnel_as_leaving() {
    let joined = joined(&echo().await.to_string()).await;
    let _open = joined.open().await.unwrap();
    let tunnel = joined.tunnels.oldest(&joined.cluster).unwrap();
    assert!(!tunnel.is_leaving());
    joined.agent.leave.cancel();
    let leaving = async {
        while !tunnel.is_leaving() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), leaving).await.unwrap();
}

/// A sidecar that repeatedly announces its shutdown.
#[tokio::test]
async fn number_of_draining_tunnels_is_bounded() {
    let joined = joined(&echo().await.to_string()).await;
    let _open = joined.open().await.unwrap();
    let _other = joined.agent.drained.clone().try_acquire_owned().unwrap();
    joined.tunnels.oldest(&joined.cluster).unwrap().drain().await;
    assert!(matches!(joined.left.await.unwrap(), Left::Drained));
    timeout(Duration::from_secs(60), joined.sidecar).await.unwrap().unwrap();
}

#[tokio::test]
async fn agent_gets_each_new_ca_of_the_direct_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let [old, first, second] =
        [(); 3].map(|()| rcgen::CertificateParams::default().self_signed(&key).unwrap().pem());
    std::fs::write(folder.path().join("server"), "https://mc.example").unwrap();
    std::fs::write(folder.path().join("ca.crt"), old).unwrap();
    let (endpoint, told) = tokio::sync::watch::channel(None);
    let accounts = Accounts::new(crate::host::fake::host(|_| (404, serde_json::json!({}))).0, told);
    let (io, _sidecar) = link::tests::joined(&AgentTunnels::none(), accounts, "instance");
    let config = Config { connection_dir: Some(folder.path().to_owned()), ..config("127.0.0.1:1", 4) };
    let agent = with_config(config);
    tokio::spawn(serve::serve(agent.clone(), io, oneshot::channel().0));
    for authority in [first, second] {
        let server = "https://mc.example".parse().unwrap();
        endpoint.send_replace(Some(Publication { server, authority: authority.clone() }));
        let trusts_it = async {
            while agent.login.trusted().as_deref() != Some(authority.as_bytes()) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), trusts_it).await.unwrap();
    }
}
