//! What `/metrics` tells of the controllers. What has a member for a label is told by the leader alone,
//! of the members that are registered.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The controllers' metrics.
#[derive(Debug, Default)]
pub struct Metrics {
    pub leader: Gauge,
    restarts: Family<ControllerLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("leader", "Whether this replica runs the controllers", metrics.leader.clone());
        registry.register(
            "controller_restarts",
            "How often a controller ended and was begun again",
            metrics.restarts.clone(),
        );
        metrics
    }

    /// Counts a controller that ended.
    pub fn restarted(&self, controller: &'static str) {
        self.restarts.get_or_create(&ControllerLabels { controller }).inc();
    }
}
