//! Metrics of the audit, with the names of a kube-apiserver (apiserver: `pkg/audit/metrics.go`).

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::observe::metrics::Labels;

#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub(super) events: Counter,
    pub(super) rejected: Counter,
    errors: Family<Labels<1>, Counter>,
    levels: Family<Labels<1>, Counter>,
}

impl Metrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "apiserver_audit_event",
            "Audit events that were generated for the backends",
            metrics.events.clone(),
        );
        registry.register(
            "apiserver_audit_error",
            "Audit events that a backend did not store",
            metrics.errors.clone(),
        );
        registry.register("apiserver_audit_level", "Requests by audit level", metrics.levels.clone());
        registry.register(
            "apiserver_audit_requests_rejected",
            "Requests rejected because their audit event could not be stored",
            metrics.rejected.clone(),
        );
        metrics
    }

    pub(super) fn errors_of(&self, plugin: &'static str) -> Counter {
        self.errors.get_or_create_owned(&[("plugin", plugin)])
    }

    pub(super) fn evaluated(&self, is_recorded: bool) {
        let level = if is_recorded { "Metadata" } else { "None" };
        self.levels.get_or_create(&[("level", level)]).inc();
    }
}
