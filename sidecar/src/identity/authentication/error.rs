//! The reasons why a caller is not authenticated.

use crate::identity::request_header;

/// Why a caller is not authenticated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("no credentials were provided")]
    NoCredential,
    #[error("the client certificate was refused: {0}")]
    Certificate(String),
    #[error("the token was refused")]
    Token,
    #[error("a bearer token must be a single word")]
    MalformedToken,
    #[error(transparent)]
    RequestHeader(#[from] request_header::NotUtf8),
    #[error("malformed token in Sec-WebSocket-Protocol: {0}")]
    WebSocketToken(&'static str),
    #[error("too many token reviews are in progress, try again later")]
    TooManyReviews,
    /// The reason is only in the log, because an unauthenticated caller must not learn about the host.
    #[error("the host could not review the token")]
    Review,
}

impl Error {
    /// Whether the caller's credential is the cause, and not the sidecar or the host.
    pub fn is_refusal(&self) -> bool {
        !matches!(self, Self::TooManyReviews | Self::Review)
    }
}
