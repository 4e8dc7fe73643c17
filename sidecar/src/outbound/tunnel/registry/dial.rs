//! Opens one connection to a member through its agent, with a CONNECT request (RFC 9113, 8.5).

use bytes::Bytes;
use h2::client::SendRequest;
use http::uri::Authority;
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version};
use jiff::Timestamp;

use crate::outbound::tunnel::agent_tunnel::Place;
use crate::outbound::tunnel::protocol::DIAL_HEADER;
use crate::outbound::tunnel::purpose::Purpose;
use crate::outbound::tunnel::stream::TunnelStream;

/// Why there is no connection through a tunnel.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("no agent has been connected since {since:.0}")]
    NoAgent { since: Timestamp },
    #[error("all connections of the agent's tunnels are in use")]
    Full,
    #[error("the agent refuses connections to {0}, which is not its --target")]
    NotTheTarget(Authority),
    /// The result that the agent reported.
    #[error("the agent cannot connect to the member: {0}")]
    Failed(Reason),
    #[error("the agent does not answer")]
    Silent,
    #[error("the agent answered {0} to a CONNECT request")]
    Unexpected(StatusCode),
    #[error("the agent's tunnel broke: {0}")]
    Broken(#[from] h2::Error),
    #[error("the agent's tunnel ended")]
    Ended,
}

/// Why an agent cannot connect to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Refused,
    Timeout,
    Dns,
    Network,
}

impl DialError {
    /// Whether the agent tried, and the member is at fault.
    pub fn is_of_the_member(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Silent)
    }

    /// Whether another tunnel may work.
    pub fn is_of_the_tunnel(&self) -> bool {
        match self {
            Self::NoAgent { .. } | Self::Full | Self::Silent | Self::Broken(_) | Self::Ended => true,
            Self::NotTheTarget(_) | Self::Failed(_) | Self::Unexpected(_) => false,
        }
    }
}

impl Reason {
    /// The form in [`DIAL_HEADER`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Dns => "dns",
            Self::Network => "network",
        }
    }

    fn of(headers: &HeaderMap) -> Self {
        let said = headers.get(DIAL_HEADER).map(|value| value.as_bytes());
        let known = [Self::Refused, Self::Timeout, Self::Dns];
        known.into_iter().find(|reason| said == Some(reason.as_str().as_bytes())).unwrap_or(Self::Network)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Timeout => "it did not answer in time",
            Self::Dns => "DNS lookup failed",
            Self::Network => "network error",
        })
    }
}

pub(super) async fn open(
    sender: SendRequest<Bytes>,
    target: &Authority,
    purpose: Purpose,
    place: Place,
) -> Result<TunnelStream, DialError> {
    let mut request = Request::new(());
    *request.method_mut() = Method::CONNECT;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = Uri::from(target.clone());
    purpose.tell(request.headers_mut());
    let (response, send) = sender.ready().await?.send_request(request, false)?;
    let response = response.await?;
    match response.status() {
        StatusCode::OK => Ok(TunnelStream::new(send, response.into_body()).counted(place)),
        StatusCode::FORBIDDEN => Err(DialError::NotTheTarget(target.clone())),
        StatusCode::BAD_GATEWAY => Err(DialError::Failed(Reason::of(response.headers()))),
        StatusCode::TOO_MANY_REQUESTS => Err(DialError::Full),
        other => Err(DialError::Unexpected(other)),
    }
}
