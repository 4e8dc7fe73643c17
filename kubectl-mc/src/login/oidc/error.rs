//! The reasons why there is no token.

use std::path::PathBuf;

use crate::cluster::client::ClientError;
use crate::error::{Explain, Hint, mc};
use crate::server_text::ServerText;

/// Why there is no token. Messages of the issuer are printed with escaped control characters; tokens are
/// never printed.
#[derive(Debug, thiserror::Error)]
pub(in crate::login) enum OidcError {
    #[error("{0} is not an https URL")]
    NotHttps(String),
    #[error("cannot read {}", file.display())]
    Authority { file: PathBuf, source: std::io::Error },
    #[error("{} holds no PEM certificate", file.display())]
    NoCertificate { file: PathBuf },
    #[error("cannot reach the issuer at {url}: {}", error.reason())]
    Unreachable { url: String, error: ClientError },
    #[error("{url} answered {status}: {text}")]
    Answered { url: String, status: u16, text: ServerText },
    #[error("unexpected answer of {url}: {what}")]
    Unexpected { url: String, what: &'static str },
    #[error("issuer mismatch: expected {wanted}, found {found}")]
    OtherIssuer { wanted: String, found: ServerText },
    #[error("the issuer offers no {0}")]
    NotOffered(&'static str),
    #[error("the issuer refused: {error}{}{description}", if description.is_empty() { "" } else { ": " })]
    Refused { error: ServerText, description: ServerText },
    #[error("the ID token is not for this login: {0}")]
    WrongToken(&'static str),
    #[error("there is no refresh token")]
    NoRefreshToken,
    #[error("cannot listen on port {ports} of localhost")]
    Listen { ports: String, source: std::io::Error },
    #[error("the login was not finished within {minutes} minutes")]
    TooLate { minutes: u64 },
    #[error("cannot read random numbers from the system")]
    Random,
}

impl OidcError {
    /// Whether an interactive login is required.
    pub(in crate::login) fn needs_login(&self) -> bool {
        match self {
            Self::NoRefreshToken => true,
            // RFC 6749, 5.2: the refresh token has expired or was revoked.
            Self::Refused { error, .. } => error.raw() == "invalid_grant",
            _ => false,
        }
    }
}

impl Explain for OidcError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Listen { .. } => Some(
                "--oidc-redirect-port=PORT chooses another, which the issuer has to allow for the client; --oidc-device-code needs none"
                    .into(),
            ),
            Self::NotOffered("device code") => Some("leave out --oidc-device-code".into()),
            Self::Unreachable { error: ClientError::Tls(_), .. } => {
                Some("--oidc-certificate-authority=FILE names the authority of the issuer".into())
            }
            Self::Unreachable { error: ClientError::Unreachable(_), .. } => {
                Some("check the network, and the URL of the issuer".into())
            }
            Self::TooLate { .. } => Some(mc("login").after("try again")),
            _ => None,
        }
    }
}
