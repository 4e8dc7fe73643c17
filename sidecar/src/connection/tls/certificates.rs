//! Provides the serving certificate: from files that are reloaded when they change (apiserver:
//! `dynamiccertificates`), or a temporary self-signed one, until there is one that clients can verify.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::interval;
use tracing::{info, warn};

use crate::connection::tls::replicas::ReplicaTls;

/// The current serving certificate.
#[derive(Debug)]
pub struct ServingCertificate(ArcSwap<CertifiedKey>);

/// `--tls-cert-file` and `--tls-private-key-file`.
#[derive(Clone, Debug)]
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// `--peer-ca-file`
    pub peer_ca: Option<PathBuf>,
}

/// The contents of the files.
#[derive(PartialEq, Eq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
    peer_ca: Option<Vec<u8>>,
}

impl ServingCertificate {
    pub fn from_files(files: &Files) -> anyhow::Result<Self> {
        Ok(Self(ArcSwap::from_pointee(files.read()?.1)))
    }

    /// A temporary certificate for `names`, which no client can verify.
    pub fn self_signed(names: Vec<String>) -> anyhow::Result<Self> {
        let made = rcgen::generate_simple_self_signed(names).context("cannot make a certificate")?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
        Ok(Self(ArcSwap::from_pointee(certified(vec![made.cert.der().clone()], key)?)))
    }

    /// Replaces the certificate, for later handshakes.
    pub fn show(&self, chain: Vec<CertificateDer<'static>>, key: &PrivateKeyDer<'_>) -> anyhow::Result<()> {
        self.0.store(Arc::new(certified(chain, key.clone_key())?));
        Ok(())
    }

    /// The current certificate.
    pub fn current(&self) -> Arc<CertifiedKey> {
        self.0.load_full()
    }

    /// Exports the expiry of the current certificate as a metric.
    pub fn register(self: Arc<Self>, registry: &mut Registry) {
        registry.register_collector(Box::new(Expiry(self)));
    }

    /// Expiry in seconds since the Unix epoch.
    fn expiry(&self) -> Option<i64> {
        let current = self.current();
        let (_, parsed) = x509_parser::parse_x509_certificate(current.cert.first()?).ok()?;
        Some(parsed.validity().not_after.timestamp())
    }

    /// Reloads the files each minute until the process ends. They also identify this replica to the others;
    /// its certificate is for `name`.
    pub async fn follow(self: Arc<Self>, files: Files, replicas: Arc<ReplicaTls>, name: String) {
        let mut every = interval(REREAD);
        let mut seen = None;
        loop {
            every.tick().await;
            match files.read() {
                Ok((content, key)) if seen.as_ref() != Some(&content) => {
                    if let Some(ca) = &content.peer_ca
                        && let Err(error) = replicas.introduce(&key, ca, &name)
                    {
                        warn!(error = format!("{error:#}"), "cannot use --peer-ca-file");
                    }
                    if seen.replace(content).is_some() {
                        info!("reloaded the serving certificate");
                    }
                    self.0.store(Arc::new(key));
                }
                Ok(_) => {}
                Err(error) => {
                    warn!(
                        error = format!("{error:#}"),
                        "cannot read the serving certificate: keeping the current one"
                    );
                }
            }
        }
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

#[derive(Debug)]
struct Expiry(Arc<ServingCertificate>);

impl Collector for Expiry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(expiry) = self.0.expiry() else { return Ok(()) };
        let help = "End of the serving certificate, in seconds since the Unix epoch";
        let gauge = encoder.encode_descriptor(EXPIRY, help, None, MetricType::Gauge)?;
        ConstGauge::new(expiry).encode(gauge)
    }
}

impl Files {
    /// Reads the files and parses the certificate.
    fn read(&self) -> anyhow::Result<(Content, CertifiedKey)> {
        let read =
            |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        let peer_ca = self.peer_ca.as_ref().map(read).transpose()?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&certificate)
            .collect::<Result<_, _>>()
            .with_context(|| format!("no PEM certificate: {}", self.certificate.display()))?;
        if chain.is_empty() {
            bail!("no PEM certificate: {}", self.certificate.display());
        }
        let parsed = PrivateKeyDer::from_pem_slice(&key)
            .with_context(|| format!("no PEM key: {}", self.key.display()))?;
        let certified = certified(chain, parsed)?;
        Ok((Content { certificate, key, peer_ca }, certified))
    }
}

fn certified(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'_>) -> anyhow::Result<CertifiedKey> {
    let key = CertifiedKey::new(chain, any_supported_type(&key).context("the key is of no supported type")?);
    key.keys_match().context("the certificate does not fit the key")?;
    Ok(key)
}

const EXPIRY: &str = "mc_sidecar_serving_certificate_expiry_timestamp_seconds";
/// About as long as a mounted Secret takes to change.
const REREAD: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::metrics;

    #[test]
    fn expiry_of_the_current_certificate_is_a_metric() {
        let (key, end) = (rcgen::KeyPair::generate().unwrap(), rcgen::date_time_ymd(2031, 5, 6));
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.not_after = end;
        let chain = vec![parameters.self_signed(&key).unwrap().der().clone()];
        let shown = Arc::new(ServingCertificate::self_signed(vec!["localhost".to_owned()]).unwrap());
        let mut registry = Registry::default();
        shown.clone().register(&mut registry);
        let line = format!("{EXPIRY} {}\n", end.unix_timestamp());
        assert!(!metrics::text(&registry).contains(&line));
        shown.show(chain, &PrivateKeyDer::try_from(key.serialize_der()).unwrap()).unwrap();
        assert!(metrics::text(&registry).contains(&line));
    }
}
