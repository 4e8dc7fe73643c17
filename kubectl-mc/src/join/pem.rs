//! Reads the certificates in a PEM file. Comments and other blocks, such as a key next to its
//! certificate, do not get into Secrets or printed commands.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The certificate authorities in a text, if there are any and all of them are usable.
pub(crate) fn authorities(text: &str) -> Option<String> {
    let pem = blocks(text, "CERTIFICATE");
    let mut roots = RootCertStore::empty();
    let mut all = certificates(&pem)?.into_iter();
    all.all(|certificate| roots.add(certificate).is_ok()).then_some(pem)
}

/// The certificates in a text, if there are any.
pub(crate) fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>().ok()?;
    Some(all).filter(|all| !all.is_empty())
}

/// The blocks of one kind.
pub(crate) fn blocks(text: &str, kind: &str) -> String {
    let (mut blocks, mut wanted) = (String::new(), false);
    for line in text.lines().map(str::trim_end) {
        let label = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
        wanted = label.map_or(wanted, |label| label.ends_with(kind));
        if wanted {
            blocks.extend([line, "\n"]);
        }
        wanted &= !line.starts_with("-----END ");
    }
    blocks
}
