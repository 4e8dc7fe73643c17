//! What `/metrics` tells of the members.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// How many members there are.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(super) members: Gauge<f64, AtomicU64>,
    pub(super) unreachable: Gauge,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("members", "Registered members", metrics.members.clone());
        registry.register(
            "members_unreachable",
            "Members whose circuit breaker is open",
            metrics.unreachable.clone(),
        );
        metrics
    }
}
