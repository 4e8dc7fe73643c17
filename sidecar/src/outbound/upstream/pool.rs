//! Pools the idle connections to one member.
//!
//! The request that uses a connection also drives it, in the request's own task: no data moves between tasks
//! or cores on the way to a member and back. An idle connection is not driven; when it is taken,
//! the pool checks whether it is still open. An idle connection is closed before the member would
//! close it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use tokio::time::interval;
use tokio_util::task::AbortOnDropHandle;

use super::connect::lookup::BoxError;
use super::connect::{self, Connector};
use super::outgoing::Outgoing;
use super::own_connection::OwnConnection;
use super::stream::{BeforeHead, MemberStream};
use crate::base::locked::Locked;
use crate::base::workers;
use crate::limits::in_flight::Caller;
use crate::outbound::tunnel::purpose::Purpose;
use crate::outbound::tunnel::registry::AgentTunnel;
use crate::outbound::tunnel::stream::directions::Directions;

/// The connections to one member.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    idle: Arc<Idle>,
    _sweeper: AbortOnDropHandle<()>,
}

/// One list for each worker, because a connection belongs to the reactor of the thread that opened it. The
/// most recently used connection is taken first, so that surplus ones become old.
#[derive(Debug)]
struct Idle(Vec<Locked<Vec<Connection>>>);

/// A connection and its driver.
#[derive(Debug)]
struct Connection {
    sender: http1::SendRequest<Outgoing>,
    driver: Pin<Box<http1::Connection<TokioIo<MemberStream>, Outgoing>>>,
    before_head: BeforeHead,
    /// The agent's tunnel that carries it, if any.
    tunnel: Option<Arc<AgentTunnel>>,
    stream: Option<Arc<Directions>>,
    /// When it takes no more requests, even if it still works.
    retires: Option<Instant>,
    ended: bool,
    idle_since: Instant,
    worker: usize,
}

/// Where a request failed, before an answer.
#[derive(Debug)]
pub(super) enum Failed {
    /// No connection could be opened; nothing was sent.
    Connect(BoxError),
    /// On a connection that was opened for this request.
    New(hyper::Error),
    /// On a connection that had served other requests.
    Pooled(hyper::Error),
}

/// A member's body, and its connection, which returns to the pool at the end of the body.
#[derive(Debug)]
pub struct MemberBody {
    body: Incoming,
    finished: bool,
    broken: Option<hyper::Error>,
    /// The part that was already read to decide whether the answer may be forwarded.
    read: Option<Bytes>,
    connection: Option<(Connection, Weak<Idle>)>,
    /// A connection outside the pool, which ends with the body.
    _own: Option<OwnConnection>,
}

impl Pool {
    pub(super) fn new(connector: Connector) -> Self {
        let idle = Arc::new(Idle((0..workers::count()).map(|_| Locked::default()).collect()));
        let swept = Arc::downgrade(&idle);
        let pause = if connector.is_by_agent() { SWEEP_BY_AGENT } else { SWEEP };
        let sweeper = async move {
            let mut every = interval(pause);
            loop {
                every.tick().await;
                let Some(idle) = swept.upgrade() else { return };
                idle.sweep();
            }
        };
        Self { connector, idle, _sweeper: AbortOnDropHandle::new(tokio::spawn(sweeper)) }
    }

    /// Sends a request over an idle connection, or over a new one. If an idle connection had just closed
    /// before it took the request, nothing was sent, so the request is sent again.
    pub(super) async fn send(&self, mut request: Request<Outgoing>) -> Result<Response<MemberBody>, Failed> {
        while let Some(mut connection) = self.idle.take() {
            match connection.exchange(request).await {
                Ok(response) => return Ok(self.lend(response, connection)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Failed::Pooled(failed.into_error())),
                },
            }
        }
        Box::pin(self.send_anew(request)).await
    }

    /// Number of idle connections.
    pub(super) fn idle(&self) -> usize {
        self.idle.0.iter().map(|idle| idle.with(|idle| idle.len())).sum()
    }

    /// Closes idle connections that are surplus or too old.
    pub(super) fn sweep(&self) {
        self.idle.sweep();
    }

    /// Sends a request over a new connection.
    pub(super) async fn send_anew(&self, request: Request<Outgoing>) -> Result<Response<MemberBody>, Failed> {
        let mut connection = self.open().await?;
        match connection.exchange(request).await {
            Ok(response) => Ok(self.lend(response, connection)),
            Err(failed) => Err(Failed::New(failed.into_error())),
        }
    }

    async fn open(&self) -> Result<Connection, Failed> {
        let io = self.connector.connect(Purpose::Requests).await.map_err(Failed::Connect)?;
        let (transport, _) = io.inner().get_ref().get_ref();
        let (tunnel, stream) = (connect::agent_tunnel(transport), connect::agent_stream(transport));
        let before_head = io.inner().hook().clone();
        let (sender, driver) = http1_builder().handshake(io).await.map_err(Failed::New)?;
        let (driver, idle_since, worker) = (Box::pin(driver), Instant::now(), workers::current());
        let is_at_peer = tunnel.is_none() && self.connector.is_by_agent();
        let retires = is_at_peer.then(|| idle_since + USED_AT_PEER);
        Ok(Connection {
            sender,
            driver,
            before_head,
            tunnel,
            stream,
            retires,
            ended: false,
            idle_since,
            worker,
        })
    }

    fn lend(&self, response: Response<Incoming>, connection: Connection) -> Response<MemberBody> {
        let connection = Some((connection, Arc::downgrade(&self.idle)));
        response.map(|body| MemberBody {
            body,
            finished: false,
            broken: None,
            read: None,
            connection,
            _own: None,
        })
    }
}

