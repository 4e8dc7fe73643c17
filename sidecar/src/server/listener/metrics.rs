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
        registry.register("connections", "Downstream connections that are open", metrics.open.clone());
        registry.register(
            "connections_refused",
            "Downstream connections that were closed because there was no place for them",
            metrics.refused.clone(),
        );
        metrics
    }
}
