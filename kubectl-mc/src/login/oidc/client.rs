//! A client of an issuer, and the tokens that it receives.

use super::discovery::Discovery;
use super::error::OidcError;
use super::http::HttpClient;
use crate::cli::OidcArgs;
use crate::env::Env;
use crate::login::record::{Credential, Record};

/// A client of an issuer.
pub(super) struct Client<'a> {
    pub(super) http: HttpClient,
    pub(super) options: &'a OidcArgs,
    pub(super) id: &'a str,
    pub(super) secret: Option<&'a str>,
    pub(super) discovery: Discovery,
}

impl<'a> Client<'a> {
    pub(super) async fn new(
        options: &'a OidcArgs,
        record: &'a Record,
        env: &'a Env,
    ) -> Result<Self, OidcError> {
        let issuer = options.oidc_issuer_url.as_deref().unwrap_or_default();
        let http = HttpClient::new(options.oidc_certificate_authority.as_deref(), env)?;
        let discovery = Discovery::read(&http, issuer).await?;
        let id = options.oidc_client_id.as_deref().unwrap_or_default();
        Ok(Self { http, options, id, secret: record.client_secret.as_deref(), discovery })
    }

    /// The requested scopes. Without `offline_access` many issuers issue no refresh token.
    pub(super) fn scope(&self) -> String {
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
pub(super) struct Tokens {
    pub(super) id_token: String,
    pub(super) refresh_token: Option<String>,
}

impl Tokens {
    pub(super) fn stored_in(self, record: Record) -> Record {
        let Self { id_token, refresh_token } = self;
        Record {
            credential: Credential::of_token(id_token),
            // Some issuers issue a refresh token only once, and others issue a new one each time.
            refresh_token: refresh_token.or(record.refresh_token),
            ..record
        }
    }
}
