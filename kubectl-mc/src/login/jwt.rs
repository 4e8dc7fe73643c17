//! Reads the claims of a JSON Web Token (RFC 7519) without verification, which is the task of the host.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::Value;

/// The claims; `None` for any other token.
pub(super) fn claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice(&claims).ok().filter(Value::is_object)
}

/// The claim `exp`, if there is one.
pub(super) fn expires(token: &str) -> Option<Timestamp> {
    let seconds = claims(token)?.get("exp")?.as_f64()?;
    Timestamp::from_second(seconds as i64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_read_from_tokens_with_claims() {
        let token = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(expires(&token(r#"{"exp": 7}"#)), Timestamp::from_second(7).ok());
        assert_eq!(expires(&token(r#"{"exp": 7.9}"#)), Timestamp::from_second(7).ok());
        for other in ["opaque", "a.b", "a.b.c", &token("[]"), &token(r#"{"exp": "7"}"#), &token("{}")] {
            assert_eq!(expires(other), None, "{other}");
        }
    }
}
