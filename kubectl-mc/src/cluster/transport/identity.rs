//! The client certificate of a user and its key.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::AuthInfo;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use rustls::sign::CertifiedKey;
use secrecy::ExposeSecret;

use super::pem::{self, Block};
use crate::cluster::named_file;

/// The certificate that client-go presents; a certificate without a key, or a key without a
/// certificate, is ignored.
pub(super) fn of(user: &AuthInfo) -> Result<Option<Arc<CertifiedKey>>, String> {
    let key_data = user.client_key_data.as_ref().map(ExposeSecret::expose_secret);
    let certificate = content(
        "client-certificate",
        user.client_certificate_data.as_deref(),
        user.client_certificate.as_deref(),
    )?;
    let Some(certificate) = certificate else { return Ok(None) };
    let Some(key) = content("client-key", key_data, user.client_key.as_deref())? else { return Ok(None) };
    let blocks = pem::blocks(&certificate);
    let chain = blocks.into_iter().filter(|block| block.label == "CERTIFICATE");
    let chain: Vec<_> = chain.map(|block| CertificateDer::from(block.content)).collect();
    if chain.is_empty() {
        return Err("client-certificate has no certificate in PEM".to_owned());
    }
    let is_key = |block: &Block| block.label == "PRIVATE KEY" || block.label.ends_with(" PRIVATE KEY");
    let key = pem::blocks(&key).into_iter().find(is_key).ok_or("client-key has no private key in PEM")?;
    let key = match key.label.as_str() {
        "RSA PRIVATE KEY" => PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(key.content)),
        "EC PRIVATE KEY" => PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key.content)),
        _ => PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.content)),
    };
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let certified = CertifiedKey::from_der(chain, key, &provider);
    certified.map(|certified| Some(Arc::new(certified))).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => "client-key is not the key of client-certificate".to_owned(),
        error => format!("cannot use client-certificate and client-key: {error}"),
    })
}

/// The bytes of a field that has data or names a file.
pub(super) fn content(
    field: &str,
    data: Option<&str>,
    file: Option<&str>,
) -> Result<Option<Vec<u8>>, String> {
    match (data, file) {
        (Some(data), _) if !data.is_empty() => {
            STANDARD.decode(data).map(Some).map_err(|_| format!("{field}-data is no base64"))
        }
        (_, Some(file)) if !file.is_empty() => {
            let content = named_file::read(Path::new(file));
            content.map(Some).map_err(|error| format!("cannot read {field} {file}: {error}"))
        }
        _ => Ok(None),
    }
}
