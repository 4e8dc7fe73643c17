//! Defines the stored data of a login, and the credential in it in the format of kubectl
//! (`client.authentication.k8s.io`).

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::jwt;

/// The stored data. It has no `Debug`, because it is secret.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Record {
    /// For users who inspect the stored data.
    pub(super) server: String,
    /// The arguments of the credential plugin. They must match, because otherwise another person's
    /// kubeconfig could send the refresh token to another issuer.
    pub(super) arguments: Vec<String>,
    pub(super) credential: Credential,
    /// The variables of a wrapped credential plugin. They are not in the kubeconfig, because then
    /// those of another person's kubeconfig would also be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) variables: Vec<(String, String)>,
    /// For OpenID Connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// For OpenID Connect clients with a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
}

/// A bearer token or a client certificate.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Credential {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    /// PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) certificate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<Timestamp>,
}

impl Credential {
    /// A bearer token, which expires at the time in its claims.
    pub(super) fn of_token(token: String) -> Self {
        let expires = jwt::expires(&token);
        Self { token: Some(token), expires, ..Self::default() }
    }

    /// Parses the output of a command: an `ExecCredential`, or a bare token.
    pub(super) fn of_output(output: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(output).ok()?.trim();
        if text.starts_with('{') {
            return Self::of_exec_credential(&serde_json::from_str(text).ok()?);
        }
        is_token(text).then(|| Self::of_token(text.to_owned()))
    }

    fn of_exec_credential(object: &Value) -> Option<Self> {
        let status = object.get("status")?;
        let text = |key: &str| {
            status.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let (token, certificate, key) = (text("token"), text("clientCertificateData"), text("clientKeyData"));
        if token.is_none() && (certificate.is_none() || key.is_none()) {
            return None;
        }
        let expires = match text("expirationTimestamp") {
            Some(time) => Some(time.parse().ok()?),
            None => token.as_deref().and_then(jwt::expires),
        };
        Some(Self { token, certificate, key, expires })
    }

    /// Whether the credential stays valid for long enough.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| expires.duration_since(now) > MARGIN)
    }

    /// The credential as an ExecCredential, in the API version of the request.
    pub(super) fn exec_credential(&self, api_version: &str) -> Value {
        let mut status = json!({});
        let fields = [
            ("token", self.token.clone()),
            ("clientCertificateData", self.certificate.clone()),
            ("clientKeyData", self.key.clone()),
            ("expirationTimestamp", self.expires.map(|expires| expires.to_string())),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                status[name] = value.into();
            }
        }
        json!({"apiVersion": api_version, "kind": "ExecCredential", "status": status})
    }
}

/// Whether the text is a valid bearer token (RFC 6750, section 2.1).
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A credential that expires sooner is renewed: a request takes time, and clocks differ.
const MARGIN: SignedDuration = SignedDuration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_output_is_a_token_or_an_exec_credential() {
        let of = |output: &str| Credential::of_output(output.as_bytes());
        assert!(of("abc\n").unwrap().token.as_deref() == Some("abc"));
        let exec = r#" {"status": {"token": "t", "expirationTimestamp": "2026-11-24T10:00:00Z"}}"#;
        let credential = of(exec).unwrap();
        assert!(credential.token.as_deref() == Some("t"));
        assert_eq!(credential.expires.unwrap().to_string(), "2026-11-24T10:00:00Z");
        let certificate = r#"{"status": {"clientCertificateData": "c", "clientKeyData": "k"}}"#;
        assert!(of(certificate).unwrap().key.as_deref() == Some("k"));
        for nothing in [
            "",
            "\n",
            "two words",
            "{}",
            "{\"status\": {}}",
            r#"{"status": {"clientCertificateData": "c"}}"#,
            r#"{"status": {"token": "t", "expirationTimestamp": "tomorrow"}}"#,
            "{broken",
        ] {
            assert!(of(nothing).is_none(), "{nothing}");
        }
    }

    #[test]
    fn credential_is_fresh_until_shortly_before_its_end() {
        let now = Timestamp::from_second(1_000).unwrap();
        let until = |seconds| Credential {
            expires: Timestamp::from_second(seconds).ok(),
            ..Credential::of_token("t".to_owned())
        };
        assert!(until(1_021).is_fresh(now) && !until(1_020).is_fresh(now) && !until(900).is_fresh(now));
        assert!(Credential::of_token("t".to_owned()).is_fresh(now));
    }

    #[test]
    fn exec_credential_has_the_token_and_expiry() {
        let credential =
            Credential { expires: Timestamp::from_second(0).ok(), ..Credential::of_token("t".to_owned()) };
        assert_eq!(
            credential.exec_credential("client.authentication.k8s.io/v1"),
            json!({
                "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                "status": {"token": "t", "expirationTimestamp": "1970-01-01T00:00:00Z"},
            })
        );
    }
}
