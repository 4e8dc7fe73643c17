//! The secure port: accepts connections, speaks TLS, and serves HTTP/1.1 or HTTP/2 on each. Limits
//! are those of a kube-apiserver (`server/secure_serving.go`), raised where hyper's are lower.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, debug, info_span, warn};

use crate::app::App;
use crate::handler;
use crate::peer::Peer;
use crate::request_info::MAX_HEADERS;
use crate::workers::Workers;

mod seldom;
mod slow_head;

use seldom::Seldom;
use slow_head::CallerStream;

/// Accepts connections until `shutdown`, each for the worker that serves the fewest.
pub async fn run(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    app: Arc<App>,
    workers: &Workers,
    connections: TaskTracker,
    shutdown: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(tls);
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Both arms are cancel-safe: accept() loses no connection.
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            accepted = accept(&listener, &room) => accepted,
        };
        let (stream, address, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(error = %error, "a connection cannot be accepted");
                // Mostly too many open files, which no haste will mend.
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (acceptor, app, shutdown) = (acceptor.clone(), app.clone(), shutdown.clone());
        let span = info_span!("connection", client.address = %address);
        let worker = workers.least_busy();
        let busy = worker.busy(app.metrics.connections.clone());
        let served = async move {
            let _busy = busy;
            if let Err(error) = serve(stream, address, permit, acceptor, &app, shutdown).await {
                debug!(error = %error, "connection ended");
            }
        };
        connections.spawn_on(served.instrument(span), worker.runtime());
    }
}

type Room = tokio::sync::OwnedSemaphorePermit;

/// Waits for room first: what cannot be served stays in the kernel's queue.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(std::net::TcpStream, SocketAddr, Room)> {
    let permit = room.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, address) = listener.accept().await?;
    // It is the worker's reactor that is to watch it.
    Ok((stream.into_std()?, address, permit))
}

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn serve(
    stream: std::net::TcpStream,
    address: SocketAddr,
    room: Room,
    acceptor: TlsAcceptor,
    app: &Arc<App>,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    let stream = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await??;
    let (_, session) = stream.get_ref();
    let peer = Arc::new(Peer::new(address, session.peer_certificates(), Some(room)));
    // kubectl's upgrades come without ALPN and mean HTTP/1.1.
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let heads = if app.authenticator.is_front_proxy(&peer) { FRONT_PROXYS_HEADS } else { CALLERS_HEADS };
    let service = {
        let (app, peer) = (app.clone(), peer.clone());
        service_fn(move |request: Request<Incoming>| {
            let (app, peer) = (app.clone(), peer.clone());
            async move { Ok::<_, Infallible>(handler::handle(app, peer, request).await) }
        })
    };
    if is_http2 {
        // hyper keeps what made the answer's head for as long as the stream is open: what a watch
        // needs no more must not stay.
        let service = service_fn(move |request| Box::pin(service.call(request)));
        let connection = http2(heads).serve_connection(TokioIo::new(stream), service);
        Ok(drive(connection, http2::Connection::graceful_shutdown, &peer, &shutdown, true).await?)
    } else {
        let stream = CallerStream::new(stream, peer.clone());
        let connection = http1(heads).serve_connection(TokioIo::new(stream), service).with_upgrades();
        let idle = Seldom::new(idle(&peer));
        tokio::select! {
            biased;
            ended = drive(connection, http1::UpgradeableConnection::graceful_shutdown, &peer, &shutdown, false) => Ok(ended?),
            () = idle => Ok(()),
        }
    }
}

/// Serves a connection to its end, which is its client's choice until it retires.
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
        () = Seldom::new(retirement(peer, shutdown, is_http2)) => retire(connection.as_mut()),
    }
    if peer.is_known() {
        return connection.await;
    }
    // Nobody we know waits for an answer here.
    timeout(STRANGERS_GRACE, connection).await.unwrap_or(Ok(()))
}

/// Resolves when an HTTP/1.1 connection had no request for as long as a kube-apiserver keeps one.
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

