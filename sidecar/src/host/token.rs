//! Reads the owner and the lifetime of a credential from the credential itself. They are not
//! verified, and only determine when to request the next credential.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;

/// The credential in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    None,
    /// A client certificate, and its expiry.
    Certificate(Option<Timestamp>),
    Token(Token),
}

/// The facts about a token, without the token itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The token's service account.
    pub(crate) account: Option<Account>,
    pub(crate) life: Option<Life>,
    /// Constant for a given token. It shifts the renewal, so that similar tokens are not renewed at
    /// the same time.
    jitter: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) begins: Timestamp,
    pub(crate) ends: Timestamp,
}

impl Credential {
    pub(crate) fn of(data: &BTreeMap<String, ByteString>) -> Self {
        let text = |key: &str| data.get(key).and_then(|value| std::str::from_utf8(&value.0).ok());
        match text("token").map(str::trim).filter(|token| !token.is_empty()) {
            Some(token) => Self::Token(Token::of(token)),
            None => data.get("tls.crt").map_or(Self::None, |pem| Self::Certificate(end(&pem.0))),
        }
    }

    /// When it expires.
    pub(crate) fn ends(&self) -> Option<Timestamp> {
        match self {
            Self::None => None,
            Self::Certificate(ends) => *ends,
            Self::Token(token) => token.life.map(|life| life.ends),
        }
    }

    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.ends().is_some_and(|ends| ends <= now)
    }
}

impl Token {
    /// Parses a token's claims (RFC 7519). A token without claims has no facts.
    pub(crate) fn of(token: &str) -> Self {
        let jitter = BuildHasherDefault::<DefaultHasher>::default().hash_one(token);
        let claims = token.split('.').nth(1).and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok());
        let claims =
            claims.and_then(|claims| serde_json::from_slice::<Claims>(&claims).ok()).unwrap_or_default();
        Self { account: claims.account(), life: claims.life(), jitter }
    }

    /// When to renew it: after `part` of its lifetime, or up to a tenth of that time earlier.
    pub(crate) fn due(&self, part: f64) -> Option<Timestamp> {
        #[expect(clippy::cast_precision_loss, reason = "any number from 0 to 1 will do")]
        let jitter = self.jitter as f64 / u64::MAX as f64;
        self.life.map(|life| life.at(part * 0.1_f64.mul_add(-jitter, 1.0)))
    }
}

impl Life {
    /// When this part of its lifetime has passed.
    pub(crate) fn at(self, part: f64) -> Timestamp {
        let length = self.length().as_secs_f64() * part;
        self.begins.checked_add(SignedDuration::from_secs_f64(length)).unwrap_or(self.ends)
    }

    pub(crate) fn length(self) -> Duration {
        self.ends.duration_since(self.begins).unsigned_abs()
    }
}

#[derive(Debug, Default, Deserialize)]
struct Claims {
    sub: Option<String>,
    iat: Option<f64>,
    nbf: Option<f64>,
    exp: Option<f64>,
}

impl Claims {
    fn account(&self) -> Option<Account> {
        let (namespace, name) = self.sub.as_ref()?.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        // The names become part of a path.
        let is_name = |text: &str| {
            let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
            !text.is_empty() && text.len() <= 253 && !text.starts_with('.') && text.bytes().all(fine)
        };
        (is_name(namespace) && is_name(name))
            .then(|| Account { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    fn life(&self) -> Option<Life> {
        let ends = time(self.exp?)?;
        let begins = time(self.iat.or(self.nbf)?)?;
        (begins < ends).then_some(Life { begins, ends })
    }
}

/// Converts seconds since 1970, which may have a fraction.
fn time(seconds: f64) -> Option<Timestamp> {
    #[expect(clippy::cast_possible_truncation, reason = "a second more or less")]
    let seconds = seconds as i64;
    Timestamp::from_second(seconds).ok()
}

/// Expiry of the first certificate in a chain.
fn end(pem: &[u8]) -> Option<Timestamp> {
    let certificate = CertificateDer::from_pem_slice(pem).ok()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(&certificate).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A token with these claims, limited to what this module parses.
    pub(crate) fn token(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn token_claims_contain_account_and_lifetime() {
        let claims = json!({"sub": "system:serviceaccount:kubectl-mc-system:kubectl-mc-impersonator",
                            "iat": 1000, "exp": 4600, "aud": ["x"]});
        let token = Token::of(&token(&claims));
        let account = token.account.clone().unwrap();
        assert_eq!((&*account.namespace, &*account.name), ("kubectl-mc-system", "kubectl-mc-impersonator"));
        assert_eq!(token.life.unwrap().length(), Duration::from_secs(3600));
        let due = token.due(0.5).unwrap();
        assert!(due >= at(1000 + 1620) && due <= at(1000 + 1800), "{due}");
        assert_eq!(token.due(0.5), Some(due), "it is not always the same");
    }

    #[test]
    fn renewals_of_similar_tokens_are_spread() {
        let due =
            |jti: u32| Token::of(&token(&json!({"jti": jti, "iat": 0, "exp": 100_000}))).due(0.5).unwrap();
        let times: std::collections::BTreeSet<_> = (0..100).map(due).collect();
        assert!(times.len() > 90, "{}", times.len());
    }

    #[test]
    fn token_without_expiry_or_claims_has_no_life() {
        for text in
            [token(&json!({"sub": "system:serviceaccount:a:b"})), "opaque".to_owned(), "a.b.c".to_owned()]
        {
            assert_eq!(Token::of(&text).life, None);
        }
    }

    #[test]
    fn invalid_service_account_subject_is_ignored() {
        for sub in
            ["jane", "system:serviceaccount:a", "system:serviceaccount:a/../b:c", "system:serviceaccount::c"]
        {
            assert_eq!(Token::of(&token(&json!({"sub": sub}))).account, None, "{sub}");
        }
    }
}
