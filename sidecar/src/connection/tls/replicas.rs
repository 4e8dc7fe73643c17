//! Configures mutual TLS between the replicas of one installation. Each replica uses its serving certificate,
//! also as a client, and trusts certificates of the installation's authority with the URI [`PEER`]. The
//! authority is the sidecar's own, or `--peer-ca-file`.

use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwapOption;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::extensions::GeneralName;

/// The protocol between replicas (RFC 7301).
pub const ALPN: &[u8] = b"kubectl-mc-peer/1";
/// The URI in the certificates of replicas.
pub const PEER: &str = "kubectl-mc:peer";

/// A replica's certificate for the others, and how it verifies theirs.
#[derive(Debug, Default)]
pub struct ReplicaTls(ArcSwapOption<Identity>);

/// The state at one moment.
#[derive(Debug)]
pub struct Identity {
    pub client: Arc<ClientConfig>,
    /// The name in the certificates of all replicas.
    pub name: ServerName<'static>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ReplicaTls {
    /// Uses this certificate from now on, and trusts the roots in `bundle` (PEM). The certificates of all
    /// replicas are for `name`.
    pub fn introduce(&self, shown: &CertifiedKey, bundle: &[u8], name: &str) -> anyhow::Result<()> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok));
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder(roots.clone()).build().context("no CA of replicas")?;
        let shown = Arc::new(SingleCertAndKey::from(shown.clone()));
        let mut client =
            ClientConfig::builder().with_root_certificates(roots).with_client_cert_resolver(shown);
        client.alpn_protocols = vec![ALPN.to_vec()];
        let name = ServerName::try_from(name.to_owned())?;
        self.0.store(Some(Arc::new(Identity { client: Arc::new(client), name, verifier })));
        Ok(())
    }

    /// This replica's identity, once it has a certificate.
    pub fn identity(&self) -> Option<Arc<Identity>> {
        self.0.load_full()
    }

    /// Whether these certificates, whose key the peer holds, are those of a replica.
    pub fn is_replica(&self, certificates: Option<&[CertificateDer<'_>]>) -> bool {
        let (Some(identity), Some((leaf, intermediates))) =
            (self.identity(), certificates.and_then(<[_]>::split_first))
        else {
            return false;
        };
        has_uri(leaf) && identity.verifier.verify_client_cert(leaf, intermediates, UnixTime::now()).is_ok()
    }
}

fn has_uri(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else { return false };
    let Ok(Some(names)) = parsed.subject_alternative_name() else { return false };
    names.value.general_names.iter().any(|name| matches!(name, GeneralName::URI(PEER)))
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;
    use crate::connection::tls::authority::{Authority, Content, State};
    use crate::connection::tls::certificates::ServingCertificate;

    fn authority() -> Authority {
        let now = OffsetDateTime::now_utc();
        let State::ToWrite(content) = State::of(&Content::new(), now).unwrap() else { panic!() };
        let State::Ready(authority) = State::of(&content, now).unwrap() else { panic!() };
        *authority
    }

    const NAME: &str = "mc-sidecar.n.svc";

    #[test]
    fn replica_is_verified_by_authority_and_uri() {
        crate::connection::tls::install_provider();
        let (ours, other) = (authority(), authority());
        let issued =
            |authority: &Authority| authority.issue(&[NAME.to_owned()], OffsetDateTime::now_utc()).unwrap();
        let (leaf, strange) = (issued(&ours), issued(&other));
        let replica = ReplicaTls::default();
        assert!(!replica.is_replica(Some(&leaf.chain)), "it has no authority yet");
        let shown = ServingCertificate::self_signed(vec![NAME.to_owned()]).unwrap();
        shown.show(leaf.chain.clone(), &leaf.key).unwrap();
        replica.introduce(&shown.current(), ours.bundle.as_bytes(), NAME).unwrap();
        assert!(replica.is_replica(Some(&leaf.chain)));
        assert!(!replica.is_replica(Some(&strange.chain)));
        assert!(!replica.is_replica(None));
        assert!(!replica.is_replica(Some(&[])));
        // From the same authority, but not a replica's.
        let without = ours.without_uri(&[NAME.to_owned()]);
        assert!(!replica.is_replica(Some(&without)));
    }
}
