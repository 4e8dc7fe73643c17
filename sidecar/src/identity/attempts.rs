//! Counts attempts to authenticate or to authorize by result, and measures their time (apiserver:
//! `endpoints/filters/metrics.go`).

use std::time::Duration;

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::observe::metrics::Labels;

/// The attempts with one result. `C` counts them.
#[derive(Clone, Debug)]
pub(super) struct Attempts<C> {
    number: C,
    duration: Histogram,
}

impl<C> Attempts<C>
where
    C: Clone + std::fmt::Debug + Default + EncodeMetric + TypedMetric + Send + Sync + 'static,
{
    /// Registers the metrics `{of}_attempts` and `{of}_duration_seconds`, and returns the attempts of each
    /// result.
    pub(super) fn register<const N: usize>(
        of: &str,
        results: [&'static str; N],
        registry: &mut Registry,
    ) -> [Self; N] {
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let (number, duration) = (Family::<Labels<1>, C>::default(), Family::new_with_constructor(histogram));
        registry.register(format!("{of}_attempts"), "Attempts by result", number.clone());
        let help = "Time of the attempts by result";
        registry.register_with_unit(format!("{of}_duration"), help, Unit::Seconds, duration.clone());
        results.map(|result| {
            let labels = [("result", result)];
            Self {
                number: number.get_or_create_owned(&labels),
                duration: duration.get_or_create_owned(&labels),
            }
        })
    }

    /// Observes the time of an attempt and returns its counter.
    pub(super) fn took(&self, time: Duration) -> &C {
        self.duration.observe(time.as_secs_f64());
        &self.number
    }
}
