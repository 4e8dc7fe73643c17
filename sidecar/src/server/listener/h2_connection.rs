//! Serves one HTTP/2 connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::rt::bounds::Http2ServerConnExec;
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::gate::{Gate, GatedStream};
use super::lingering::Lingering;
use super::streams::{Streams, UnlessCut};
use super::{Error, drive};
use crate::connection::head_limit::HeadLimit;
use crate::connection::places::Proof;
use crate::identity::peer::Peer;
use crate::limits::upload::{Account, small_frames};

/// An HTTP/2 connection after its handshake.
pub(super) struct Connection<'a, S> {
    pub(super) stream: S,
    pub(super) account: Account,
    pub(super) proof: Proof,
    pub(super) peer: &'a Arc<Peer>,
    pub(super) streams: Streams,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<'_, S> {
    /// Serves the connection until it ends, or until its account cuts it off.
    pub(super) async fn serve<T, B>(self, service: T, shutdown: &CancellationToken) -> hyper::Result<()>
    where
        T: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
        B: Body + 'static,
        B::Error: Into<Error>,
        Streams: Http2ServerConnExec<T::Future, B>,
    {
        let Self { stream, account, proof, peer, streams } = self;
        let cutoff = account.cutoff();
        let stream = TokioIo::new(GatedStream::new(Lingering::new(stream), Gate::new(peer.clone(), account)));
        let served = builder(proof, streams).serve_connection(stream, service);
        let driven = drive(served, http2::Connection::graceful_shutdown, peer, shutdown, true);
        UnlessCut::new(driven, cutoff).await.unwrap_or(Ok(()))
    }
}

pub(super) fn builder(proof: Proof, streams: Streams) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(streams);
    // All streams share the connection's window. It is large enough for all of them, so that one unread upload
    // does not stop the others (kubernetes/kubernetes#67902).
    let (heads, window) = match proof {
        // Cancelled streams and protocol errors of the host's clients are not counted for this connection,
        // because one user could end it for all others. Instead, the permits of cancelled requests
        // are held for a while, and `SmallFrames` ends requests before h2 ends the connection.
        Proof::FrontProxy => {
            builder.max_pending_accept_reset_streams(usize::MAX).max_local_error_reset_streams(None);
            (HeadLimit::FRONT_PROXY, small_frames::CONNECTION_WINDOW)
        }
        Proof::User | Proof::Nothing => (HeadLimit::CALLER, STREAM_WINDOW * MAX_STREAMS),
    };
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(window)
        .max_send_buf_size(STREAM_WINDOW as usize)
        .max_header_list_size(u32::try_from(heads.bytes).unwrap_or(u32::MAX))
        // A client cannot answer a ping in the middle of a head.
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// Go's timeout, and half of its interval: the sum is less than [`TIMEOUT`](super::header_timeout::TIMEOUT).
const PING_TIMEOUT: Duration = Duration::from_secs(15);
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// For more streams, Go opens another connection.
const MAX_STREAMS: u32 = 250;
const STREAM_WINDOW: u32 = 64 * 1024;
