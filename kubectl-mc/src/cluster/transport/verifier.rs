//! Verifies a server's certificate by the certificates of a kubeconfig as Go's
//! `x509.Certificate.Verify` does. A certificate that is one of them is accepted without an issuer
//! if its name and validity are right: a server may have a self-signed certificate, or a kubeconfig
//! may pin the server's own certificate.
//!
//! rustls cannot verify RSA keys below 2048 bits, which Go still accepts from 1024 bits. They are
//! refused with a specific message.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, ExtendedKeyPurpose, OtherError,
    RootCertStore, SignatureScheme,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::parse_x509_certificate;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::X509Version;

/// The TLS settings that trust these certificates.
pub(super) fn client_config(roots: Vec<CertificateDer<'static>>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Verifier::new(roots, &provider);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

#[derive(Debug)]
struct Verifier {
    roots: Vec<CertificateDer<'static>>,
    /// Verifies with the roots that may sign; `None` if there are none.
    issuers: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(roots: Vec<CertificateDer<'static>>, provider: &Arc<CryptoProvider>) -> Self {
        let now = UnixTime::now();
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.iter().filter(|root| may_sign(root, now)).cloned());
        let issuers =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
        Self { roots, issuers: issuers.ok(), provider: Arc::clone(provider) }
    }

    fn verify_chain(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let verified = match &self.issuers {
            Some(issuers) => issuers.verify_server_cert(end_entity, intermediates, name, &[], now),
            None => Err(unknown()),
        };
        let Err(error) = verified else { return verified };
        let expired = self.roots.iter().any(|root| has_expired(root, now));
        let is_unknown = error == unknown();
        // The size of an issuer's key can only cause an unverifiable signature.
        let presented = || std::iter::once(end_entity).chain(intermediates);
        let signs = |authority: &&CertificateDer<'_>| {
            presented().any(|certificate| is_issuer(authority, certificate))
        };
        let weak = intermediates.iter().chain(&self.roots).filter(signs).find_map(|issuer| weak_key(issuer));
        Err(match weak {
            Some(bits) if is_signature(&error) => refused(Refused::WeakAuthority(bits)),
            _ if is_unknown && expired => refused(Refused::ExpiredAuthority),
            _ => error,
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(bits) = weak_key(end_entity) {
            return Err(refused(Refused::WeakKey(bits)));
        }
        if self.roots.iter().any(|root| root == end_entity) {
            return verify_root(end_entity, server_name, now);
        }
        self.verify_chain(end_entity, intermediates, server_name, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Verifies a certificate that is itself trusted: its time, its name and its purpose.
fn verify_root(
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<ServerCertVerified, Error> {
    let invalid = |error: CertificateError| Error::InvalidCertificate(error);
    let parsed = parsed(certificate).ok_or_else(|| invalid(CertificateError::BadEncoding))?;
    let validity = parsed.validity();
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if seconds > validity.not_after.timestamp() {
        return Err(invalid(CertificateError::Expired));
    }
    if seconds < validity.not_before.timestamp() {
        return Err(invalid(CertificateError::NotValidYet));
    }
    rustls::client::verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
    let usage = parsed.extended_key_usage().map_err(|_| invalid(CertificateError::BadEncoding))?;
    if usage.is_some_and(|usage| !usage.value.server_auth && !usage.value.any) {
        return Err(invalid(CertificateError::InvalidPurposeContext {
            required: ExtendedKeyPurpose::ServerAuth,
            presented: Vec::new(),
        }));
    }
    Ok(ServerCertVerified::assertion())
}

/// Whether Go accepts the certificate as an issuer: it is valid now, and a CA unless it is older than version 3.
fn may_sign(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    let Some(parsed) = parsed(certificate) else { return false };
    let is_ca = parsed.basic_constraints().ok().flatten().is_some_and(|constraints| constraints.value.ca);
    is_valid(&parsed, now) && (is_ca || parsed.version() != X509Version::V3)
}

fn has_expired(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    parsed(certificate).is_some_and(|parsed| !is_valid(&parsed, now))
}

fn is_valid(certificate: &X509Certificate<'_>, now: UnixTime) -> bool {
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&seconds)
}

fn parsed<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    parse_x509_certificate(certificate).ok().map(|(_, parsed)| parsed)
}

/// The bits of an RSA key that rustls does not verify.
fn weak_key(certificate: &CertificateDer<'_>) -> Option<usize> {
    let parsed = parsed(certificate)?;
    match parsed.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => Some(key.key_size()).filter(|bits| *bits < RSA_BITS),
        _ => None,
    }
}

/// Whether the certificate names this issuer.
fn is_issuer(issuer: &CertificateDer<'_>, certificate: &CertificateDer<'_>) -> bool {
    let (issuer, certificate) = (parsed(issuer), parsed(certificate));
    issuer.zip(certificate).is_some_and(|(issuer, certificate)| issuer.subject() == certificate.issuer())
}

fn is_signature(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(CertificateError::BadSignature | CertificateError::UnknownIssuer)
    )
}

fn refused(reason: Refused) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(reason))))
}

/// Reasons for refusing a certificate that rustls has no error for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refused {
    /// The server's key.
    WeakKey(usize),
    /// The key of its issuer.
    WeakAuthority(usize),
    ExpiredAuthority,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WeakKey(bits) => write!(
                f,
                "the server's certificate has an RSA key of {bits} bits, and kubectl mc accepts {RSA_BITS} and more: renew the certificate with a larger key"
            ),
            Self::WeakAuthority(bits) => write!(
                f,
                "the authority of the server's certificate has an RSA key of {bits} bits, and kubectl mc accepts {RSA_BITS} and more: renew the authority with a larger key"
            ),
            Self::ExpiredAuthority => {
                f.write_str("the server's certificate has no valid authority, and a certificate-authority of the kubeconfig has expired")
            }
        }
    }
}

impl std::error::Error for Refused {}

impl Refused {
    /// The refusal among the causes of an error.
    pub(crate) fn among<'a>(
        mut causes: impl Iterator<Item = &'a (dyn std::error::Error + 'static)>,
    ) -> Option<Self> {
        causes.find_map(|cause| match cause.downcast_ref()? {
            Error::InvalidCertificate(CertificateError::Other(OtherError(reason))) => {
                reason.downcast_ref().cloned()
            }
            _ => None,
        })
    }

    /// Whether kubectl accepts the certificate, because its key is only too short for rustls.
    pub(crate) fn is_of_a_key(&self) -> bool {
        matches!(self, Self::WeakKey(_) | Self::WeakAuthority(_))
    }
}

/// The smallest RSA key whose signatures rustls verifies.
const RSA_BITS: usize = 2048;

#[cfg(test)]
mod tests;
