//! The reasons why a request has no answer.

use std::error::Error;

use crate::cluster::transport::Refused;
use crate::error::{Explain, Failure, chain};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The kubeconfig needs an unsupported feature, or the credential cannot be obtained.
    #[error("cannot set up the connection")]
    Setup(#[source] Box<dyn Error + Send + Sync>),
    /// The TLS handshake failed. Go accepts some certificates that rustls does not (a self-signed one that
    /// claims to be a CA), so kubectl may succeed.
    #[error("cannot establish TLS with the host")]
    Tls(#[source] Box<dyn Error + Send + Sync>),
    /// The response exceeds the size limit.
    #[error("the answer is larger than {} MiB", .0 / 1024 / 1024)]
    TooLarge(usize),
    /// The host did not respond.
    #[error("cannot reach the host")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
}

impl Explain for ClientError {}

/// The hint for an unreachable cluster.
const CHECK_NETWORK: &str = "check the network, and the server of the kubeconfig context";

impl ClientError {
    /// Adds the name of the cluster.
    pub(crate) fn of(&self, cluster: &str) -> Failure {
        match self {
            Self::Unreachable(_) => {
                Failure::new(format!("cannot reach {cluster}: {}", self.reason())).with_hint(CHECK_NETWORK)
            }
            Self::Tls(_) => Failure::new(format!("cannot establish TLS with {cluster}: {}", self.reason())),
            Self::Setup(_) | Self::TooLarge(_) => {
                Failure::new(format!("cannot use {cluster}: {}", chain(self)))
            }
        }
    }

    /// Whether the plugin refuses the server's key but kubectl would connect.
    pub(crate) fn is_of_a_key(&self) -> bool {
        matches!(self, Self::Tls(error) if error.downcast_ref().is_some_and(Refused::is_of_a_key))
    }

    /// The message of the innermost error, because "client error (Connect)" is too vague.
    pub(crate) fn reason(&self) -> String {
        let cause = self.source().map(|cause| cause.source().unwrap_or(cause));
        cause.map_or_else(|| self.to_string(), chain)
    }
}
