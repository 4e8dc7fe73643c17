//! Revokes a refresh token (RFC 7009).

use super::client::Client;
use super::error::OidcError;
use super::token;
use crate::cli::OidcArgs;
use crate::env::Env;
use crate::login::record::Record;

/// Returns whether a token was revoked; not every issuer supports it.
pub(in crate::login) async fn revoke(
    options: &OidcArgs,
    record: &Record,
    env: &Env,
) -> Result<bool, OidcError> {
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
