//! The parameters of an installation, and values derived from them.

use std::num::NonZeroU16;

use super::values::{Certificates, Values};
use crate::names;

/// The parameters of an installation.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    pub namespace: String,
    /// The full image reference. It takes precedence over the values.
    pub image: String,
    pub values: Values,
}

/// How the host reaches a sidecar that runs in another cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// By a DNS name that the host's kube-apiserver can resolve.
    Name(String),
    /// By addresses and a port.
    Addresses(Vec<std::net::IpAddr>, u16),
}

impl Parameters {
    /// The default parameters with this image.
    pub fn new(image: impl Into<String>) -> Self {
        Self { namespace: names::NAMESPACE.to_owned(), image: image.into(), values: Values::default() }
    }

    /// The same parameters with another issuer of the serving certificate.
    pub fn with_certificates(&self, certificates: Certificates) -> Self {
        let mut other = self.clone();
        other.values.certificates = certificates;
        other
    }

    /// The port that the sidecar's pods serve on.
    pub fn port(&self) -> u16 {
        self.values.secure_port.map_or(if self.values.host_network { 10260 } else { 10250 }, NonZeroU16::get)
    }

    /// The Secret whose `ca.crt` verifies the serving certificate.
    pub(super) fn authority(&self) -> &str {
        match self.values.certificates {
            Certificates::SelfManaged => AUTHORITY,
            Certificates::CertManager => SERVED,
            Certificates::Secret => &self.values.tls.secret_name,
        }
    }
}

/// The Secret with the CA of self-managed serving certificates.
pub const AUTHORITY: &str = "mc-sidecar-ca";
/// The Secret in which cert-manager stores the serving certificate.
pub const SERVED: &str = "mc-sidecar-tls";
