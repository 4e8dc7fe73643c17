//! Reads the claims of a service account's token (a JWT, RFC 7519). Nothing is verified: the claims only
//! decide whether a join keeps an existing token.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::Value;

/// The claims about the lifetime of a token and its account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    /// `None` if the token never expires.
    pub(crate) life: Option<Life>,
    /// The account's uid. A later account of the same name has another one.
    pub(crate) account: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    issued: Timestamp,
    expires: Timestamp,
}

impl Claims {
    /// Returns `None` for text that is not a token.
    pub(crate) fn parse(token: &str) -> Option<Self> {
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        let claims: Value = serde_json::from_slice(&payload).ok()?;
        let time = |claim: &str| Timestamp::from_second(claims[claim].as_i64()?).ok();
        let life = match time("exp") {
            Some(expires) => Some(Life { issued: time("iat")?, expires }),
            None => None,
        };
        // The second claim is used in tokens from Secrets, which never expire.
        let account = claims["kubernetes.io"]["serviceaccount"]["uid"].as_str();
        let account = account.or_else(|| claims["kubernetes.io/serviceaccount/service-account.uid"].as_str());
        Some(Self { life, account: account.map(str::to_owned) })
    }

    /// Whether the token belongs to this account and more than a third of its lifetime is left.
    pub(crate) fn serves(&self, account: &str, now: Timestamp) -> bool {
        self.account.as_deref() == Some(account)
            && self.life.is_none_or(|life| life.left(now) > life.whole() / 3)
    }
}

impl Life {
    /// The time from issue to expiry.
    pub(crate) fn whole(self) -> Duration {
        Duration::try_from(self.expires.duration_since(self.issued)).unwrap_or_default()
    }

    fn left(self, now: Timestamp) -> Duration {
        Duration::try_from(self.expires.duration_since(now)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(claims: &Value) -> String {
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn token_is_kept_until_a_third_of_its_lifetime_is_left() {
        let claims = json!({"iat": 1000, "exp": 4000, "kubernetes.io": {"serviceaccount": {"uid": "u"}}});
        let claims = Claims::parse(&token(&claims)).unwrap();
        assert_eq!(claims.life.unwrap().whole(), Duration::from_secs(3000));
        assert!(claims.serves("u", at(2999)));
        assert!(!claims.serves("u", at(3000)) && !claims.serves("u", at(9000)));
        assert!(!claims.serves("other", at(2000)));
    }

    #[test]
    fn token_of_a_secret_never_expires() {
        let claims = json!({"kubernetes.io/serviceaccount/service-account.uid": "u"});
        let claims = Claims::parse(&token(&claims)).unwrap();
        assert_eq!(claims.life, None);
        assert!(claims.serves("u", at(9_000_000_000)) && !claims.serves("v", at(0)));
    }

    #[test]
    fn other_text_is_not_a_token() {
        for text in ["", "opaque", "a.b.c", "e30.e30"] {
            let serves = Claims::parse(text).is_some_and(|claims| claims.serves("u", at(0)));
            assert!(!serves, "{text:?}");
        }
    }
}
