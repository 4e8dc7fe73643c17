//! Serves the secure port: accepts connections, performs the TLS handshake, and serves HTTP/1.1 or HTTP/2.
//! The limits are those of a kube-apiserver (`server/secure_serving.go`), even where hyper's are
//! lower.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, debug, info_span};

use crate::base::random;
use crate::base::tcp;
use crate::base::workers::Workers;
use crate::connection::head_limit::HeadLimit;
use crate::connection::places::{Place, Proof};
use crate::connection::tls::replicas;
use crate::identity::peer::Peer;
use crate::limits::cutoff::{Cutoff, UNREAD_TIMEOUT};
use crate::limits::upload::{Account, Upload};
use crate::outbound::tunnel::peers::answer::answer;
use crate::request::handler::{self, Arrival};
use crate::request::services::Services;

mod frames;
mod gate;
mod h2_connection;
mod header_timeout;
mod lingering;
mod metrics;
mod own_waker;
mod streams;

use h2_connection::Connection;
use header_timeout::{HeaderTimeout, HeaderTimeoutStream};
pub use metrics::Metrics;
use own_waker::WithOwnWaker;
use streams::{Streams, UnlessCut};

/// Accepts connections until `shutdown`, and gives each to the worker with the fewest connections.
pub async fn run(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    services: Arc<Services>,
    metrics: Arc<Metrics>,
    workers: &Workers,
    connections: TaskTracker,
    shutdown: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(tls);
    while let Some((stream, address)) = tcp::accept(&listener, &shutdown).await {
        // Closed at once if there is no slot for it: the next connection in the kernel's queue may get one.
        let Some(place) = services.places.connection(address) else {
            metrics.refused.inc();
            continue;
        };
        // The stream must register with the worker's reactor.
        let Ok(stream) = stream.into_std() else { continue };
        let (acceptor, services, shutdown) = (acceptor.clone(), services.clone(), shutdown.clone());
        let metrics = metrics.clone();
        let span = info_span!("connection", client.address = %address);
        let worker = workers.least_busy();
        let busy = worker.busy(metrics.open.clone());
        let served = async move {
            let _busy = busy;
            if let Err(error) = serve(stream, address, place, acceptor, &services, &metrics, shutdown).await {
                debug!(error = %error, "connection ended");
            }
        };
        connections.spawn_on(served.instrument(span), worker.runtime());
    }
}

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn serve(
    stream: std::net::TcpStream,
    address: SocketAddr,
    place: Place,
    acceptor: TlsAcceptor,
    services: &Arc<Services>,
    metrics: &Metrics,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 2).with_retries(2);
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNREAD_TIMEOUT))?;
    let handshake = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await.map_err(Into::into).flatten();
    let stream = handshake.inspect_err(|_| _ = metrics.handshake_errors.inc())?;
    metrics.handshakes.inc();
    let (_, session) = stream.get_ref();
    let mut peer = Peer::new(address, session.peer_certificates(), Some(place));
    if session.alpn_protocol() == Some(replicas::ALPN) {
        let is_replica = services.agent_tunnels.peers().is_replica(session.peer_certificates());
        if !is_replica || !peer.may_stay(Proof::User) {
            metrics.refused.inc();
            return Err("not a replica of this installation".into());
        }
        let stopped = services.tunnels.stop.cancelled();
        return Ok(answer(stream, &services.agent_tunnels, stopped).await?);
    }
    let proof = services.authenticator.proof(&peer);
    if !peer.may_stay(proof) {
        metrics.refused.inc();
        return Err("no place for a connection of a peer that is not known".into());
    }
    if proof == Proof::FrontProxy {
        peer.heads = HeadLimit::FRONT_PROXY;
    }
    if proof != Proof::Nothing {
        peer.mark_authenticated();
    }
    let peer = Arc::new(peer);
    // kubectl's upgrades come without ALPN and use HTTP/1.1.
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    #[cfg(target_os = "linux")]
    if !is_http2 {
        // The client may pause a log or an upgraded connection, and TCP_USER_TIMEOUT also ends a
        // connection whose client is alive but does not read (tcp(7)). HTTP/2 can pause single
        // streams, and has pings.
        SockRef::from(stream.get_ref().0).set_tcp_user_timeout(None)?;
    }
    let account = is_http2.then(|| match proof {
        Proof::FrontProxy => Account::Streams(Arc::default()),
        Proof::User | Proof::Nothing => {
            Account::Connection(services.direct_uploads.connection(peer.holder()))
        }
    });
    let serve = |peer: &Arc<Peer>, cutoff: Arc<Cutoff>, request: Request<Incoming>| {
        let request = request.map(|body| Upload::new(body, account.as_ref(), &cutoff));
        let arrival = Arrival { waiting: peer.request_of_stranger(), cutoff };
        let (services, peer) = (services.clone(), peer.clone());
        async move { Ok::<_, Infallible>(handler::handle(services, peer, arrival, request).await) }
    };
    if let Some(account) = &account {
        let streams = Streams::default();
        let executor = streams.clone();
        // hyper keeps the future that made the answer's head for as long as the stream is open. It is boxed,
        // so that a watch does not keep memory that it no longer needs.
        let service = service_fn(|request| Box::pin(serve(&peer, streams.begin(), request)));
        let connection =
            Connection { stream, account: account.clone(), proof, peer: &peer, streams: executor };
        Ok(connection.serve(service, &shutdown).await?)
    } else {
        // There is one request at a time, so its cutoff can close the connection.
        let cutoff: Arc<Cutoff> = Arc::default();
        let service = service_fn(|request| serve(&peer, cutoff.clone(), request));
        let stream = HeaderTimeoutStream::new(stream, HeaderTimeout::new(peer.clone()));
        let connection = http1(proof).serve_connection(TokioIo::new(stream), service).with_upgrades();
        let idle = WithOwnWaker::new(idle(&peer));
        let driven =
            drive(connection, http1::UpgradeableConnection::graceful_shutdown, &peer, &shutdown, false);
        tokio::select! {
            biased;
            ended = UnlessCut::new(driven, cutoff.clone()) => {
                ended.transpose()?;
                Ok(())
            }
            () = idle => Ok(()),
        }
    }
}

