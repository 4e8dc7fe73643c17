//! Parses the CAs and header names that the host publishes for aggregated API servers, in ConfigMap
//! `kube-system/extension-apiserver-authentication` (apiserver:
//! `server/options/authentication_dynamic_request_header.go`), and verifies client certificates with them.
//! The ConfigMap is watched. Flags can override each key.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderName;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};

use super::request_header::HeaderNames;
use super::x509;
use crate::identity::Identity;

pub mod watch;

/// One version of the CAs and header names.
#[derive(Debug, Default)]
pub struct Trust {
    client_ca: Option<Arc<dyn ClientCertVerifier>>,
    request_header_ca: Option<Arc<dyn ClientCertVerifier>>,
    /// Allowed common names of the front proxy. If empty, every certificate of its CA is accepted.
    allowed_names: Vec<String>,
    /// The headers in which the front proxy sends identities; `None` if the host has no front proxy.
    pub front_proxy: Option<HeaderNames>,
}

/// What a peer's certificates prove.
#[derive(Clone, Debug, Default)]
pub struct Proven {
    /// The peer is the host's front proxy, so its identity headers are trusted.
    pub front_proxy: bool,
    /// The peer is this user.
    pub user: Option<Arc<Identity>>,
    /// Why the certificates prove nothing.
    pub refused: Option<String>,
}

impl Trust {
    /// Reads the ConfigMap's data.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, Error> {
        let verifier = |key: &'static str| match data.get(key).filter(|pem| !pem.trim().is_empty()) {
            Some(pem) => verifier(pem.as_bytes()).map(Some).map_err(|reason| Error { key, reason }),
            None => Ok(None),
        };
        let request_header_ca = verifier("requestheader-client-ca-file")?;
        let names = HeaderNames {
            user: header_names(data, "requestheader-username-headers")?,
            uid: header_names(data, "requestheader-uid-headers")?,
            group: header_names(data, "requestheader-group-headers")?,
            extra: prefixes(data, "requestheader-extra-headers-prefix")?,
        };
        let front_proxy = (request_header_ca.is_some() && !names.user.is_empty()).then_some(names);
        Ok(Self {
            client_ca: verifier("client-ca-file")?,
            request_header_ca,
            allowed_names: list(data, "requestheader-allowed-names")?,
            front_proxy,
        })
    }

    /// Whether any certificate can be verified.
    pub fn is_any(&self) -> bool {
        self.client_ca.is_some() || self.front_proxy.is_some()
    }

    /// Verifies a chain against both CAs.
    pub fn prove(&self, chain: &[CertificateDer<'_>]) -> Proven {
        let Some((leaf, intermediates)) = chain.split_first() else { return Proven::default() };
        let verify = |verifier: &Option<Arc<dyn ClientCertVerifier>>| {
            let verifier = verifier.as_ref().ok_or_else(|| "the host publishes no CA for it".to_owned())?;
            let verified = verifier.verify_client_cert(leaf, intermediates, UnixTime::now());
            verified.map(drop).map_err(|error| error.to_string())
        };
        let mut proven = Proven::default();
        if verify(&self.request_header_ca).is_ok() {
            let name = x509::common_name(leaf);
            proven.front_proxy = self.allowed_names.is_empty() || self.allowed_names.contains(&name);
            if !proven.front_proxy {
                proven.refused = Some(format!("{name:?} is not an allowed name of the front proxy"));
            }
        }
        match verify(&self.client_ca) {
            Ok(()) => proven.user = x509::identity(leaf).map(Identity::authenticated).map(Arc::new),
            Err(reason) if proven.refused.is_none() => proven.refused = Some(reason),
            Err(_) => {}
        }
        proven
    }
}

fn verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let verifier =
        WebPkiClientVerifier::builder(Arc::new(roots)).build().map_err(|error| error.to_string())?;
    Ok(verifier)
}

fn header_names(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<HeaderName>, Error> {
    let parse =
        |name: &String| name.parse().map_err(|_| Error { key, reason: format!("no header name: {name:?}") });
    list(data, key)?.iter().map(parse).collect()
}

/// Refuses an empty prefix, which would make every header a part of the identity.
fn prefixes(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<String>, Error> {
    let prefixes = list(data, key)?;
    match prefixes.iter().any(String::is_empty) {
        true => Err(Error { key, reason: "a prefix is empty".to_owned() }),
        false => Ok(prefixes.iter().map(|prefix| prefix.to_lowercase()).collect()),
    }
}

fn list(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<String>, Error> {
    match data.get(key).filter(|json| !json.is_empty()) {
        Some(json) => serde_json::from_str(json).map_err(|error| Error { key, reason: error.to_string() }),
        None => Ok(Vec::new()),
    }
}

/// An invalid key of the ConfigMap. The previous version stays in force.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct Error {
    key: &'static str,
    reason: String,
}

#[cfg(test)]
pub(crate) mod tests;
