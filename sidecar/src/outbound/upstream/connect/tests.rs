use k8s_openapi::ByteString;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::outbound::tunnel::link;
use crate::outbound::tunnel::link::tests::no_accounts;
use crate::outbound::upstream::Upstream;
use crate::outbound::upstream::prepared::Prepared;

#[tokio::test]
async fn connection_detects_a_dead_peer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let Either::Left(stream) = Route::new(None).unwrap().open(address, Purpose::Requests).await.unwrap()
    else {
        panic!("TLS to a proxy that is not there")
    };
    tcp::assert_timed(&stream);
}

/// The connection through a proxy of this scheme: the socket ends at the proxy.
async fn through_proxy(scheme: &str) -> Transport {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (certified.cert.der(), certified.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let tls = (scheme == "https").then(|| Arc::new(tls));
    let server = rustls::ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(vec![certificate.clone()], key.try_into().unwrap()).unwrap();
    let (is_tls, is_socks) = (tls.is_some(), scheme == "socks5");
    let proxy = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = match is_tls {
            true => Either::Left(TlsAcceptor::from(Arc::new(server)).accept(stream).await.unwrap()),
            false => Either::Right(stream),
        };
        let mut head = [0; 1024];
        assert!(stream.read(&mut head).await.unwrap() > 0);
        if is_socks {
            // RFC 1928: no authentication, then the request.
            stream.write_all(&[5, 0]).await.unwrap();
            assert!(stream.read(&mut head).await.unwrap() > 0);
            stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
        } else {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        }
        stream.flush().await.unwrap();
        stream
    };
    let proxy_url = format!("{scheme}://{address}").parse().unwrap();
    let route = Route::new(Some(&Proxy { url: proxy_url, tls })).unwrap();
    let (opened, _proxy) =
        tokio::join!(route.open("https://member.example/".parse().unwrap(), Purpose::Requests), proxy);
    opened.unwrap()
}

#[tokio::test]
async fn connection_to_a_proxy_detects_a_dead_proxy() {
    crate::connection::tls::install_provider();
    for scheme in ["http", "https", "socks5"] {
        match through_proxy(scheme).await {
            Either::Left(stream) => tcp::assert_timed(&stream),
            Either::Right(Either::Left(stream)) => tcp::assert_timed(stream.get_ref().0),
            Either::Right(Either::Right(_)) => panic!("{scheme}: no agent is configured"),
        }
    }
}

/// The connection to a member by an agent.
fn by_agent() -> Connection {
    let key = rcgen::KeyPair::generate().unwrap();
    let ca = rcgen::CertificateParams::default().self_signed(&key).unwrap().pem();
    let data = [("server", "https://kubernetes.default.svc"), ("via", "agent"), ("ca.crt", &ca)];
    let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
    Connection::parse_any(&data.into()).unwrap()
}

#[tokio::test]
async fn only_upgrades_may_pause_for_long_through_an_agent() {
    let (tunnels, cluster): (_, ClusterName) = (AgentTunnels::none(), "m1".parse().unwrap());
    let (io, _sidecar) = link::tests::joined(&tunnels, no_accounts(), "instance");
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let _agent = AbortOnDropHandle::new(tokio::spawn(async move {
        let mut connection = h2::server::handshake(io).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            if request.method() == http::Method::CONNECT {
                tell.send(Purpose::of(request.headers())).unwrap();
            }
            let refused = http::Response::builder().status(502).body(()).unwrap();
            respond.send_response(refused, true).unwrap();
        }
    }));
    while tunnels.oldest(&cluster).is_none() {
        tokio::task::yield_now().await;
    }
    let upstream = || Upstream::new(cluster.clone(), by_agent(), Gauge::default(), &tunnels).unwrap();
    upstream().pool.send(Prepared::empty().into_request()).await.unwrap_err();
    assert_eq!(told.recv().await, Some(Purpose::Requests));
    assert!(upstream().upgrade(Prepared::empty()).await.is_err());
    assert_eq!(told.recv().await, Some(Purpose::Any));
}

/// A missing tunnel says nothing about the member, and the next request is the trial.
#[tokio::test]
async fn missing_tunnel_leaves_the_breaker_undecided() {
    let connection = by_agent();
    let cluster: ClusterName = "m1".parse().unwrap();
    let breaker = Arc::new(Breaker::new(cluster.clone(), Gauge::default()));
    let tunnels = AgentTunnels::none();
    let connector = Connector::new(&cluster, &connection, breaker.clone(), &tunnels).unwrap();
    breaker.reported(jiff::Timestamp::now(), "no route");
    for _ in 0..3 {
        let mut attempt = breaker.admit().unwrap();
        assert!(attempt.is_trial());
        attempt.hand_over();
        let error = connector.connect(Purpose::Requests).await.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(DialError::NoAgent { .. })), "{error}");
    }
}

/// Slow lookups of other members' names must not make this member count as unreachable.
#[test]
fn lookup_that_did_not_start_says_nothing_about_the_member() {
    let name: hyper_util::client::legacy::connect::dns::Name = "m1.example".parse().unwrap();
    let proxy = "http://proxy:3128/".parse().unwrap();
    for proxy in [None, Some(&proxy)] {
        let named = |error: lookup::Error| AtProxy::name(proxy, std::io::Error::other(error).into());
        let crowded = named(lookup::Error::Crowded(name.clone()));
        assert!(says_nothing_about_the_member(crowded.as_ref()), "{crowded}");
        let silent = named(lookup::Error::Silent(name.clone()));
        assert!(!says_nothing_about_the_member(silent.as_ref()), "{silent}");
    }
}

#[test]
fn connector_debug_shows_no_proxy_credential() {
    let key = rcgen::KeyPair::generate().unwrap();
    let (certificate, private) =
        (rcgen::CertificateParams::default().self_signed(&key).unwrap().pem(), key.serialize_pem());
    let data = [
        ("server", "https://203.0.113.7"),
        ("insecure-skip-tls-verify", "true"),
        ("proxy-url", "https://user:pa55word@proxy"),
        ("proxy-tls.crt", &certificate),
        ("proxy-tls.key", &private),
    ];
    let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
    let connection = Connection::parse_any(&data.into()).unwrap();
    let cluster: ClusterName = "m1".parse().unwrap();
    let breaker = Breaker::new(cluster.clone(), Gauge::default());
    let shown = format!(
        "{:?}",
        Connector::new(&cluster, &connection, Arc::new(breaker), &AgentTunnels::none()).unwrap()
    );
    let encoded = base64::engine::general_purpose::STANDARD.encode("user:pa55word");
    let bytes = format!("{:?}", key.serialized_der());
    for secret in ["pa55word", &encoded, "PRIVATE KEY", bytes.trim_matches(['[', ']'])] {
        assert!(!shown.contains(secret), "{secret}");
    }
}