/// Serves a connection until its client closes it, or until it is retired.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    retire: impl FnOnce(Pin<&mut C>),
    peer: &Peer,
    shutdown: &CancellationToken,
    is_http2: bool,
) -> hyper::Result<()> {
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = WithOwnWaker::new(retirement(peer, shutdown, is_http2)) => retire(connection.as_mut()),
    }
    if peer.is_known() {
        return connection.await;
    }
    // No authenticated caller waits for an answer here.
    timeout(STRANGERS_GRACE, connection).await.unwrap_or(Ok(()))
}

/// Resolves when an HTTP/1.1 connection has been idle for as long as a kube-apiserver allows.
async fn idle(peer: &Peer) {
    loop {
        let left = match peer.idle_since() {
            None => IDLE_TIMEOUT / 3,
            Some(since) => (since + IDLE_TIMEOUT).saturating_duration_since(Instant::now().into_std()),
        };
        if left.is_zero() {
            return;
        }
        sleep(left).await;
    }
}

/// Resolves when a connection must take no more requests: at the shutdown, when a request retires it (a
/// refused login over HTTP/2, `--goaway-chance`), after a minute without a login, or after about ten minutes,
/// so that a host's only connection does not stay with the same replica forever.
///
/// Over HTTP/1.1, age only makes the next answer the last one. GOAWAY names the requests that will
/// still be answered; a closed HTTP/1.1 connection does not.
async fn retirement(peer: &Peer, shutdown: &CancellationToken, is_http2: bool) {
    let age = CONNECTION_AGE.mul_f64(1.0 + CONNECTION_AGE_JITTER * 2.0f64.mul_add(random::fraction(), -1.0));
    let aged = async {
        sleep(STRANGERS_AGE).await;
        if peer.is_known() {
            sleep(age.saturating_sub(STRANGERS_AGE)).await;
            if !is_http2 {
                peer.leave();
                pending::<()>().await;
            }
        }
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = peer.retired() => {}
        () = aged => {}
    }
}

