//! The agent's end of a tunnel: an HTTP/2 server on a connection that the agent opened. A sidecar may request
//! a connection to the one target, and a few operations on the tunnel itself; any other request gets 501.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::config::Config;
use super::{Agent, enrollment, target};
use crate::base::io_hook::Hooked;
use crate::outbound::tunnel::enrollment::CAPABILITY;
use crate::outbound::tunnel::frame_limit::FrameLimit;
use crate::outbound::tunnel::keep_alive;
use crate::outbound::tunnel::link::{About, CredentialLife};
use crate::outbound::tunnel::protocol::{
    HANDSHAKE_TIMEOUT, MAX_FRAME, MAX_HEADER_LIST, MAX_SEND_BUFFER, SMALL_FRAMES_BUDGET, paths,
};
use crate::outbound::tunnel::purpose::Purpose;
use crate::outbound::tunnel::unread::Unread;
use crate::outbound::tunnel::web_socket::WebSocket;

/// Why a tunnel's slot is free.
#[derive(Debug)]
pub(super) enum Left {
    /// The replica shuts down; open connections continue.
    Drained,
    Ended(&'static str),
}

/// Serves until the tunnel ends, and reports through `left` when another tunnel may use its slot.
pub(super) async fn serve<S>(agent: Arc<Agent>, io: WebSocket<S>, left: oneshot::Sender<Left>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let heard = io.heard();
    let unread = agent.unread.tunnel(None);
    let io = Hooked::new(io, FrameLimit::of_client(unread.clone()));
    let begun = timeout(HANDSHAKE_TIMEOUT, builder(&agent.config).handshake::<_, Bytes>(io)).await;
    let Ok(Ok(mut connection)) = begun else {
        let _ = left.send(Left::Ended("the sidecar did not begin the tunnel"));
        return;
    };
    let pings = connection.ping_pong();
    let places = Arc::new(Semaphore::new(agent.config.max_streams as usize + FOR_THE_TUNNEL));
    let drain = CancellationToken::new();
    let mut left = Some(left);
    let serving = async {
        let (mut leaving, mut drained, mut _kept) = (false, pin!(drained(&drain)), None);
        loop {
            let accepted = tokio::select! {
                biased;
                () = agent.leave.cancelled(), if !leaving => {
                    leaving = true;
                    connection.graceful_shutdown();
                    continue;
                }
                () = &mut drained, if !leaving => {
                    match agent.drained.clone().try_acquire_owned() {
                        Ok(place) => _kept = Some(place),
                        Err(_) => return "too many other tunnels are shutting down",
                    }
                    leaving = true;
                    connection.graceful_shutdown();
                    continue;
                }
                () = drain.cancelled(), if left.is_some() => {
                    if let Some(left) = left.take() {
                        let _ = left.send(Left::Drained);
                    }
                    continue;
                }
                accepted = connection.accept() => accepted,
            };
            match accepted {
                Some(Ok((request, mut respond))) => {
                    // HTTP/2 counts a reset stream as closed before its task has ended.
                    let Ok(place) = places.clone().try_acquire_owned() else {
                        respond.send_reset(Reason::REFUSED_STREAM);
                        continue;
                    };
                    let answering = answer(agent.clone(), unread.clone(), request, respond, drain.clone());
                    agent.tasks.spawn(async move {
                        answering.await;
                        drop(place);
                    });
                }
                Some(Err(error)) => {
                    debug!(error = %error, "tunnel broke");
                    return "the tunnel broke";
                }
                None => return "the sidecar closed the tunnel",
            }
        }
    };
    let is_late = AtomicBool::new(false);
    let peer = keep_alive::Peer { pings, heard: &heard, is_late: &is_late };
    let why = match keep_alive::drive(unread.gathering(serving), peer, std::future::pending()).await {
        keep_alive::End::Closed(why) => why,
        keep_alive::End::Silent | keep_alive::End::Stopped => "the sidecar did not answer in time",
    };
    if let Some(left) = left.take() {
        let _ = left.send(Left::Ended(why));
    }
}

/// The limits of the agent's end of a tunnel.
fn builder(config: &Config) -> server::Builder {
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(config.max_streams)
        .initial_window_size(config.stream_window)
        .initial_connection_window_size(config.stream_window * config.max_streams)
        .max_frame_size(MAX_FRAME as u32)
        .max_header_list_size(MAX_HEADER_LIST)
        .max_send_buffer_size(MAX_SEND_BUFFER)
        .data_frame_budget(SMALL_FRAMES_BUDGET)
        .max_concurrent_reset_streams(config.max_streams as usize)
        .max_local_error_reset_streams(None);
    builder
}

/// Resolves some time after the replica announced its shutdown: until then it may open connections.
async fn drained(drain: &CancellationToken) {
    drain.cancelled().await;
    sleep(LEAVES_AFTER).await;
}

async fn answer(
    agent: Arc<Agent>,
    unread: Arc<Unread>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    drain: CancellationToken,
) {
    let (parts, mut body) = request.into_parts();
    let only = |status| (status, Vec::new());
    let (status, answer) = match (&parts.method, parts.uri.path()) {
        (&Method::CONNECT, _) => {
            let (target, asked) = (&agent.config.target, parts.uri.authority());
            let purpose = Purpose::of(&parts.headers);
            return target::carry(target, asked, purpose, body, respond, &unread).await;
        }
        (&Method::GET, paths::ABOUT) => (StatusCode::OK, about(&agent)),
        (&Method::GET, paths::ENROLL) => match agent.enrollment.hand_over().await {
            Ok(handover) => (StatusCode::OK, serde_json::to_vec(&handover).unwrap_or_default()),
            Err(error) => refusal(&error),
        },
        (&Method::DELETE, paths::ENROLL) => match agent.enrollment.end().await {
            Ok(()) => only(StatusCode::NO_CONTENT),
            Err(error) => refusal(&error),
        },
        (&Method::POST, paths::DRAIN) => {
            drain.cancel();
            only(StatusCode::NO_CONTENT)
        }
        (&Method::PUT, paths::CREDENTIAL) => match timeout(HANDSHAKE_TIMEOUT, text(&mut body)).await {
            Ok(Some(token)) if agent.login.renew(&token) => only(StatusCode::NO_CONTENT),
            _ => only(StatusCode::BAD_REQUEST),
        },
        (&Method::PUT, paths::ENDPOINT) => match timeout(HANDSHAKE_TIMEOUT, text(&mut body)).await {
            Ok(Some(endpoint)) if agent.login.learn(&endpoint) => only(StatusCode::NO_CONTENT),
            _ => only(StatusCode::BAD_REQUEST),
        },
        _ => only(StatusCode::NOT_IMPLEMENTED),
    };
    send(respond, status, answer);
}

fn about(agent: &Agent) -> Vec<u8> {
    let credential = agent
        .login
        .life()
        .map(|life| CredentialLife { issued: life.begins.as_second(), expires: life.ends.as_second() });
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let about = About { version, capabilities: vec![CAPABILITY.to_owned()], credential };
    serde_json::to_vec(&about).unwrap_or_default()
}

/// The reason why the agent does not enroll the member, as an answer to the sidecar.
fn refusal(error: &enrollment::Error) -> (StatusCode, Vec<u8>) {
    let status = match error {
        enrollment::Error::Over => StatusCode::GONE,
        enrollment::Error::Failed(_) => StatusCode::BAD_GATEWAY,
    };
    (status, error.to_string().into_bytes())
}

fn send(mut respond: SendResponse<Bytes>, status: StatusCode, body: Vec<u8>) {
    let mut response = Response::new(());
    *response.status_mut() = status;
    match respond.send_response(response, body.is_empty()) {
        Ok(mut send) if !body.is_empty() => _ = send.send_data(body.into(), true),
        Ok(_) => {}
        Err(_) => respond.send_reset(Reason::INTERNAL_ERROR),
    }
}

/// Reads a complete small body.
async fn text(body: &mut RecvStream) -> Option<String> {
    let mut read = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        body.flow_control().release_capacity(data.len()).ok()?;
        read.extend_from_slice(&data);
        if read.len() > MAX_TEXT {
            return None;
        }
    }
    String::from_utf8(read).ok().filter(|text| !text.is_empty())
}

/// Time to find another replica.
const LEAVES_AFTER: Duration = Duration::from_secs(3);
/// Concurrent requests about the tunnel itself, besides connections.
const FOR_THE_TUNNEL: usize = 8;
const MAX_TEXT: usize = 64 * 1024;
