//! Counts and measures the reviews on the host, with the metric names of a delegating apiserver (apiserver:
//! `authentication/authenticatorfactory/metrics.go`, `authorization/authorizerfactory/metrics.go`).

use std::time::Duration;

use kube::Error;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::observe::metrics::{Counted, Labels, own};

/// The reviews of one kind.
#[derive(Clone, Debug)]
pub struct ReviewMetrics {
    /// By status code of the host's answer, or `<error>`.
    requests: Family<Labels<1, String>, Counter>,
    duration: Family<Labels<1, String>, Histogram, fn() -> Histogram>,
    running: Gauge,
    waiting: Gauge,
}

impl Default for ReviewMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(histogram),
            running: Gauge::default(),
            waiting: Gauge::default(),
        }
    }
}

impl ReviewMetrics {
    /// Registers the metrics of TokenReviews and of SubjectAccessReviews.
    pub fn register(registry: &mut Registry) -> (Self, Self) {
        let states = Family::<Labels<2>, Gauge>::default();
        own(registry).register("reviews", "Reviews of the host, by kind and state", states.clone());
        let mut of = |kind, authority: &str| {
            let gauge = |state| states.get_or_create_owned(&[("kind", kind), ("state", state)]);
            let metrics = Self { running: gauge("running"), waiting: gauge("waiting"), ..Self::default() };
            let name = format!("apiserver_delegated_{authority}_request");
            registry.register(&name, "Reviews by status code", metrics.requests.clone());
            let help = "Time of reviews by status code";
            registry.register_with_unit(
                format!("{name}_duration"),
                help,
                Unit::Seconds,
                metrics.duration.clone(),
            );
            metrics
        };
        (of("token", "authn"), of("access", "authz"))
    }

    /// Counts a queued review, until the result is dropped.
    pub fn waiting(&self) -> Counted {
        Counted::new(self.waiting.clone())
    }

    /// Counts a review in progress, until the result is dropped.
    pub fn running(&self) -> Counted {
        Counted::new(self.running.clone())
    }

    /// Counts one response of the host. `None` is a timeout.
    pub fn answered<K>(&self, answer: Option<&Result<K, Error>>, took: Duration) {
        let code = match answer {
            // A successful review is 201 Created.
            Some(Ok(_)) => "201".to_owned(),
            Some(Err(Error::Api(status))) => status.code.to_string(),
            Some(Err(_)) | None => "<error>".to_owned(),
        };
        let labels = [("code", code)];
        self.requests.get_or_create(&labels).inc();
        self.duration.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

/// Upstream's buckets.
const BUCKETS: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn review_is_counted_by_code_and_state() {
        let mut registry = Registry::default();
        let (token, access) = ReviewMetrics::register(&mut registry);
        let (_waiting, running) = (token.waiting(), access.running());
        drop(running);
        token.answered(Some(&Ok(())), Duration::from_millis(3));
        access.answered::<()>(None, Duration::from_secs(10));
        let text = crate::observe::metrics::text(&registry);
        for line in [
            r#"mc_sidecar_reviews{kind="token",state="waiting"} 1"#,
            r#"mc_sidecar_reviews{kind="access",state="running"} 0"#,
            r#"apiserver_delegated_authn_request_total{code="201"} 1"#,
            r#"apiserver_delegated_authz_request_total{code="<error>"} 1"#,
            r#"apiserver_delegated_authz_request_duration_seconds_count{code="<error>"} 1"#,
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