impl Idle {
    fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.0.get(workers::current())?.with(Vec::pop)?;
            if connection.is_idle() && connection.idle_since.elapsed() < MAX_IDLE_TIME {
                return Some(connection);
            }
        }
    }

    fn give_back(&self, mut connection: Connection) {
        connection.idle_since = Instant::now();
        let Some(idle) = self.0.get(connection.worker) else { return };
        idle.with(|idle| {
            if idle.len() < MAX_IDLE {
                idle.push(connection);
            }
        });
    }

    fn sweep(&self) {
        for idle in &self.0 {
            idle.with(|idle| {
                // The connections at the front have been idle for the longest time.
                let mut surplus = idle.len().saturating_sub(KEPT);
                idle.retain_mut(|connection| {
                    let time = if surplus > 0 { SURPLUS_IDLE_TIME } else { MAX_IDLE_TIME };
                    surplus = surplus.saturating_sub(1);
                    connection.idle_since.elapsed() < time && connection.is_idle()
                });
            });
        }
    }
}

impl Connection {
    /// Sends a request and drives the connection until the head of the answer arrives.
    async fn exchange(
        &mut self,
        request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Outgoing>>> {
        self.before_head.begin();
        let mut answered = std::pin::pin!(self.sender.try_send_request(request));
        let (driver, ended) = (&mut self.driver, &mut self.ended);
        let answered = poll_fn(|cx| {
            // The driver is polled first, so that the data it reads is seen in the same poll. Once it ended,
            // the answer has arrived or never will.
            *ended = *ended || driver.as_mut().poll(cx).is_ready();
            answered.as_mut().poll(cx)
        })
        .await;
        self.before_head.end();
        answered
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        self.ended = self.ended || self.driver.as_mut().poll(cx).is_ready();
    }

    /// Whether it is open and idle. A connection whose tunnel is about to end takes no more requests.
    fn is_idle(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.ended
            && self.sender.is_ready()
            && !self.tunnel.as_ref().is_some_and(|tunnel| tunnel.is_leaving())
            && self.retires.is_none_or(|end| Instant::now() < end)
    }
}

impl MemberBody {
    /// A body on a connection outside the pool.
    pub(crate) fn alone(body: Incoming, own: Option<OwnConnection>) -> Self {
        Self { body, finished: false, broken: None, read: None, connection: None, _own: own }
    }

    /// Charges the bytes of this body in an agent's tunnel to the caller.
    pub fn charge(&self, caller: Caller) {
        if let Some((Connection { stream: Some(stream), .. }, _)) = &self.connection {
            stream.serves(caller);
        }
    }

    /// Puts back the part that was read.
    pub(super) fn unread(mut self, read: Bytes) -> Self {
        self.read = Some(read);
        self
    }
}

impl Body for MemberBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(read) = self.read.take() {
            return Poll::Ready(Some(Ok(Frame::data(read))));
        }
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let mut frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_pending()
            && let Some((connection, _)) = &mut self.connection
        {
            connection.drive(cx);
            frame = Pin::new(&mut self.body).poll_frame(cx);
        }
        match frame {
            // hyper drops unwritten data when a body fails, so the error is delayed until hyper has written
            // it.
            Poll::Ready(Some(Err(error))) => {
                self.broken = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            frame => {
                self.finished |= matches!(frame, Poll::Ready(None));
                frame
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.read {
            Some(read) => SizeHint::with_exact(read.len() as u64),
            None => self.body.size_hint(),
        }
    }
}

impl Drop for MemberBody {
    fn drop(&mut self) {
        let Some((mut connection, pool)) = self.connection.take() else { return };
        let over = self.finished || self.body.is_end_stream();
        if over
            && connection.is_idle()
            && let Some(pool) = pool.upgrade()
        {
            pool.give_back(connection);
        }
    }
}

/// A kube-apiserver closes idle connections after 90 s. The sidecar closes them first, so that no request
/// meets a connection that is being closed.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);
/// Each worker keeps this many connections for that time. Surplus connections after a burst are
/// closed sooner, to release their memory.
const KEPT: usize = 8;
const SURPLUS_IDLE_TIME: Duration = Duration::from_secs(15);
const SWEEP: Duration = Duration::from_secs(15);
const SWEEP_BY_AGENT: Duration = Duration::from_secs(5);
const MAX_IDLE: usize = 128;
/// Another replica cannot announce its shutdown on a connection, and cuts it after its grace period of 20 s.
/// By then a sweep has closed the retired ones.
const USED_AT_PEER: Duration = Duration::from_secs(10);

/// The settings of HTTP/1.1 to a member.
pub(super) fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_UNREAD);
    builder
}

/// Maximum buffered bytes of an unread response: 6 MiB if all seats of a member are in use. hyper's default
/// bound is 400 KiB, and TLS delivers at most 16 KiB at once. This also bounds the head of an
/// answer.
const MAX_UNREAD: usize = 64 * 1024;