fn http1(proof: Proof) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // hyper would use one timer for idle connections and heads, and reset it for each request. `idle` and
    // `header_timeout` have separate limits, and cost a request nothing.
    builder.header_read_timeout(None);
    match proof {
        Proof::FrontProxy => {
            let HeadLimit { fields, bytes } = HeadLimit::FRONT_PROXY;
            builder.max_headers(fields).max_buf_size(bytes);
        }
        // hyper's default of 100 fields needs no allocation. The buffer also fits a long target.
        Proof::User | Proof::Nothing => drop(builder.max_buf_size(MAX_BUFFER)),
    }
    builder
}

const MAX_BUFFER: usize = 64 * 1024;
/// The aggregator has the same timeout.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const KEEPALIVE: Duration = Duration::from_secs(30);
/// The same as in a kube-apiserver.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
const CONNECTION_AGE: Duration = Duration::from_secs(600);
/// How long a connection may stay without a login. Discovery needs no login; its clients reconnect.
const STRANGERS_AGE: Duration = Duration::from_secs(60);
const STRANGERS_GRACE: Duration = Duration::from_secs(10);
/// Relative jitter of the age, in both directions.
const CONNECTION_AGE_JITTER: f64 = 0.2;

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use hyper::server::conn::http2;
    use hyper_util::rt::TokioExecutor;

    use super::*;

    async fn lifetime(known: bool) -> Duration {
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), None, None);
        if known {
            peer.mark_authenticated();
        }
        let began = Instant::now();
        retirement(&peer, &CancellationToken::new(), true).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn connection_without_a_login_retires_after_a_minute() {
        assert!(lifetime(false).await <= STRANGERS_AGE + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn authenticated_connection_retires_after_about_ten_minutes() {
        let lifetime = lifetime(true).await;
        assert!((480..=721).contains(&lifetime.as_secs()), "{lifetime:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn aged_http1_connection_ends_with_its_next_answer() {
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), None, None);
        peer.mark_authenticated();
        let never = CancellationToken::new();
        let hours = Duration::from_secs(7200);
        assert!(timeout(hours, retirement(&peer, &never, false)).await.is_err(), "it was closed");
        assert!(peer.is_leaving());
    }

    #[tokio::test]
    async fn retired_http2_connection_finishes_open_requests() {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        let retiring = peer.clone();
        let service = service_fn(move |_: Request<Incoming>| {
            retiring.retire();
            async { Ok::<_, Infallible>(http::Response::new(String::from("answer"))) }
        });
        let server = h2_connection::builder(Proof::User, Streams::default())
            .serve_connection(TokioIo::new(server), service);
        let (mut sender, client) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
        let client = tokio::spawn(client);
        let request = Request::builder().uri("https://x/").body(String::new()).unwrap();
        let never = CancellationToken::new();
        // Either side may close first.
        let (_, answer) =
            tokio::join!(drive(server, http2::Connection::graceful_shutdown, &peer, &never, true), async {
                let answer = sender.send_request(request).await.unwrap();
                answer.into_body().collect().await.unwrap().to_bytes()
            });
        assert_eq!(answer, "answer");
        let _ = client.await.unwrap();
        assert!(sender.is_closed(), "the client was told to go away");
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_retires_every_connection_at_once() {
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), None, None);
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        assert!(timeout(Duration::from_secs(1), retirement(&peer, &shutdown, true)).await.is_ok());
    }
}
