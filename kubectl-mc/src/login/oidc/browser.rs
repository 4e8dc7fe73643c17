//! Logs in with a browser on this machine (RFC 8252): the issuer redirects the browser to a port of localhost
//! with a code, which is only valid together with the secret verifier of this login (PKCE, RFC 7636).

mod redirect;

use aws_lc_rs::digest;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::time::timeout;

use self::redirect::{LIMIT, Redirects};
use super::client::{Client, Tokens};
use super::error::OidcError;
use super::http::form;
use super::token;
use crate::printer::Printer;
use crate::server_text::escaped;

pub(super) async fn login(client: &Client<'_>, printer: &Printer) -> Result<Tokens, OidcError> {
    let endpoint = client.discovery.authorization_endpoint.clone();
    let endpoint = endpoint.ok_or(OidcError::NotOffered("login by authorization code"))?;
    if !endpoint.starts_with("https://") {
        return Err(OidcError::NotHttps(endpoint));
    }
    let redirects = Redirects::listen(client.options.oidc_redirect_port).await?;
    let (verifier, state, nonce) = (word()?, word()?, word()?);
    let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
    let (redirect, scope) = (redirects.uri(), client.scope());
    let fields = [
        ("response_type", "code"),
        ("client_id", client.id),
        ("redirect_uri", &redirect),
        ("scope", &scope),
        ("state", &state),
        ("nonce", &nonce),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let separator = if endpoint.contains('?') { '&' } else { '?' };
    let url = format!("{endpoint}{separator}{}", form(&fields));
    printer.note_line(&format!("log in in your browser: {}", escaped(&url)));
    if !client.options.oidc_skip_open_browser && open::that_detached(&url).is_err() {
        printer.note_line("no browser could be opened: open the address yourself, or use --oidc-device-code");
    }
    let code = timeout(LIMIT, redirects.code(&state)).await;
    let code = code.map_err(|_| OidcError::TooLate { minutes: LIMIT.as_secs() / 60 })??;
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", &redirect),
        ("code_verifier", &verifier),
    ];
    token::request(client, &fields, Some(&nonce)).await
}

/// 256 random bits, in letters that are safe in a URL (RFC 7636, 4.1).
fn word() -> Result<String, OidcError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| OidcError::Random)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
