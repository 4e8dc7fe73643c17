//! Logs in by OpenID Connect: authorization code with PKCE on loopback (RFC 8252, RFC 7636), device code (RFC
//! 8628) and refresh tokens (RFC 6749). kube-apiserver accepts the ID token.
//!
//! The token comes directly from the issuer by TLS, so the plugin need not verify its signature (OpenID
//! Connect Core, 3.1.3.7); kube-apiserver verifies it.

mod browser;
mod device;
mod discovery;
mod http;
mod id_token;
mod random;
mod revoke;
mod token;

use std::path::PathBuf;

pub(super) use revoke::revoke;

use self::discovery::Discovery;
use self::http::HttpClient;
use super::record::{Credential, Record};
use crate::cli::OidcArgs;
use crate::cluster::client::ClientError;
use crate::env::Env;
use crate::error::{Explain, Hint, mc};
use crate::printer::Printer;
use crate::server_text::ServerText;

/// A client of an issuer.
struct Client<'a> {
    http: HttpClient,
    options: &'a OidcArgs,
    id: &'a str,
    secret: Option<&'a str>,
    discovery: Discovery,
}

impl<'a> Client<'a> {
    async fn new(options: &'a OidcArgs, record: &'a Record, env: &'a Env) -> Result<Self, OidcError> {
        let issuer = options.oidc_issuer_url.as_deref().unwrap_or_default();
        let http = HttpClient::new(options.oidc_certificate_authority.as_deref(), env)?;
        let discovery = Discovery::read(&http, issuer).await?;
        let id = options.oidc_client_id.as_deref().unwrap_or_default();
        Ok(Self { http, options, id, secret: record.client_secret.as_deref(), discovery })
    }

    /// The requested scopes. Without `offline_access` many issuers issue no refresh token.
    fn scope(&self) -> String {
        let offline = self.discovery.scopes.iter().find(|scope| *scope == "offline_access");
        let extra = self.options.oidc_extra_scope.iter();
        let mut scopes = vec!["openid"];
        for scope in extra.chain(offline) {
            if !scopes.contains(&scope.as_str()) {
                scopes.push(scope);
            }
        }
        scopes.join(" ")
    }
}

/// The tokens of an issuer.
struct Tokens {
    id_token: String,
    refresh_token: Option<String>,
}

impl Tokens {
    fn stored_in(self, record: Record) -> Record {
        let Self { id_token, refresh_token } = self;
        Record {
            credential: Credential::of_token(id_token),
            // Some issuers issue a refresh token only once, and others issue a new one each time.
            refresh_token: refresh_token.or(record.refresh_token),
            ..record
        }
    }
}

/// Runs an interactive login.
pub(super) async fn login(
    options: &OidcArgs,
    record: Record,
    env: &Env,
    printer: &Printer,
) -> Result<Record, OidcError> {
    // The refresh token of another login may belong to another user.
    let record = Record { refresh_token: None, ..record };
    let client = Client::new(options, &record, env).await?;
    let tokens = if options.oidc_device_code {
        device::login(&client, printer).await?
    } else {
        browser::login(&client, printer).await?
    };
    Ok(tokens.stored_in(record.clone()))
}

/// Renews the ID token with the refresh token.
pub(super) async fn refresh(options: &OidcArgs, record: &Record, env: &Env) -> Result<Record, OidcError> {
    let Some(refresh_token) = &record.refresh_token else { return Err(OidcError::NoRefreshToken) };
    let client = Client::new(options, record, env).await?;
    let tokens = token::refresh(&client, refresh_token).await?;
    Ok(tokens.stored_in(record.clone()))
}

/// Why there is no token. Messages of the issuer are printed with escaped control characters; tokens are
/// never printed.
#[derive(Debug, thiserror::Error)]
pub(super) enum OidcError {
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
    pub(super) fn needs_login(&self) -> bool {
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
