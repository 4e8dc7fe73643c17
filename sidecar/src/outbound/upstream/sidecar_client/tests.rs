use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::Full;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;

/// A member that gives the same answer to every request, with `Connection: close` if the test wants it.
pub(crate) struct Member {
    client: kube::Client,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) connections: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl Member {
    pub(crate) async fn start(closes: bool) -> Self {
        Self::that_answers(Bytes::from_static(br#"{"metadata":{"name":"a"}}"#), closes).await
    }

    async fn that_answers(answer: Bytes, closes: bool) -> Self {
        Self::that_serves(move |stream| {
            let answer = answer.clone();
            async move {
                let answer =
                    service_fn(|_| async { Ok::<_, Infallible>(Response::new(Full::new(answer.clone()))) });
                let mut server = server::Builder::new();
                let _ = server.keep_alive(!closes).serve_connection(TokioIo::new(stream), answer).await;
            }
        })
        .await
    }

    pub(crate) async fn that_serves<S, F>(serve: S) -> Self
    where
        S: Fn(TlsStream<TcpStream>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        crate::connection::tls::install_provider();
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let stream = acceptor.accept(socket).await.unwrap();
                tokio::spawn(serve(stream));
            }
        }));
        let text = |text: &str| ByteString(text.as_bytes().to_vec());
        let secret = Secret {
            data: Some(BTreeMap::from([
                ("server".to_owned(), text(&format!("https://{address}"))),
                ("insecure-skip-tls-verify".to_owned(), text("true")),
                ("token".to_owned(), text("t")),
            ])),
            ..Secret::default()
        };
        let (cluster, tunnels) = ("m1".parse().unwrap(), AgentTunnels::none());
        let connection = Connection::parse(secret.data.as_ref().unwrap()).unwrap();
        let upstream = Upstream::new(cluster, connection, Gauge::default(), &tunnels).unwrap();
        let client = client(&"m1".parse().unwrap(), &secret, &tunnels).unwrap();
        Self { client, upstream: Arc::new(upstream), connections, _task: task }
    }

    /// Sends this many requests at once, and returns the number of connections.
    async fn asked_at_once(&self, times: usize) -> usize {
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), "ns");
        let asked = (0..times).map(|_| maps.get("a"));
        futures_util::future::try_join_all(asked).await.unwrap();
        self.connections.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn requests_of_a_client_share_one_connection() {
    let member = Member::start(false).await;
    assert_eq!(member.asked_at_once(5).await, 1);
    assert_eq!(member.asked_at_once(2).await, 1);
}

#[tokio::test]
async fn closed_connection_is_replaced() {
    let member = Member::start(true).await;
    assert_eq!(member.asked_at_once(3).await, 3);
}

#[tokio::test]
async fn probe_of_a_member_that_closes_each_connection_is_whole() {
    let member = Member::start(true).await;
    let mut own = member.upstream.open().await.unwrap();
    for _ in 0..3 {
        assert_eq!(own.get("/readyz").await.unwrap().status, 200);
    }
    assert_eq!(member.connections.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn cancelled_request_lets_the_next_one_run() {
    let member = Member::start(false).await;
    let maps = Api::<ConfigMap>::namespaced(member.client.clone(), "ns");
    for _ in 0..3 {
        // Started, and dropped before the answer.
        let _ = futures_util::poll!(std::pin::pin!(maps.get("a")));
        tokio::task::yield_now().await;
    }
    assert!(member.asked_at_once(2).await >= 1);
}

#[tokio::test]
async fn withheld_rest_of_an_answer_is_not_waited_for() {
    let begun = Arc::new(Notify::new());
    let answered = begun.clone();
    let member = Member::that_serves(move |mut stream| {
        let answered = answered.clone();
        async move {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").await.unwrap();
            stream.flush().await.unwrap();
            answered.notify_one();
            std::future::pending::<()>().await;
        }
    })
    .await;
    let maps = Api::<ConfigMap>::namespaced(member.client.clone(), "ns");
    let asked = tokio::spawn(async move { maps.get("a").await });
    begun.notified().await;
    tokio::time::pause();
    let asked = timeout(3 * TIMEOUT, asked).await.expect("the request waits for the rest");
    assert!(asked.unwrap().is_err());
}

#[tokio::test]
async fn answer_of_too_many_empty_objects_is_an_error() {
    // An empty object takes two bytes of the answer, and hundreds in memory.
    for (objects, is_read) in [(1_000, true), (MAX_VALUES, false)] {
        let items = vec!["{}"; objects].join(",");
        let member =
            Member::that_answers(format!(r#"{{"metadata":{{}},"items":[{items}]}}"#).into(), false).await;
        let read =
            Api::<ConfigMap>::namespaced(member.client.clone(), "ns").list(&ListParams::default()).await;
        assert_eq!(read.is_ok(), is_read, "{objects}: {:?}", read.err());
    }
}

#[tokio::test]
async fn large_answers_of_many_members_are_not_read_at_once() {
    let map = |size: usize| format!(r#"{{"metadata":{{"name":"a"}},"data":{{"k":"{}"}}}}"#, "x".repeat(size));
    let empty =
        format!(r#"{{"metadata":{{"name":"a"}},"data":{{}},"x":[{}]}}"#, vec!["{}"; SMALL_VALUES].join(","));
    let places: &Semaphore = Box::leak(Box::new(Semaphore::new(1)));
    let small = Member::that_answers(map(1_000).into(), false).await;
    for large in [map(SMALL_ANSWER), empty] {
        let large = Member::that_answers(large.into(), false).await;
        let client = |member: &Member| {
            Api::<ConfigMap>::namespaced(Client::over(member.upstream.clone(), places), "ns")
        };
        let first = client(&large);
        for _ in 0..2 {
            first.get("a").await.unwrap();
        }
        let second = client(&large);
        let late = timeout(TIMEOUT / 10, second.get("a")).await;
        assert!(late.is_err(), "both are in memory");
        client(&small).get("a").await.unwrap();
        drop(first);
        second.get("a").await.unwrap();
    }
}

#[tokio::test]
async fn too_large_answer_is_an_error() {
    let map = |size: usize| {
        let (head, tail) = (br#"{"metadata":{"name":"a"},"data":{"k":""#, br#""}}"#);
        let filler = vec![b'x'; size - head.len() - tail.len()];
        Bytes::from([&head[..], &filler, tail].concat())
    };
    // This is also far more than may arrive before the head.
    for (size, is_read) in [(MAX_OBJECTS, true), (MAX_OBJECTS + 1, false)] {
        let member = Member::that_answers(map(size), false).await;
        let read = Api::<ConfigMap>::namespaced(member.client.clone(), "ns").get("a").await;
        assert_eq!(read.is_ok(), is_read, "{size}: {:?}", read.err());
    }
}
