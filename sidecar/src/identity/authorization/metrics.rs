//! Counts authorizations by result.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::{Allowed, Error};
use crate::identity::attempts::Attempts;

/// Authorizations of requests.
#[derive(Debug)]
pub struct Metrics {
    allowed: Attempts<Counter>,
    denied: Attempts<Counter>,
    error: Attempts<Counter>,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let results = ["allowed", "denied", "error"];
        let [allowed, denied, error] = Attempts::register("authorization", results, registry);
        Self { allowed, denied, error }
    }

    pub(super) fn ended(&self, result: &Result<Allowed, Error>, took: Duration) {
        let attempts = match result {
            Ok(_) => &self.allowed,
            Err(Error::Denied(_)) => &self.denied,
            Err(Error::TooManyReviews | Error::Review) => &self.error,
        };
        attempts.took(took).inc();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_review_is_counted_as_an_error() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.ended(&Err(Error::Review), Duration::from_millis(3));
        let text = crate::observe::metrics::text(&registry);
        for line in [
            r#"authorization_attempts_total{result="error"} 1"#,
            r#"authorization_attempts_total{result="allowed"} 0"#,
            r#"authorization_duration_seconds_count{result="error"} 1"#,
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
