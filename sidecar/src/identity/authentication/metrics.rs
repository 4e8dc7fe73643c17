//! Metrics of authentication, by the names of a kube-apiserver (apiserver: `endpoints/filters/metrics.go`), and failed
//! attempts by kind of credential.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::{Authenticated, CredentialKinds, Failed};
use crate::metrics::{PlainCounter, own};

/// Attempts to authenticate.
#[derive(Debug)]
pub struct Metrics {
    success: Attempts,
    failure: Attempts,
    error: Attempts,
    failures: Family<KindLabels, Counter>,
}

#[derive(Clone, Debug)]
struct Attempts {
    number: PlainCounter,
    duration: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    attempted: CredentialKinds,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let number = Family::<ResultLabels, PlainCounter>::default();
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let duration = Family::<ResultLabels, _, _>::new_with_constructor(histogram);
        let failures = Family::default();
        registry.register("authentication_attempts", "Authentication attempts by result", number.clone());
        registry.register_with_unit(
            "authentication_duration",
            "Time of authentication by result",
            Unit::Seconds,
            duration.clone(),
        );
        own(registry).register(
            "authentication_failures",
            "Failed authentication attempts by kind of credential",
            failures.clone(),
        );
        let [success, failure, error] = ["success", "failure", "error"].map(|result| {
            let labels = ResultLabels { result };
            Attempts {
                number: number.get_or_create_owned(&labels),
                duration: duration.get_or_create_owned(&labels),
            }
        });
        Self { success, failure, error, failures }
    }

    pub(super) fn ended(&self, result: &Result<Authenticated, Failed>, took: Duration) {
        let attempts = match result {
            Ok(_) => &self.success,
            Err(failed) => {
                self.failures.get_or_create(&KindLabels { attempted: failed.attempted }).inc();
                if failed.error.is_refusal() { &self.failure } else { &self.error }
            }
        };
        attempts.number.inc();
        attempts.duration.observe(took.as_secs_f64());
    }
}
