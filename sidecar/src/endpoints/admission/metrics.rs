//! Metrics of the admission webhooks.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::webhook::Webhook;
use crate::observe::metrics::{Labels, own};

/// Reviews by webhook and result, and connections and bodies beyond the limits.
#[derive(Debug, Default)]
pub struct Metrics {
    reviews: Family<Labels<2>, Counter>,
    /// Connections closed, and bodies not read, because of a limit.
    pub limited: Counter,
}

/// The result of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Allowed,
    Refused,
    Invalid,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = own(registry);
        registry.register(
            "admission_webhook_reviews",
            "Reviews of the admission webhooks, by webhook and result",
            metrics.reviews.clone(),
        );
        registry.register(
            "admission_webhook_limited",
            "Connections to the admission webhooks closed, and bodies not read, because of a limit",
            metrics.limited.clone(),
        );
        metrics
    }

    pub(super) fn count(&self, webhook: Webhook, outcome: Outcome) {
        let webhook = match webhook {
            Webhook::Enrollment => "enrollment",
            Webhook::Owner => "owner",
        };
        let result = match outcome {
            Outcome::Allowed => "allowed",
            Outcome::Refused => "refused",
            Outcome::Invalid => "invalid",
        };
        self.reviews.get_or_create(&[("webhook", webhook), ("result", result)]).inc();
    }
}
