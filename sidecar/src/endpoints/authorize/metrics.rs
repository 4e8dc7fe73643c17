//! Metrics of the authorization webhook.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::observe::metrics::{Labels, own};

/// Decisions by result, and closed connections.
#[derive(Debug, Default)]
pub struct Metrics {
    decisions: Family<Labels<1>, Counter>,
    /// Connections of peers other than the host's kube-apiserver, or beyond the limits.
    pub refused: Counter,
}

/// The result of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Denied,
    NoOpinion,
    Invalid,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = own(registry);
        registry.register(
            "authorization_webhook_decisions",
            "Reviews of the authorization webhook, by result",
            metrics.decisions.clone(),
        );
        registry.register(
            "authorization_webhook_connections_refused",
            "Connections to the authorization webhook closed: not the host's kube-apiserver, or a limit",
            metrics.refused.clone(),
        );
        metrics
    }

    pub(super) fn count(&self, outcome: Outcome) {
        let result = match outcome {
            Outcome::Denied => "denied",
            Outcome::NoOpinion => "no_opinion",
            Outcome::Invalid => "invalid",
        };
        self.decisions.get_or_create(&[("result", result)]).inc();
    }
}
