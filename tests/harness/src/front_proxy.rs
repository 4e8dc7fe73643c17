//! Certificates of the host's front proxy: the real one, and others that its authority might sign.

use anyhow::{Context, Result};
use rcgen::{
    CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
    date_time_ymd,
};
pub use testbed::ClientCertificate;

use crate::bed::bed;

/// The certificate with which the host's kube-apiserver connects to the sidecar.
pub fn certificate() -> Result<ClientCertificate> {
    Ok(ClientCertificate {
        certificate: file("front-proxy-client.crt")?,
        key: file("front-proxy-client.key")?,
    })
}

/// A certificate from the front proxy's authority with another name.
pub fn called(name: &str) -> Result<ClientCertificate> {
    sign(name, |_| ())
}

/// The front proxy's name in an expired certificate.
pub fn expired() -> Result<ClientCertificate> {
    sign(NAME, |params| params.not_after = date_time_ymd(2021, 1, 1))
}

/// The front proxy's name in a certificate from an unknown authority.
pub fn of_a_stranger() -> Result<ClientCertificate> {
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let stranger = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    leaf(NAME, &stranger, |_| ())
}

fn sign(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Result<ClientCertificate> {
    let key = KeyPair::from_pem(&file("front-proxy-ca.key")?)?;
    let mut params = CertificateParams::default();
    // A certificate takes only the subject from its issuer.
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("{}-front-proxy-ca", bed()?.host.name));
    leaf(name, &Issuer::new(params, key), change)
}

fn leaf(
    name: &str,
    issuer: &Issuer<'_, KeyPair>,
    change: impl FnOnce(&mut CertificateParams),
) -> Result<ClientCertificate> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = date_time_ymd(2020, 1, 1);
    change(&mut params);
    let key = KeyPair::generate()?;
    Ok(ClientCertificate { certificate: params.signed_by(&key, issuer)?.pem(), key: key.serialize_pem() })
}

fn file(name: &str) -> Result<String> {
    let path = bed()?.host.dir.join(name);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// The only name that the host allows its front proxy.
pub const NAME: &str = "front-proxy-client";
