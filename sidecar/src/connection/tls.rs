//! Configures TLS for the secure port. The server requests client certificates and verifies the handshake's
//! signature. Whether the chain is trusted is decided later, for each request, against the current roots. The
//! handshake never fails for a certificate that proves nothing (apiserver: `RequestClientCert`).

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{self, CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::server::ResolvesServerCert;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

pub mod authority;
pub mod certificates;
pub mod replicas;
pub mod rotation;

/// The server's TLS settings: versions 1.2 and 1.3; h2, http/1.1, and the protocol between replicas.
pub fn server_config(certificates: Arc<dyn ResolvesServerCert>) -> ServerConfig {
    let algorithms = crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
    let mut config = ServerConfig::builder()
        .with_client_cert_verifier(Arc::new(ProofOfPossession(algorithms)))
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec(), replicas::ALPN.to_vec()];
    config
}

/// Installs the process's crypto provider. A second call changes nothing.
pub fn install_provider() {
    let _ = CryptoProvider::install_default(crypto::aws_lc_rs::default_provider());
}

/// Requests a certificate and accepts any whose key the peer holds.
#[derive(Debug)]
struct ProofOfPossession(WebPkiSupportedAlgorithms);

impl ClientCertVerifier for ProofOfPossession {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
