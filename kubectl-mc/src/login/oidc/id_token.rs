//! Validates that an ID token belongs to this login (OpenID Connect Core, 3.1.3.7, without the signature).

use jiff::Timestamp;
use serde_json::Value;

use super::error::OidcError;
use crate::login::jwt;
use crate::login::record::is_token;

pub(super) fn check(token: &str, issuer: &str, client: &str, nonce: Option<&str>) -> Result<(), OidcError> {
    let claims = jwt::claims(token).filter(|_| is_token(token));
    let claims = claims.ok_or(OidcError::WrongToken("it is no JSON Web Token"))?;
    let is = |key: &str, wanted: &str| claims.get(key).and_then(Value::as_str) == Some(wanted);
    if !is("iss", issuer) {
        return Err(OidcError::WrongToken("it has another issuer"));
    }
    let is_among = match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(|one| one == client),
        _ => is("aud", client),
    };
    if !is_among {
        return Err(OidcError::WrongToken("it is for another client"));
    }
    if nonce.is_some_and(|nonce| !is("nonce", nonce)) {
        return Err(OidcError::WrongToken("it answers another request"));
    }
    if jwt::expires(token).is_none_or(|expires| expires <= Timestamp::now()) {
        return Err(OidcError::WrongToken("it has expired; is the clock of this machine right?"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_of_other_logins_are_refused() {
        let claims = json!({"iss": "https://i", "aud": "kubectl", "nonce": "n", "exp": 4_000_000_000_u64});
        let check = |changes: Value| {
            let mut claims = claims.clone();
            claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()));
            super::check(&token, "https://i", "kubectl", Some("n")).map_err(|error| error.to_string())
        };
        assert_eq!(check(json!({})), Ok(()));
        assert_eq!(check(json!({"aud": ["other", "kubectl"]})), Ok(()));
        for (changes, reason) in [
            (json!({"iss": "https://j"}), "another issuer"),
            (json!({"aud": "other"}), "another client"),
            (json!({"aud": ["other"]}), "another client"),
            (json!({"nonce": "m"}), "another request"),
            (json!({"exp": 7}), "expired"),
            (json!({"exp": null}), "expired"),
        ] {
            let error = check(changes).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(super::check("opaque", "https://i", "kubectl", None).is_err());
    }
}
