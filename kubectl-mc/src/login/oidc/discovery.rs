//! Reads the discovery document of an issuer (OpenID Connect Discovery, section 4).

use serde_json::Value;

use super::error::OidcError;
use super::http::HttpClient;

/// The fields of the document that a login needs.
pub(super) struct Discovery {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: String,
    pub(super) device_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) scopes: Vec<String>,
    /// Whether the issuer accepts the client's secret in the Authorization header.
    pub(super) takes_basic: bool,
}

impl Discovery {
    pub(super) async fn read(http: &HttpClient, issuer: &str) -> Result<Self, OidcError> {
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let document = http.get(&url).await?;
        Self::of(&document, issuer, &url)
    }

    fn of(document: &Value, issuer: &str, url: &str) -> Result<Self, OidcError> {
        let text = |key: &str| document.get(key).and_then(Value::as_str).map(str::to_owned);
        let list = |key: &str| {
            let list = document.get(key).and_then(Value::as_array);
            list.map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
        };
        let unexpected = |what| OidcError::Unexpected { url: url.to_owned(), what };
        let found = text("issuer").ok_or_else(|| unexpected("no issuer"))?;
        if found != issuer {
            return Err(OidcError::OtherIssuer { wanted: issuer.to_owned(), found: found.into() });
        }
        // RFC 8414: basic authentication is the default.
        let methods = list("token_endpoint_auth_methods_supported");
        Ok(Self {
            issuer: found,
            authorization_endpoint: text("authorization_endpoint"),
            token_endpoint: text("token_endpoint").ok_or_else(|| unexpected("no token_endpoint"))?,
            device_endpoint: text("device_authorization_endpoint"),
            revocation_endpoint: text("revocation_endpoint"),
            scopes: list("scopes_supported").unwrap_or_default(),
            takes_basic: methods
                .is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic")),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn issuer_in_the_discovery_document_must_match() {
        let read = |issuer: &str| {
            let document = json!({"issuer": issuer, "token_endpoint": "https://i/token"});
            Discovery::of(&document, "https://i", "u").map(|found| found.issuer)
        };
        assert_eq!(read("https://i").unwrap(), "https://i");
        let error = read("https://evil").unwrap_err();
        assert_eq!(error.to_string(), "issuer mismatch: expected https://i, found https://evil");
        assert!(matches!(read("https://i/").unwrap_err(), OidcError::OtherIssuer { .. }));
        assert!(Discovery::of(&Value::Null, "https://i", "u").is_err());
    }
}
