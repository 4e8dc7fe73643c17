//! Generates random words: PKCE verifiers, states and nonces.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::error::OidcError;

/// 256 random bits, in letters that are safe in a URL (RFC 7636, 4.1).
pub(super) fn word() -> Result<String, OidcError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| OidcError::Random)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
