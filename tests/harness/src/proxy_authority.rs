//! The certificate authority of a proxy that demands client certificates: it signs the proxy's own
//! certificate and those of its clients.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

/// The authority, with its key.
pub struct ProxyAuthority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, both PEM.
pub struct Signed {
    pub certificate: String,
    pub key: String,
}

impl ProxyAuthority {
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate of the proxy.
    pub fn server(&self, names: &[&str]) -> Result<Signed> {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate of one of its clients.
    pub fn client(&self) -> Result<Signed> {
        self.sign(&["client"], ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// The keys of a member's Secret for a proxy with this authority, with this client certificate.
    pub fn secret_keys(&self, client: &Signed) -> Value {
        json!({
            "proxy-ca.crt": self.pem(), "proxy-tls.crt": client.certificate, "proxy-tls.key": client.key,
        })
    }

    /// Accepts only clients with a certificate from this authority.
    pub(crate) fn acceptor(&self, name: &str) -> Result<TlsAcceptor> {
        let Signed { certificate, key } = self.server(&[name])?;
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone())?;
        let provider = Arc::new(default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| anyhow!("{error}"))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![CertificateDer::from_pem_slice(certificate.as_bytes())?], key)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn sign(&self, names: &[&str], usage: ExtendedKeyUsagePurpose) -> Result<Signed> {
        let key = KeyPair::generate()?;
        let mut params =
            CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())?;
        params.extended_key_usages = vec![usage];
        Ok(Signed { certificate: params.signed_by(&key, &self.0)?.pem(), key: key.serialize_pem() })
    }
}

impl Signed {
    /// The certificate as a peer sends it.
    pub fn der(&self) -> Result<Vec<u8>> {
        Ok(CertificateDer::from_pem_slice(self.certificate.as_bytes())?.to_vec())
    }
}
