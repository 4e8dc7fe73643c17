//! Metrics of authorization, by the names of a kube-apiserver (apiserver: `endpoints/filters/metrics.go`).

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::{Allowed, Error};

/// Authorizations of requests.
#[derive(Debug)]
pub struct Metrics {
    allowed: Attempts,
    denied: Attempts,
    error: Attempts,
}

#[derive(Clone, Debug)]
struct Attempts {
    number: Counter,
    duration: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    result: &'static str,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let number = Family::<Labels, Counter>::default();
        let duration = Family::<Labels, _, _>::new_with_constructor(histogram);
        registry.register("authorization_attempts", "Authorization attempts by result", number.clone());
        registry.register_with_unit(
            "authorization_duration",
            "Time of authorization by result",
            Unit::Seconds,
            duration.clone(),
        );
        let [allowed, denied, error] = ["allowed", "denied", "error"].map(|result| {
            let labels = Labels { result };
            Attempts {
                number: number.get_or_create_owned(&labels),
                duration: duration.get_or_create_owned(&labels),
            }
        });
        Self { allowed, denied, error }
    }

    pub(super) fn ended(&self, result: &Result<Allowed, Error>, took: Duration) {
        let attempts = match result {
            Ok(_) => &self.allowed,
            Err(Error::Denied(_)) => &self.denied,
            Err(Error::TooManyReviews | Error::Review) => &self.error,
        };
        attempts.number.inc();
        attempts.duration.observe(took.as_secs_f64());
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}
