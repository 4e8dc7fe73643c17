//! The certificates of a server that a cluster of a kubeconfig trusts.

use kube::config::Cluster;
use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

use super::identity::content;
use super::pem;

/// How the server's certificate is verified.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Trust {
    /// By the roots of this machine.
    System,
    /// Not at all.
    Insecure,
    /// By these certificates.
    Roots(Vec<CertificateDer<'static>>),
}

impl Trust {
    pub(super) fn of(cluster: &Cluster) -> Result<Self, String> {
        if cluster.insecure_skip_tls_verify == Some(true) {
            return Ok(Self::Insecure);
        }
        let (data, file) =
            (cluster.certificate_authority_data.as_deref(), cluster.certificate_authority.as_deref());
        let Some(bundle) = content("certificate-authority", data, file)? else { return Ok(Self::System) };
        let roots = roots(&bundle);
        if roots.is_empty() {
            return Err("certificate-authority has no certificate in PEM".to_owned());
        }
        Ok(Self::Roots(roots))
    }
}

/// The certificates of a bundle; unreadable parts are skipped, as in Go's `AppendCertsFromPEM`.
fn roots(bundle: &[u8]) -> Vec<CertificateDer<'static>> {
    let blocks = pem::blocks(bundle).into_iter();
    let certificates = blocks.filter(|block| block.label == "CERTIFICATE" && !block.has_headers);
    let is_certificate = |der: &[u8]| parse_x509_certificate(der).is_ok_and(|(rest, _)| rest.is_empty());
    certificates.filter(|block| is_certificate(&block.content)).map(|block| block.content.into()).collect()
}
