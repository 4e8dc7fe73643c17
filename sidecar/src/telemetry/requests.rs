//! Metrics of requests, with the names of a kube-apiserver (apiserver: `pkg/endpoints/metrics/metrics.go`).
//! Labels have few values: users and paths are never labels, and a member is one only while it is registered.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::observe::metrics::own;

mod by_member;
mod kind;

pub use by_member::{ByMember, OfMember, Outcome};
pub use kind::Kind;

/// Requests in flight and completed.
#[derive(Debug)]
pub struct Metrics {
    pub by_member: Arc<ByMember>,
    duration: Durations,
    /// Excludes the time in the sidecar's queues.
    sli_duration: Durations,
    long_running: Family<Kind, Gauge>,
    in_flight: Gauge,
    pub panics: Counter,
}

type Durations = Family<Kind, HistogramWithExemplars<Trace>, fn() -> HistogramWithExemplars<Trace>>;

/// The trace that an exemplar belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Trace {
    pub trace_id: String,
}

/// The duration of a request.
#[derive(Clone, Debug, Default)]
pub struct Took {
    pub elapsed: Duration,
    /// The part of it in the sidecar's queues.
    pub queued: Duration,
    /// The trace, if the request is part of a recorded one.
    pub trace: Option<Trace>,
}

impl Default for Metrics {
    fn default() -> Self {
        let histogram: fn() -> _ = || HistogramWithExemplars::new(BUCKETS.into_iter());
        Self {
            by_member: Arc::default(),
            duration: Family::new_with_constructor(histogram),
            sli_duration: Family::new_with_constructor(histogram),
            long_running: Family::default(),
            in_flight: Gauge::default(),
            panics: Counter::default(),
        }
    }
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_collector(Box::new(metrics.by_member.clone()));
        registry.register_with_unit(
            "apiserver_request_duration",
            "Time from the request head to the last byte of the response",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register_with_unit(
            "apiserver_request_sli_duration",
            "Time from the request head to the last byte of the response, without the time in queues",
            Unit::Seconds,
            metrics.sli_duration.clone(),
        );
        registry.register(
            "apiserver_longrunning_requests",
            "Open long-running requests",
            metrics.long_running.clone(),
        );
        let registry = own(registry);
        registry.register(
            "requests_in_flight",
            "Open requests, including tunnels",
            metrics.in_flight.clone(),
        );
        registry.register("panics", "Requests that panicked", metrics.panics.clone());
        metrics
    }

    /// Counts a request that starts.
    pub fn begun(&self) {
        self.in_flight.inc();
    }

    /// Counts a long-running request as open, once its kind is known.
    pub fn understood(&self, kind: Kind) {
        if kind.is_long_running() {
            self.long_running.get_or_create(&kind).inc();
        }
    }

    /// Counts a request that ended. If it has a member, it is also counted there.
    pub fn ended(&self, kind: Kind, outcome: Outcome, member: Option<&OfMember>, took: Took) {
        self.in_flight.dec();
        if kind.is_long_running() {
            self.long_running.get_or_create(&kind).dec();
        }
        let Took { elapsed, queued, trace } = took;
        self.by_member.ended(kind, outcome, member, elapsed);
        let sli = elapsed.saturating_sub(queued).as_secs_f64();
        self.sli_duration.get_or_create(&kind).observe(sli, trace.clone(), None);
        self.duration.get_or_create(&kind).observe(elapsed.as_secs_f64(), trace, None);
    }
}

/// Upstream's buckets, with two more below, because a proxy adds less than a millisecond.
const BUCKETS: [f64; 25] = [
    0.001, 0.0025, 0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

#[cfg(test)]
mod tests;
