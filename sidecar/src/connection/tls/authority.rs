//! Manages the authority that signs the sidecar's own serving certificates, as stored in its Secret.
//! `tls.crt` and `tls.key` sign. `ca.crt` contains what clients trust: the signer, and earlier
//! signers until they expire, so that a change of signers does not break clients. This module does
//! no IO.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;

use crate::connection::tls::replicas::PEER;

/// The parsed Secret.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    signer: CertificateDer<'static>,
    /// PEM: the `caBundle` of the APIServices.
    pub bundle: String,
}

/// The Secret's data.
pub type Content = BTreeMap<String, ByteString>;

/// A serving certificate, and the time of its renewal.
pub struct Leaf {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    /// The authority's certificate that signed it.
    pub signer: CertificateDer<'static>,
    renew_at: OffsetDateTime,
}

/// A working authority, or the content that the Secret needs first.
pub enum State {
    Ready(Box<Authority>),
    ToWrite(Content),
}

impl State {
    /// Decides about a Secret's content. A signer past two thirds of its life, or an unusable one, is
    /// replaced by a new one.
    pub fn of(content: &Content, now: OffsetDateTime) -> anyhow::Result<Self> {
        match Authority::read(content, now) {
            Ok(authority) => Ok(Self::Ready(Box::new(authority))),
            Err(_) => Ok(Self::ToWrite(Authority::make(content, now)?)),
        }
    }
}

impl Authority {
    fn read(content: &Content, now: OffsetDateTime) -> anyhow::Result<Self> {
        let part = |name: &str| content.get(name).with_context(|| format!("no {name}"));
        let signer = CertificateDer::from_pem_slice(&part(CERTIFICATE)?.0)?;
        let key = KeyPair::from_pem(std::str::from_utf8(&part(KEY)?.0)?)?;
        ensure!(public_key(&signer)? == key.subject_public_key_info(), "the key is not the certificate's");
        ensure!(now < renew_at(&life(&signer)?), "it is time for another");
        let bundle = part(BUNDLE)?;
        ensure!(certificates(&bundle.0).any(|root| root == signer), "the bundle lacks the signer");
        let bundle = String::from_utf8(bundle.0.clone())?;
        Ok(Self { issuer: Issuer::new(params(now)?, key), signer, bundle })
    }

    /// A new signer, together with the roots that clients may still have to trust.
    fn make(content: &Content, now: OffsetDateTime) -> anyhow::Result<Content> {
        let key = KeyPair::generate()?;
        let certificate = params(now)?.self_signed(&key)?;
        let mut bundle = certificate.pem();
        let old = [BUNDLE, CERTIFICATE].into_iter().filter_map(|name| content.get(name));
        let mut kept = Vec::new();
        for root in old.flat_map(|pem| certificates(&pem.0)) {
            if !kept.contains(&root) && life(&root).is_ok_and(|life| now < *life.end()) {
                bundle.push_str(&pem(&root));
                kept.push(root);
            }
        }
        let parts = [(CERTIFICATE, certificate.pem()), (KEY, key.serialize_pem()), (BUNDLE, bundle)];
        Ok(parts.into_iter().map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes()))).collect())
    }

    /// A serving certificate for these names, which also identifies this replica to the others.
    pub fn issue(&self, names: &[String], now: OffsetDateTime) -> anyhow::Result<Leaf> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name.push(DnType::CommonName, names.first().map_or("", String::as_str));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names.push(SanType::URI(PEER.try_into()?));
        params.use_authority_key_identifier_extension = true;
        params.not_before = now - SKEW;
        // A certificate must not outlive its signer.
        params.not_after = (now + LEAF_LIFE).min(*life(&self.signer)?.end());
        let renew_at = renew_at(&(now..=params.not_after));
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        Ok(Leaf { chain: vec![certificate.der().clone()], key, signer: self.signer.clone(), renew_at })
    }

    /// Whether this authority signed it.
    pub fn signed(&self, leaf: &Leaf) -> bool {
        leaf.signer == self.signer
    }
}

#[cfg(test)]
impl Authority {
    /// The chain of a certificate that does not belong to a replica.
    pub(crate) fn without_uri(&self, names: &[String]) -> Vec<CertificateDer<'static>> {
        let mut params = CertificateParams::new(names.to_vec()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        vec![params.signed_by(&KeyPair::generate().unwrap(), &self.issuer).unwrap().der().clone()]
    }
}

impl Leaf {
    pub fn is_due(&self, now: OffsetDateTime) -> bool {
        now >= self.renew_at
    }
}

fn params(now: OffsetDateTime) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "mc-sidecar-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.not_before = now - SKEW;
    params.not_after = now + LIFE;
    Ok(params)
}

fn certificates(pem: &[u8]) -> impl Iterator<Item = CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok)
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect::<Vec<_>>();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// Start and end of its validity.
fn life(certificate: &CertificateDer<'_>) -> anyhow::Result<RangeInclusive<OffsetDateTime>> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)?;
    let validity = parsed.validity();
    Ok(validity.not_before.to_datetime()..=validity.not_after.to_datetime())
}

