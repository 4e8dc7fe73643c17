//! The sidecar's end of a tunnel: an HTTP/2 client on a connection that the agent opened.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use h2::client;
use http::{Method, Request, StatusCode};
use kubectl_mc_api::direct::Publication;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::accounts::Accounts;
use super::frame_limit::FrameLimit;
use super::keep_alive;
use super::protocol::{
    HANDSHAKE_TIMEOUT, MAX_FRAME, MAX_HEADER_LIST, MAX_SEND_BUFFER, MAX_STREAMS, SMALL_FRAMES_BUDGET,
    STREAM_WINDOW, paths,
};
use super::registry::{AgentTunnel, Reservation};
use super::unread::Unread;
use super::web_socket::{Role, WebSocket};
use crate::base::io_hook::Hooked;

/// The agent's description of itself, sent on request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct About {
    pub version: String,
    /// Capabilities in addition to carrying connections.
    pub capabilities: Vec<String>,
    /// When the agent's token for the host was issued and when it expires, in seconds since 1970; `None` if
    /// it does not expire or is not a token.
    pub credential: Option<CredentialLife>,
}

/// The validity of a token, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialLife {
    pub issued: i64,
    pub expires: i64,
}

/// How a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    NotSetUp,
    /// The agent closed it, or the connection broke.
    Closed,
    Silent,
    Stopped,
}

/// Drives a tunnel until the agent leaves, is silent for too long, or the tunnel must end.
pub(crate) async fn carry<S>(
    io: S,
    reservation: Reservation,
    over: impl Future<Output = ()>,
    accounts: &Accounts,
) -> End
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = WebSocket::new(io, Role::Server);
    let heard = io.heard();
    let unread = reservation.unread();
    // Boxed, because the handshake is short and the tunnel is long-lived.
    let handshake = Box::pin(timeout(HANDSHAKE_TIMEOUT, handshake(io, unread.clone())));
    let (sender, connection) = match handshake.await {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => {
            debug!(error = %error, "the agent's tunnel was not set up");
            return End::NotSetUp;
        }
        Err(_) => {
            debug!("the agent's tunnel was not set up in time");
            return End::NotSetUp;
        }
    };
    let mut connection = pin!(connection);
    let pings = connection.ping_pong();
    let registered = reservation.establish(sender, unread.clone());
    let tunnel = registered.tunnel();
    info!(
        cluster = %tunnel.cluster,
        instance = %tunnel.agent.instance,
        version = %tunnel.agent.version,
        "agent connected"
    );
    let stopped = async {
        tokio::select! {
            () = over => {}
            () = tunnel.end.cancelled() => {}
        }
    };
    let peer = keep_alive::Peer { pings, heard: &heard, is_late: &tunnel.is_late };
    let driving = keep_alive::drive(unread.gathering(connection.as_mut()), peer, stopped);
    let renewing = async {
        tokio::join!(accounts.keep_credential(tunnel), accounts.keep_endpoint(tunnel));
        std::future::pending::<()>().await;
    };
    let end = tokio::select! {
        biased;
        end = driving => end,
        () = renewing => return End::Stopped,
    };
    debug!(cluster = %tunnel.cluster, ?end, "agent's tunnel ended");
    match end {
        keep_alive::End::Closed(_) => End::Closed,
        keep_alive::End::Silent => End::Silent,
        keep_alive::End::Stopped => End::Stopped,
    }
}

type Handshake<S> = (client::SendRequest<Bytes>, client::Connection<Hooked<WebSocket<S>, FrameLimit>, Bytes>);

async fn handshake<S>(io: WebSocket<S>, unread: Arc<Unread>) -> Result<Handshake<S>, h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let io = Hooked::new(io, FrameLimit::of_server(unread));
    let mut builder = client::Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW * MAX_STREAMS)
        .max_frame_size(MAX_FRAME as u32)
        .max_header_list_size(MAX_HEADER_LIST)
        .max_send_buffer_size(MAX_SEND_BUFFER)
        .data_frame_budget(SMALL_FRAMES_BUDGET)
        .max_concurrent_reset_streams(MAX_REMEMBERED_STREAMS)
        .reset_stream_duration(REMEMBERED)
        .max_local_error_reset_streams(Some(MAX_LATE_FRAMES));
    builder.handshake(io).await
}

impl AgentTunnel {
    /// Requests the agent's description of itself.
    pub async fn about(&self) -> Option<About> {
        let (status, body) = self.ask(Method::GET, paths::ABOUT, Bytes::new()).await?;
        (status == StatusCode::OK).then(|| serde_json::from_slice(&body).ok()).flatten()
    }

    /// Sends the agent a new token for its login to the host, and returns whether it accepted it.
    pub async fn renew_credential(&self, token: &str) -> bool {
        let token = Bytes::copy_from_slice(token.as_bytes());
        let answer = self.ask(Method::PUT, paths::CREDENTIAL, token).await;
        answer.is_some_and(|(status, _)| status == StatusCode::NO_CONTENT)
    }

    /// Sends the agent the direct endpoint, and returns whether the agent answered, even if it does not know
    /// the request.
    pub async fn announce(&self, endpoint: &Publication) -> bool {
        let body = serde_json::to_vec(endpoint).unwrap_or_default().into();
        match self.ask(Method::PUT, paths::ENDPOINT, body).await {
            Some((StatusCode::BAD_REQUEST, _)) => {
                warn!(cluster = %self.cluster, "the agent rejected the CA of the direct endpoint");
                true
            }
            answer => answer.is_some(),
        }
    }

    /// Announces this replica's shutdown to the agent.
    pub async fn drain(&self) {
        let _ = self.ask(Method::POST, paths::DRAIN, Bytes::new()).await;
    }

    /// Sends one request about the tunnel, and reads its complete answer.
    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Option<(StatusCode, Vec<u8>)> {
        self.ask_within(HANDSHAKE_TIMEOUT, MAX_ANSWER, method, path, body).await
    }

    /// The same with other limits.
    pub(super) async fn ask_within(
        &self,
        limit: Duration,
        max_answer: usize,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Option<(StatusCode, Vec<u8>)> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = format!("https://agent{path}").parse().ok()?;
        let asked = async {
            let (response, mut send) = self.sender().ready().await?.send_request(request, body.is_empty())?;
            if !body.is_empty() {
                send.send_data(body, true)?;
            }
            let response = response.await?;
            let (status, mut body, mut answer) = (response.status(), response.into_body(), Vec::new());
            while let Some(data) = body.data().await {
                let data = data?;
                body.flow_control().release_capacity(data.len())?;
                answer.extend_from_slice(&data);
                if answer.len() > max_answer {
                    return Ok(None);
                }
            }
            Ok::<_, h2::Error>(Some((status, answer)))
        };
        match timeout(limit, asked).await {
            Ok(Ok(answer)) => {
                self.is_late.store(false, Ordering::Relaxed);
                answer
            }
            Ok(Err(error)) => {
                debug!(cluster = %self.cluster, error = %error, "the agent did not answer");
                None
            }
            Err(_) => None,
        }
    }
}

const MAX_ANSWER: usize = 16 * 1024;
/// Data of a stream that was reset is ignored for this time, because it may still be in transit on
/// a slow line.
const REMEMBERED: Duration = Duration::from_secs(60);
const MAX_REMEMBERED_STREAMS: usize = 4096;
/// Each frame of a forgotten stream needs an answer in memory until the agent reads. An agent that sends more
/// of them does not end its streams, and its tunnel ends.
const MAX_LATE_FRAMES: usize = 10_000;

#[cfg(test)]
pub(crate) mod tests;