/// When a connection takes no more requests: at the shutdown, when a request says so (a refused
/// login over HTTP/2, `--goaway-chance`), when nobody logged in on it for a while, or after some ten minutes, so that a host's one connection does not stay with one replica
/// for good.
///
/// Over HTTP/1.1 age only makes the next answer the last one: GOAWAY says which requests will be answered,
/// and a connection that is just closed does not.
async fn retirement(peer: &Peer, shutdown: &CancellationToken, is_http2: bool) {
    let age = CONNECTION_AGE.mul_f64(1.0 + CONNECTION_AGE_JITTER * random_fraction());
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

/// Between -1 and 1.
fn random_fraction() -> f64 {
    let mut bytes = [0; 2];
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => f64::from(i16::from_be_bytes(bytes)) / f64::from(i16::MAX),
        Err(_) => 0.0,
    }
}

/// How large a request's head may be. hyper's own limits refuse real users: the front proxy sends a
/// line for each group and extra value. Strangers get no more than a caller needs, since a head is
/// held before its sender is known.
#[derive(Clone, Copy)]
struct Heads {
    /// HTTP/1.1 only; `None` is hyper's own 100, which cost no allocation.
    lines: Option<usize>,
    bytes: u32,
}

/// A kube-apiserver's `MaxHeaderBytes`.
const FRONT_PROXYS_HEADS: Heads = Heads { lines: Some(MAX_HEADERS), bytes: 1 << 20 };
const CALLERS_HEADS: Heads = Heads { lines: None, bytes: 1 << 16 };

fn http1(heads: Heads) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // One timer for idle connections and heads, made anew for each request: `idle` and `slow_head`
        // tell the two apart, and cost a request nothing.
        .header_read_timeout(None)
        .max_buf_size(heads.bytes as usize);
    if let Some(lines) = heads.lines {
        builder.max_headers(lines);
    }
    builder
}

fn http2(heads: Heads) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        // A connection's window is that of all its streams together: one upload that nobody reads
        // must not stop the others (kubernetes/kubernetes#67902).
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW * MAX_STREAMS)
        .max_send_buf_size(STREAM_WINDOW as usize)
        .max_header_list_size(heads.bytes)
        // Nobody can answer a ping in the middle of a head.
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// Each takes a task, a socket and TLS buffers.
const MAX_CONNECTIONS: usize = 16_384;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The aggregator gives up after as long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Go's, and half of its interval: together less than [`slow_head::TIMEOUT`].
const PING_TIMEOUT: Duration = Duration::from_secs(15);
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// A kube-apiserver's.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Go opens another connection beyond them.
const MAX_STREAMS: u32 = 250;
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_AGE: Duration = Duration::from_secs(600);
/// How long a connection may go without anybody logging in. Discovery needs no log-in: it comes again.
const STRANGERS_AGE: Duration = Duration::from_secs(60);
const STRANGERS_GRACE: Duration = Duration::from_secs(10);
/// A share of the age, either way.
const CONNECTION_AGE_JITTER: f64 = 0.2;

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn lifetime(known: bool) -> Duration {
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), None, None);
        if known {
            peer.is_now_known();
        }
        let began = Instant::now();
        retirement(&peer, &CancellationToken::new(), true).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nobody_logs_in_retires_after_a_minute() {
        assert!(lifetime(false).await <= STRANGERS_AGE + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_callers_connection_retires_after_ten_minutes_or_so() {
        let lifetime = lifetime(true).await;
        assert!((480..=721).contains(&lifetime.as_secs()), "{lifetime:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_http1_connection_is_not_closed_and_its_next_answer_is_the_last() {
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), None, None);
        peer.is_now_known();
        let never = CancellationToken::new();
        let hours = Duration::from_secs(7200);
        assert!(timeout(hours, retirement(&peer, &never, false)).await.is_err(), "it was closed");
        assert!(peer.is_leaving());
    }

    #[tokio::test]
    async fn an_http2_connection_that_retires_answers_what_is_under_way_and_ends() {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        let retiring = peer.clone();
        let service = service_fn(move |_: Request<Incoming>| {
            retiring.retire();
            async { Ok::<_, Infallible>(http::Response::new(String::from("answer"))) }
        });
        let server = http2(CALLERS_HEADS).serve_connection(TokioIo::new(server), service);
        let (mut sender, client) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
        let client = tokio::spawn(client);
        let request = Request::builder().uri("https://x/").body(String::new()).unwrap();
        let never = CancellationToken::new();
        // Either may hang up first.
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
    async fn at_a_shutdown_every_connection_retires_at_once() {
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), None, None);
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        assert!(timeout(Duration::from_secs(1), retirement(&peer, &shutdown, true)).await.is_ok());
    }
}
