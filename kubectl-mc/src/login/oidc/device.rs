//! Logs in with another device (RFC 8628).

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::client::{Client, Tokens};
use super::error::OidcError;
use super::token;
use crate::printer::Printer;
use crate::server_text::escaped;

pub(super) async fn login(client: &Client<'_>, printer: &Printer) -> Result<Tokens, OidcError> {
    let url = client.discovery.device_endpoint.clone().ok_or(OidcError::NotOffered("device code"))?;
    let scope = client.scope();
    let answer = token::post(client, &url, &[("scope", &scope)]).await?;
    let text = |key: &str| answer.body.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(error) = text("error") {
        let description = text("error_description").unwrap_or_default();
        return Err(OidcError::Refused { error: error.into(), description: description.into() });
    }
    let seconds = |key: &str| answer.body.get(key).and_then(Value::as_u64);
    let unexpected = |what| OidcError::Unexpected { url: url.clone(), what };
    let device_code = text("device_code").ok_or_else(|| unexpected("no device_code"))?;
    let user_code = text("user_code").ok_or_else(|| unexpected("no user_code"))?;
    // Older issuers use the field verification_url.
    let at = text("verification_uri").or_else(|| text("verification_url"));
    let at = at.ok_or_else(|| unexpected("no verification_uri"))?;
    printer.note_line(&format!("open {} and enter the code {}", escaped(&at), escaped(&user_code)));
    let life = seconds("expires_in").unwrap_or(LONGEST).min(LONGEST);
    let end = Instant::now() + Duration::from_secs(life);
    let mut pause = Duration::from_secs(seconds("interval").unwrap_or(5).clamp(1, 60));
    let fields = [("grant_type", GRANT), ("device_code", &device_code)];
    while Instant::now() + pause < end {
        sleep(pause).await;
        match token::request(client, &fields, None).await {
            Err(OidcError::Refused { error, .. }) if error.raw() == "authorization_pending" => {}
            // RFC 8628, 3.5.
            Err(OidcError::Refused { error, .. }) if error.raw() == "slow_down" => {
                pause += Duration::from_secs(5);
            }
            // A later request may succeed.
            Err(OidcError::Unreachable { .. }) => {}
            answer => return answer,
        }
    }
    Err(OidcError::TooLate { minutes: life.div_ceil(60) })
}

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// In seconds; the codes of issuers expire after minutes.
const LONGEST: u64 = 900;
