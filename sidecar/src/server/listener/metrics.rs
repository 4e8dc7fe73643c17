//! What `/metrics` tells of connections.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Connections of callers.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(super) open: Gauge,
    pub(super) refused: Counter,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("connections", "Open connections of callers", metrics.open.clone());
        registry.register(
            "connections_refused",
            "Connections of callers closed because a connection limit was reached",
            metrics.refused.clone(),
        );
        metrics
    }
}