fn public_key(certificate: &CertificateDer<'_>) -> anyhow::Result<Vec<u8>> {
    Ok(x509_parser::parse_x509_certificate(certificate)?.1.public_key().raw.to_vec())
}

/// The time after two thirds of a validity.
fn renew_at(life: &RangeInclusive<OffsetDateTime>) -> OffsetDateTime {
    *life.start() + (*life.end() - *life.start()) * 2 / 3
}

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const BUNDLE: &str = "ca.crt";
/// Two years.
const LIFE: Duration = Duration::from_secs(2 * 365 * 24 * 3600);
const LEAF_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Tolerance for differences between clocks.
const SKEW: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls_pki_types::UnixTime;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn made(content: &Content, now: OffsetDateTime) -> Content {
        match State::of(content, now).unwrap() {
            State::ToWrite(content) => content,
            State::Ready(_) => panic!("it needed nothing"),
        }
    }

    fn ready(content: &Content, now: OffsetDateTime) -> Authority {
        match State::of(content, now).unwrap() {
            State::Ready(authority) => *authority,
            State::ToWrite(_) => panic!("it is not ready"),
        }
    }

    fn roots(content: &Content) -> usize {
        certificates(&content[BUNDLE].0).count()
    }

    /// Verifies like Go and other clients.
    fn verify(leaf: &Leaf, bundle: &str) -> Result<(), String> {
        crate::connection::tls::install_provider();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(bundle.as_bytes()));
        let verifier = WebPkiServerVerifier::builder(Arc::new(roots)).build().unwrap();
        let name = "mc-sidecar.n.svc".try_into().unwrap();
        let verified = verifier.verify_server_cert(&leaf.chain[0], &[], &name, &[], UnixTime::now());
        verified.map(drop).map_err(|error| error.to_string())
    }

    fn names() -> Vec<String> {
        vec!["mc-sidecar.n.svc".to_owned()]
    }

    #[test]
    fn empty_secret_gets_a_working_authority() {
        let now = OffsetDateTime::now_utc();
        let content = made(&Content::new(), now);
        let authority = ready(&content, now);
        verify(&authority.issue(&names(), now).unwrap(), &authority.bundle).unwrap();
        let other = ready(&made(&Content::new(), now), now);
        assert!(verify(&other.issue(&names(), now).unwrap(), &authority.bundle).is_err());
    }

    #[test]
    fn signer_is_replaced_early_and_trusted_until_it_expires() {
        let now = OffsetDateTime::now_utc();
        let first = made(&Content::new(), now);
        let old = ready(&first, now).issue(&names(), now).unwrap();
        ready(&first, now + DAY * 486);
        let later = now + DAY * 488;
        let second = made(&first, later);
        assert_eq!(roots(&second), 2);
        let next = ready(&second, later);
        assert!(!next.signed(&old));
        verify(&old, &next.bundle).unwrap();
        // Another renewal, long after the first signer expired.
        let third = made(&second, later + DAY * 500);
        assert_eq!(roots(&third), 2);
        assert!(!certificates(&third[BUNDLE].0).any(|root| root == old.signer));
    }

    #[test]
    fn removed_signer_is_replaced_and_stays_trusted() {
        let now = OffsetDateTime::now_utc();
        let mut content = made(&Content::new(), now);
        let old = ready(&content, now).issue(&names(), now).unwrap();
        content.remove(KEY);
        let second = made(&content, now);
        verify(&old, &ready(&second, now).bundle).unwrap();
    }

    #[test]
    fn unusable_secret_content_is_replaced() {
        let now = OffsetDateTime::now_utc();
        let (good, other) = (made(&Content::new(), now), made(&Content::new(), now));
        let with = |name: &str, value: &[u8]| {
            let mut content = good.clone();
            content.insert(name.to_owned(), ByteString(value.to_vec()));
            content
        };
        for content in [
            with(CERTIFICATE, b"nonsense"),
            with(KEY, b"nonsense"),
            with(KEY, &other[KEY].0),
            with(BUNDLE, b""),
            with(BUNDLE, &other[BUNDLE].0),
        ] {
            let mended = made(&content, now);
            ready(&mended, now);
        }
    }

    #[test]
    fn fault_80_certificates_tolerate_an_hour_of_clock_skew() {
        let right = OffsetDateTime::now_utc();
        for wrong in [right - SKEW, right + SKEW] {
            let content = made(&Content::new(), wrong);
            let leaf = ready(&content, wrong).issue(&names(), wrong).unwrap();
            // After the clock is corrected, everything stays valid.
            verify(&leaf, &ready(&content, right).bundle).unwrap();
            assert!(!leaf.is_due(right));
        }
    }

    #[test]
    fn leaf_is_renewed_at_two_thirds_within_its_signers_life() {
        let now = OffsetDateTime::now_utc();
        let authority = ready(&made(&Content::new(), now), now);
        let leaf = authority.issue(&names(), now).unwrap();
        assert!(!leaf.is_due(now + DAY * 19));
        assert!(leaf.is_due(now + DAY * 21));
        let last = authority.issue(&names(), now + DAY * 720).unwrap();
        assert_eq!(life(&last.chain[0]).unwrap().end(), life(&authority.signer).unwrap().end());
    }
}
