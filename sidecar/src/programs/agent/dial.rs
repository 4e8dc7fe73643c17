//! Opens one tunnel: performs the WebSocket handshake with a sidecar, through the host's API or directly.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kubectl_mc_api::path;
use serde::Deserialize;
use tokio::time::timeout;

use super::Agent;
use super::login::LoginError;
use crate::base::causes::causes;
use crate::outbound::tunnel::protocol::{AGENT_HEADER, HANDSHAKE_TIMEOUT, PROTOCOL, REPLICA_HEADER};
use crate::outbound::tunnel::web_socket::{self, Role, WebSocket};
use crate::outbound::upstream::{connect, outgoing};

/// A replica that accepted a tunnel.
pub(super) struct Dialed {
    pub(super) replica: Arc<str>,
    /// The number of replicas, if the replica knows it.
    pub(super) of: Option<usize>,
    pub(super) stream: WebSocket<TokioIo<Upgraded>>,
}

/// Why there is no tunnel.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// The replica already has a tunnel of this agent. The number is that of all replicas, if known.
    #[error("the replica has a tunnel of this agent already")]
    Held(Option<usize>),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("{status}: {message}")]
    Refused { status: StatusCode, message: String },
    #[error("invalid WebSocket handshake: {0}")]
    Handshake(&'static str),
    #[error("no answer in time")]
    Late,
}

impl DialError {
    /// Whether a retry needs a change on the host or of the credential.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Refused { status, .. } => {
                matches!(status.as_u16(), 401 | 403 | 404 | 410)
            }
            _ => false,
        }
    }
}

pub(super) async fn dial(agent: &Agent) -> Result<Dialed, DialError> {
    let connection = agent.login.connection()?;
    let io = connect::open(&connection).await.map_err(|error| DialError::Connect(chain(error.as_ref())))?;
    let handshake = async {
        let failed = |error: hyper::Error| DialError::Connect(chain(&error));
        let (mut sender, driver) = http1::handshake(io).await.map_err(failed)?;
        tokio::spawn(driver.with_upgrades());
        let key = web_socket::key();
        let target = connection.target(&path::attach(&agent.config.cluster), None);
        let mut request = Request::new(outgoing::nothing());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = target.map_err(|_| DialError::Handshake("the path cannot be sent"))?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, connection.host());
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
        for (name, value) in [(header::SEC_WEBSOCKET_KEY, key.clone()), (AGENT_HEADER, introduction(agent))] {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
        if let Some(token) = connection.authorization() {
            headers.insert(header::AUTHORIZATION, token);
        }
        let response = sender.send_request(request).await.map_err(failed)?;
        let (replica, of) = replica(&response);
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => check(&response, &key)?,
            StatusCode::CONFLICT => return Err(DialError::Held(of)),
            status => {
                if status == StatusCode::UNAUTHORIZED {
                    agent.login.was_refused(&connection);
                }
                return Err(DialError::Refused { status, message: message(response).await });
            }
        }
        let stream = hyper::upgrade::on(response).await.map_err(failed)?;
        Ok(Dialed { replica, of, stream: WebSocket::new(TokioIo::new(stream), Role::Client) })
    };
    timeout(HANDSHAKE_TIMEOUT, handshake).await.unwrap_or(Err(DialError::Late))
}

fn introduction(agent: &Agent) -> String {
    let held = agent.held.load().join(",");
    format!("{}; instance={}; held={held}", env!("CARGO_PKG_VERSION"), agent.instance)
}

/// Whether the replica's answer completes this handshake (RFC 6455, 4.1).
fn check(response: &Response<Incoming>, key: &str) -> Result<(), DialError> {
    if said(response, header::SEC_WEBSOCKET_ACCEPT) != Some(&web_socket::accept(key.as_bytes())) {
        return Err(DialError::Handshake("unexpected Sec-WebSocket-Accept"));
    }
    if said(response, header::SEC_WEBSOCKET_PROTOCOL) != Some(PROTOCOL) {
        return Err(DialError::Handshake("unexpected subprotocol"));
    }
    Ok(())
}

/// The replica that answered, and the number of replicas.
fn replica<T>(response: &Response<T>) -> (Arc<str>, Option<usize>) {
    let mut parts = said(response, REPLICA_HEADER).unwrap_or("unknown").split(';').map(str::trim);
    let replica = parts.next().unwrap_or_default().into();
    (replica, parts.find_map(|part| part.strip_prefix("of=")?.parse().ok()))
}

fn said<T>(response: &Response<T>, name: HeaderName) -> Option<&str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// The message of a `metav1.Status`, or the body's text.
async fn message(response: Response<Incoming>) -> String {
    #[derive(Deserialize)]
    struct Status {
        message: String,
    }
    let body = Limited::new(response.into_body(), MAX_MESSAGE).collect().await;
    let Ok(body) = body else { return String::new() };
    let body = body.to_bytes();
    match serde_json::from_slice::<Status>(&body) {
        Ok(status) => status.message,
        Err(_) => String::from_utf8_lossy(&body).trim().chars().take(200).collect(),
    }
}

/// An error with its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut texts: Vec<String> = causes(error).map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}

const MAX_MESSAGE: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that has lost its registry gives every agent such an answer until it is restored.
    #[test]
    fn unknown_cluster_is_tried_again_at_the_longest_interval() {
        for status in [StatusCode::NOT_FOUND, StatusCode::GONE] {
            assert!(DialError::Refused { status, message: String::new() }.is_lasting(), "{status}");
        }
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        assert!(!DialError::Refused { status: unavailable, message: String::new() }.is_lasting());
    }

    #[test]
    fn answer_contains_replica_name_and_number_of_replicas() {
        let named = |said: Option<&'static str>| {
            let mut response = Response::new(());
            if let Some(said) = said {
                response.headers_mut().insert(REPLICA_HEADER, HeaderValue::from_static(said));
            }
            let (replica, of) = replica(&response);
            (replica.to_string(), of)
        };
        assert_eq!(named(Some("a_1; of=3")), ("a_1".to_owned(), Some(3)));
        assert_eq!(named(Some("a_1")), ("a_1".to_owned(), None));
        assert_eq!(named(Some("a_1; of=many")), ("a_1".to_owned(), None));
        assert_eq!(named(None), ("unknown".to_owned(), None));
    }
}
