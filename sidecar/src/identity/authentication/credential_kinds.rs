//! Names the kinds of credential in a request, for the log and the metrics of failures (apiserver:
//! `endpoints/filters/authn_audit.go`). The credential itself is never recorded.

use std::fmt;

use http::{HeaderMap, header};
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

use super::websocket_protocol;
use crate::identity::peer::Peer;

/// The kinds of credential in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CredentialKinds {
    scheme: Option<Scheme>,
    x509: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scheme {
    Basic,
    Bearer,
}

impl CredentialKinds {
    pub fn by(peer: &Peer, headers: &HeaderMap) -> Self {
        let scheme = headers.get(header::AUTHORIZATION).and_then(|value| {
            let value = value.as_bytes().trim_ascii();
            let scheme = &value[..value.iter().position(|byte| *byte == b' ')?];
            let is = |name: &str| scheme.eq_ignore_ascii_case(name.as_bytes());
            is("basic").then_some(Scheme::Basic).or_else(|| is("bearer").then_some(Scheme::Bearer))
        });
        let by_websocket = || websocket_protocol::has_token(headers).then_some(Scheme::Bearer);
        Self { scheme: scheme.or_else(by_websocket), x509: peer.showed_certificates() }
    }

    pub fn is_any(self) -> bool {
        self.scheme.is_some() || self.x509
    }

    fn as_str(self) -> &'static str {
        match (self.scheme, self.x509) {
            (None, false) => "",
            (None, true) => "x509",
            (Some(Scheme::Basic), false) => "basic",
            (Some(Scheme::Basic), true) => "basic, x509",
            (Some(Scheme::Bearer), false) => "bearer",
            (Some(Scheme::Bearer), true) => "bearer, x509",
        }
    }
}

impl fmt::Display for CredentialKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_str() {
            "" => f.write_str("no credentials provided"),
            kinds => write!(f, "attempted: {kinds}"),
        }
    }
}

impl EncodeLabelValue for CredentialKinds {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.as_str().encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rustls_pki_types::CertificateDer;

    use super::*;

    fn attempted(certificate: bool, header: Option<(&'static str, &'static str)>) -> CredentialKinds {
        let certificates = certificate.then(|| [CertificateDer::from(vec![0])]);
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), certificates.as_ref().map(<[_; 1]>::as_slice), None);
        let headers = header.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        CredentialKinds::by(&peer, &headers.into_iter().collect())
    }

    #[test]
    fn failed_login_names_its_kind_not_its_credential() {
        let websocket = ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.c2VjcmV0, v5");
        for (certificate, header, told) in [
            (false, None, "no credentials provided"),
            (true, None, "attempted: x509"),
            (false, Some(("authorization", "Bearer secret")), "attempted: bearer"),
            (true, Some(("authorization", "bearer secret")), "attempted: bearer, x509"),
            (true, Some(("authorization", "Basic secret")), "attempted: basic, x509"),
            (false, Some(("authorization", "secret")), "no credentials provided"),
            (false, Some(websocket), "attempted: bearer"),
        ] {
            let attempted = attempted(certificate, header);
            assert_eq!(attempted.to_string(), told);
            assert_eq!(attempted.is_any(), told != "no credentials provided");
        }
    }
}
