//! Creates the certificate of the listener, which is new in each run and stays in memory. client-go
//! sends a token only over TLS. The key of its authority is dropped at once, so the authority can
//! sign nothing else.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::admission::{LOCALHOST, host_of};
use super::clusters::Clusters;

/// The listener's certificate, and the authority with which tools verify it (PEM).
pub(super) struct Certificate {
    pub(super) authority: String,
    pub(super) config: Arc<ServerConfig>,
}

impl Certificate {
    /// A certificate for these clusters and addresses.
    pub(super) fn new(
        clusters: &Clusters,
        addresses: &[IpAddr],
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        authority.distinguished_name.push(DnType::CommonName, "kubectl-mc listener");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let names = clusters.iter().map(|served| host_of(&served.name));
        let names = names.chain([LOCALHOST.to_owned()]).chain(addresses.iter().map(ToString::to_string));
        let mut own = CertificateParams::new(names.collect::<Vec<_>>())?;
        own.distinguished_name.push(DnType::CommonName, LOCALHOST);
        own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        own.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let chain = vec![own.signed_by(&key, &authority)?.der().clone()];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        // SPDY and WebSocket need HTTP/1.1.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { authority: authority.pem(), config: Arc::new(config) })
    }
}
