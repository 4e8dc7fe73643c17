//! Logs in by OpenID Connect: authorization code with PKCE on loopback (RFC 8252, RFC 7636), device code (RFC
//! 8628) and refresh tokens (RFC 6749, RFC 7009). kube-apiserver accepts the ID token.
//!
//! The token comes directly from the issuer by TLS, so the plugin need not verify its signature (OpenID
//! Connect Core, 3.1.3.7); kube-apiserver verifies it.

mod browser;
mod client;
mod device;
mod discovery;
mod error;
mod http;
mod id_token;
mod token;

pub(super) use self::error::OidcError;

use self::client::Client;
use super::record::Record;
use crate::cli::OidcArgs;
use crate::env::Env;
use crate::printer::Printer;

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

/// Revokes the refresh token (RFC 7009). Returns whether it was revoked; not every issuer supports it.
pub(super) async fn revoke(options: &OidcArgs, record: &Record, env: &Env) -> Result<bool, OidcError> {
    let Some(refresh_token) = &record.refresh_token else { return Ok(false) };
    let client = Client::new(options, record, env).await?;
    let Some(url) = client.discovery.revocation_endpoint.clone() else { return Ok(false) };
    let fields = [("token", refresh_token.as_str()), ("token_type_hint", "refresh_token")];
    let answer = token::post(&client, &url, &fields).await?;
    if answer.status.is_success() {
        return Ok(true);
    }
    let status = answer.status.as_u16();
    Err(OidcError::Answered { url, status, text: answer.status.to_string().into() })
}
