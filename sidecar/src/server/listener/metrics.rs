//! Metrics of connections.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::observe::metrics::own;

/// Connections of callers.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(super) open: Gauge,
    pub(super) refused: Counter,
    /// Completed handshakes.
    pub(super) handshakes: Counter,
    pub(super) handshake_errors: Counter,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "apiserver_tls_handshake_errors",
            "TLS handshakes of callers that failed",
            metrics.handshake_errors.clone(),
        );
        let registry = own(registry);
        registry.register(
            "tls_handshakes",
            "TLS handshakes of callers that were completed",
            metrics.handshakes.clone(),
        );
        registry.register("connections", "Open connections of callers", metrics.open.clone());
        registry.register(
            "connections_refused",
            "Connections of callers closed because a connection limit was reached",
            metrics.refused.clone(),
        );
        metrics
    }
}
