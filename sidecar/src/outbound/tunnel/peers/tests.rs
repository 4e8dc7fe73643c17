//! Replicas of one installation on loopback. One of them has the tunnel of an agent that echoes its input.

use std::future::pending;

use http::Response;
use prometheus_client::registry::Registry;
use time::OffsetDateTime;
use tokio::io::duplex;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::connection::tls;
use crate::connection::tls::authority::{self, Content, State};
use crate::connection::tls::certificates::ServingCertificate;
use crate::outbound::tunnel::link;
use crate::outbound::tunnel::link::tests::no_accounts;
use crate::outbound::tunnel::purpose::Purpose;
use crate::outbound::tunnel::registry::{AgentTunnels, Opened};
use crate::outbound::tunnel::stream::TunnelStream;

const NAME: &str = "mc-sidecar.n.svc";

struct Replica {
    tunnels: Arc<AgentTunnels>,
    address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

fn authority() -> authority::Authority {
    tls::install_provider();
    let now = OffsetDateTime::now_utc();
    let State::ToWrite(content) = State::of(&Content::new(), now).unwrap() else { panic!() };
    let State::Ready(authority) = State::of(&content, now).unwrap() else { panic!() };
    *authority
}

/// A replica that knows the others by their addresses.
async fn replica(authority: &authority::Authority, name: &str, others: &[SocketAddr]) -> Replica {
    let leaf = authority.issue(&[NAME.to_owned()], OffsetDateTime::now_utc()).unwrap();
    let (shown, known) =
        (ServingCertificate::self_signed(vec![NAME.to_owned()]).unwrap(), Arc::new(ReplicaTls::default()));
    shown.show(leaf.chain.clone(), &leaf.key).unwrap();
    known.introduce(&shown.current(), authority.bundle.as_bytes(), NAME).unwrap();
    let others = others.iter().map(|address| address.to_string().parse().unwrap()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let peers = Peers::new(others, address, known);
    peers.look_up().await;
    let tunnels = AgentTunnels::new(name, peers, &mut Registry::default());
    let (acceptor, serving) =
        (TlsAcceptor::from(Arc::new(tls::server_config(Arc::new(shown)))), tunnels.clone());
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, tunnels) = (acceptor.clone(), serving.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                if tunnels.peers().is_replica(stream.get_ref().1.peer_certificates()) {
                    let _ = answer::answer(stream, &tunnels, pending()).await;
                }
            });
        }
    });
    Replica { tunnels, address, _serving: AbortOnDropHandle::new(serving) }
}

/// Gives the replica a tunnel of m1.
async fn attach(replica: &Replica) -> [AbortOnDropHandle<()>; 2] {
    let (io, sidecar) = link::tests::joined(&replica.tunnels, no_accounts(), "instance");
    let agent = tokio::spawn(async move {
        let mut connection = h2::server::handshake(io).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            if request.uri().path() == crate::outbound::tunnel::protocol::paths::ENROLL {
                let mut send = respond.send_response(Response::new(()), false).unwrap();
                send.send_data(format!("{}\nof the agent", request.method()).into(), true).unwrap();
            } else if request.method() == http::Method::CONNECT {
                let send = respond.send_response(Response::new(()), false).unwrap();
                let (mut read, mut write) = tokio::io::split(TunnelStream::new(send, request.into_body()));
                tokio::spawn(async move {
                    tokio::io::copy(&mut read, &mut write).await.unwrap();
                    write.shutdown().await.unwrap();
                });
            }
        }
    });
    while replica.tunnels.oldest(&m1()).is_none() {
        tokio::task::yield_now().await;
    }
    [sidecar, AbortOnDropHandle::new(agent)]
}

fn m1() -> ClusterName {
    "m1".parse().unwrap()
}

fn target() -> Authority {
    "kubernetes.default.svc:443".parse().unwrap()
}

async fn open(replica: &Replica) -> Result<Opened, DialError> {
    replica.tunnels.open(&m1(), &target(), Purpose::Any).await
}

#[tokio::test]
async fn member_is_reached_through_the_replica_with_the_tunnel() {
    let authority = authority();
    let has = replica(&authority, "has", &[]).await;
    let _tunnel = attach(&has).await;
    let asks = replica(&authority, "asks", &[has.address]).await;
    for _ in 0..3 {
        let Opened::AtPeer(mut stream) = open(&asks).await.unwrap() else { panic!("it has no tunnel") };
        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        let (mut read, mut write) = tokio::io::split(&mut stream);
        let mut back = Vec::new();
        let writing = async {
            write.write_all(&sent).await.unwrap();
            write.shutdown().await.unwrap();
        };
        tokio::join!(writing, async { read.read_to_end(&mut back).await.unwrap() });
        assert!(back == sent, "{} bytes came back", back.len());
    }
    assert!(matches!(open(&has).await, Ok(Opened::Here(_))));
}

#[tokio::test]
async fn moved_tunnel_is_found_again() {
    let authority = authority();
    let (first, second) = (replica(&authority, "first", &[]).await, replica(&authority, "second", &[]).await);
    let tunnel = attach(&first).await;
    let asks = replica(&authority, "asks", &[first.address, second.address]).await;
    open(&asks).await.unwrap();
    let moved = attach(&second).await;
    drop(tunnel);
    open(&asks).await.unwrap();
    drop(moved);
    assert!(matches!(open(&asks).await, Err(DialError::NoAgent { .. })));
}

