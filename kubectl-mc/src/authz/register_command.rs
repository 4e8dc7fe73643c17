//! Builds the command that registers a cluster with Karmada: the host's address, and the hash of its CA's
//! public key, by which `karmadactl register` verifies the host.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::cluster::connection::Connection;
use crate::cluster::context::{ClusterContext, read_kubeconfig};
use crate::cluster::named_file;
use crate::error::Failure;
use crate::next_command::quoted;

/// How the cluster reaches the host.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// HOST:PORT
    address: String,
    /// `sha256:…`
    pub(super) pin: Option<String>,
}

impl Endpoint {
    /// The address that the host publishes for bootstrap, or else the one in the kubeconfig.
    pub(super) async fn find(host: &Connection, address: Option<&str>) -> Result<Self, Failure> {
        let published = host.readable("/api/v1/namespaces/kube-public/configmaps/cluster-info").await?;
        let published = published.unwrap_or_default();
        let published = published["data"]["kubeconfig"].as_str().and_then(Self::published);
        let mut found = published.unwrap_or_else(|| Self::of_kubeconfig(&host.cluster));
        if let Some(address) = address {
            address.clone_into(&mut found.address);
        }
        Ok(found)
    }

    fn published(kubeconfig: &str) -> Option<Self> {
        let kubeconfig = read_kubeconfig(kubeconfig.as_bytes()).ok()?;
        let cluster = kubeconfig.clusters.first()?.cluster.as_ref()?;
        let authority = STANDARD.decode(cluster.certificate_authority_data.as_deref()?).ok()?;
        Some(Self { address: address(cluster.server.as_deref()?), pin: Some(pin(&authority)?) })
    }

    fn of_kubeconfig(host: &ClusterContext) -> Self {
        let cluster = &host.cluster;
        let data = cluster.certificate_authority_data.as_deref().and_then(|data| STANDARD.decode(data).ok());
        let file = || named_file::read(cluster.certificate_authority.as_deref()?.as_ref()).ok();
        Self { address: address(&host.server), pin: data.or_else(file).and_then(|pem| pin(&pem)) }
    }

    /// The command, for the administrator of the cluster.
    pub(super) fn command(&self, cluster: &str, token: &str) -> String {
        let pin = self.pin.as_deref().unwrap_or(NO_PIN);
        format!(
            "karmadactl register {} --cluster-name={cluster} --token={token} --discovery-token-ca-cert-hash={pin}",
            quoted(self.address.as_ref())
        )
    }
}

/// The address without a scheme, as `karmadactl register` expects it.
fn address(server: &str) -> String {
    server.trim_start_matches("https://").trim_end_matches('/').to_owned()
}

/// The SHA-256 of the public key (RFC 7469, 2.4) of the first certificate.
fn pin(pem: &[u8]) -> Option<String> {
    let certificate = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).ok()?;
    // A trust anchor contains the content of the SEQUENCE.
    let content = roots.roots.first()?.subject_public_key_info.as_ref();
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().position(|byte| *byte != 0)?..];
    let mut key = vec![0x30];
    if content.len() >= 0x80 {
        key.push(0x80 | u8::try_from(length.len()).ok()?);
    }
    key.extend(length);
    key.extend(content);
    let hash = digest::digest(&digest::SHA256, &key);
    let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("sha256:{hash}"))
}

/// A placeholder for an unknown hash.
pub(super) const NO_PIN: &str = "sha256:HASH";
