//! Sends requests to the token endpoint (RFC 6749, sections 2.3.1, 4.1.3, 5 and 6).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::client::{Client, Tokens};
use super::error::OidcError;
use super::http::{Answer, encoded};
use super::id_token;

/// Exchanges the refresh token for new tokens.
pub(super) async fn refresh(client: &Client<'_>, refresh_token: &str) -> Result<Tokens, OidcError> {
    let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
    request(client, &fields, None).await
}

/// Requests tokens. With a nonce, the ID token must contain it.
pub(super) async fn request(
    client: &Client<'_>,
    fields: &[(&str, &str)],
    nonce: Option<&str>,
) -> Result<Tokens, OidcError> {
    let url = client.discovery.token_endpoint.clone();
    let answer = post(client, &url, fields).await?;
    tokens(client, &url, &answer, nonce)
}

/// Sends a form with the client's ID, and with its secret if it has one.
pub(super) async fn post(
    client: &Client<'_>,
    url: &str,
    fields: &[(&str, &str)],
) -> Result<Answer, OidcError> {
    let mut fields = fields.to_vec();
    let mut authorization = None;
    match client.secret {
        Some(secret) if client.discovery.takes_basic => {
            let both = STANDARD.encode(format!("{}:{}", encoded(client.id), encoded(secret)));
            authorization = Some(format!("Basic {both}"));
        }
        Some(secret) => fields.extend([("client_id", client.id), ("client_secret", secret)]),
        None => fields.push(("client_id", client.id)),
    }
    client.http.post(url, &fields, authorization.as_deref()).await
}

/// The tokens in the response, or the issuer's error.
pub(super) fn tokens(
    client: &Client<'_>,
    url: &str,
    answer: &Answer,
    nonce: Option<&str>,
) -> Result<Tokens, OidcError> {
    let text = |key: &str| answer.body.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(error) = text("error") {
        let description = text("error_description").unwrap_or_default();
        return Err(OidcError::Refused { error: error.into(), description: description.into() });
    }
    if !answer.status.is_success() {
        let (url, status) = (url.to_owned(), answer.status.as_u16());
        return Err(OidcError::Answered { url, status, text: answer.status.to_string().into() });
    }
    let unexpected = || OidcError::Unexpected { url: url.to_owned(), what: "no id_token" };
    let id_token = text("id_token").ok_or_else(unexpected)?;
    id_token::check(&id_token, &client.discovery.issuer, client.id, nonce)?;
    Ok(Tokens { id_token, refresh_token: text("refresh_token") })
}