/// The asking replica reads slowly, and writes more after the agent's connection has ended.
#[tokio::test]
async fn fault_65_last_bytes_of_a_broken_tunnel_arrive() {
    let has = replica(&authority(), "has", &[]).await;
    let said = vec![b'x'; 100 * 1024];
    let (io, _sidecar) = link::tests::joined(&has.tunnels, no_accounts(), "instance");
    let words = said.clone();
    let _agent = AbortOnDropHandle::new(tokio::spawn(async move {
        let mut connection = h2::server::handshake(io).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            if request.method() == http::Method::CONNECT {
                let send = respond.send_response(Response::new(()), false).unwrap();
                let mut stream = TunnelStream::new(send, request.into_body());
                let words = words.clone();
                tokio::spawn(async move {
                    stream.write_all(&words).await.unwrap();
                    stream.shutdown().await.unwrap();
                });
            }
        }
    }));
    while has.tunnels.oldest(&m1()).is_none() {
        tokio::task::yield_now().await;
    }
    let (mut asks, answers) = duplex(64);
    let tunnels = has.tunnels.clone();
    tokio::spawn(async move { answer::answer(answers, &tunnels, pending()).await });
    asks.write_all(question::Question::Connect(m1(), target()).to_string().as_bytes()).await.unwrap();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    asks.write_all(b"more input").await.unwrap();
    let (mut heard, answered) = (Vec::new(), format!("{}\n", question::CONNECTED));
    asks.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard.len(), answered.len() + said.len());
}

#[tokio::test]
async fn question_is_not_forwarded_to_other_replicas() {
    let authority = authority();
    let has = replica(&authority, "has", &[]).await;
    let _tunnel = attach(&has).await;
    let between = replica(&authority, "between", &[has.address]).await;
    let asks = replica(&authority, "asks", &[between.address]).await;
    assert!(matches!(open(&asks).await, Err(DialError::NoAgent { .. })));
}

#[tokio::test]
async fn replica_of_another_installation_is_refused() {
    let has = replica(&authority(), "has", &[]).await;
    let _tunnel = attach(&has).await;
    let stranger = replica(&authority(), "stranger", &[has.address]).await;
    assert!(matches!(open(&stranger).await, Err(DialError::NoAgent { .. })));
}

#[tokio::test]
async fn tunnels_of_all_other_replicas_are_listed() {
    let authority = authority();
    let has = replica(&authority, "has", &[]).await;
    let _tunnel = attach(&has).await;
    let gone: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let asks = replica(&authority, "asks", &[gone, has.address]).await;
    let elsewhere = Elsewhere { replica: "has".to_owned(), version: "1".to_owned() };
    assert_eq!(asks.tunnels.peers().tunnels().await, HashMap::from([(m1(), elsewhere)]));
}

#[tokio::test]
async fn replica_counts_itself_once() {
    let own: SocketAddr = "127.0.0.1:10250".parse().unwrap();
    let count = async |names: &[&str], own: SocketAddr| {
        let names = names.iter().map(|name| name.parse().unwrap()).collect();
        let peers = Peers::new(names, own, Arc::default());
        peers.look_up().await;
        peers.introduce("a")
    };
    assert_eq!(count(&[], own).await, "a");
    assert_eq!(count(&["127.0.0.1:10250"], own).await, "a; of=1");
    assert_eq!(count(&["127.0.0.1:10250", "127.0.0.1:10250"], own).await, "a; of=1");
    assert_eq!(count(&["127.0.0.1:10250", "192.0.2.1:10250"], own).await, "a; of=2");
    assert_eq!(count(&["192.0.2.1:10250"], own).await, "a; of=2");
    assert_eq!(count(&["127.0.0.1:10251"], own).await, "a; of=2");
    // In a pod, it accepts connections at every address.
    let every = "0.0.0.0:10250".parse().unwrap();
    assert_eq!(count(&["127.0.0.1:10250", "192.0.2.1:10250"], every).await, "a; of=2");
}

#[tokio::test]
async fn agent_enrolls_through_the_replica_with_its_tunnel() {
    let authority = authority();
    let (none, has) = (replica(&authority, "none", &[]).await, replica(&authority, "has", &[]).await);
    let _tunnel = attach(&has).await;
    let gone: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let asks = replica(&authority, "asks", &[gone, none.address, has.address]).await;
    for (request, method) in [(Request::Enroll, "GET"), (Request::Confirm, "DELETE")] {
        let reply = asks.tunnels.enroll(&m1(), request).await.unwrap();
        assert_eq!((reply.status.as_u16(), reply.body), (200, format!("{method}\nof the agent")));
    }
    assert_eq!(none.tunnels.enroll(&m1(), Request::Enroll).await, None);
    let stranger = replica(&self::authority(), "stranger", &[has.address]).await;
    assert_eq!(stranger.tunnels.enroll(&m1(), Request::Enroll).await, None);
}
