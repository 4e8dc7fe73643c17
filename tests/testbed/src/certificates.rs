//! Creates certificate authorities and the certificates that they sign within this process, all
//! with P-256 keys.

mod client;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};

/// A client certificate with its key, both PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    pub certificate: String,
    pub key: String,
}

/// A certificate authority, kept as `<stem>.crt` and `<stem>.key` in a folder.
pub(crate) struct Authority {
    name: String,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates a new one.
    pub(crate) fn create(name: &str, dir: &Path, stem: &str) -> Result<Self> {
        let pair = new_key()?;
        let params = authority_params(name);
        let (certificate, key) = (dir.join(format!("{stem}.crt")), dir.join(format!("{stem}.key")));
        fs::write(&certificate, params.self_signed(&pair)?.pem())?;
        fs::write(&key, pair.serialize_pem())?;
        Ok(Self { name: name.to_owned(), certificate, key, issuer: Issuer::new(params, pair) })
    }

    /// Loads one that was created under this name before.
    pub(crate) fn load(name: &str, certificate: &Path, key: &Path) -> Result<Self> {
        let pem = fs::read_to_string(key).with_context(|| format!("no key: {}", key.display()))?;
        Ok(Self {
            name: name.to_owned(),
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            issuer: Issuer::new(authority_params(name), KeyPair::from_pem(&pem)?),
        })
    }

    /// A certificate for a client: Kubernetes reads the user from the common name and the groups from the
    /// organizations.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<ClientCertificate> {
        let key = new_key()?;
        let der = client::sign(&self.name, self.issuer.key(), &key, user, groups)?;
        Ok(ClientCertificate { certificate: pem("CERTIFICATE", &der), key: key.serialize_pem() })
    }

    /// A client certificate written to `<stem>.crt` and `<stem>.key`.
    pub(crate) fn client_files(&self, user: &str, groups: &[&str], dir: &Path, stem: &str) -> Result<()> {
        let ClientCertificate { certificate, key } = self.client(user, groups)?;
        fs::write(dir.join(format!("{stem}.crt")), certificate)?;
        fs::write(dir.join(format!("{stem}.key")), key)?;
        Ok(())
    }

    /// Writes a serving certificate for names, addresses and URIs (`kubectl-mc:…`), which is also
    /// valid for a client, to `<stem>.crt` and `<stem>.key`.
    pub(crate) fn serving_files(&self, names: &[&str], dir: &Path, stem: &str) -> Result<()> {
        let (uris, names): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.starts_with("kubectl-mc:"));
        let names = names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names.clone())?;
        for uri in uris {
            params.subject_alt_names.push(SanType::URI(uri.try_into()?));
        }
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, names.first().map_or("server", |name| name));
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = new_key()?;
        fs::write(dir.join(format!("{stem}.crt")), params.signed_by(&key, &self.issuer)?.pem())?;
        fs::write(dir.join(format!("{stem}.key")), key.serialize_pem())?;
        Ok(())
    }
}

/// Writes the keys that sign and verify service account tokens: `<stem>.key` and `<stem>.pub`.
pub(crate) fn signing_files(dir: &Path, stem: &str) -> Result<()> {
    let key = new_key()?;
    fs::write(dir.join(format!("{stem}.key")), key.serialize_pem())?;
    fs::write(dir.join(format!("{stem}.pub")), key.public_key_pem())?;
    Ok(())
}

fn new_key() -> Result<KeyPair> {
    Ok(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem + &format!("-----END {label}-----\n")
}
