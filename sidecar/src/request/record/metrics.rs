//! What `/metrics` tells of requests. Labels have few values: no user, path or cluster is one.

use std::time::Duration;

use kubectl_mc_api::Hop;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::request::request_info::{self, RequestInfo};

/// Requests under way and over.
#[derive(Debug)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    duration: Family<DurationLabels, Histogram, fn() -> Histogram>,
    pub in_flight: Gauge,
    pub panics: Counter,
}

/// What a request was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Route {
    Proxy,
    Upgrade,
    Attach,
    Clusters,
    Own,
    #[default]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: Route,
    code: u16,
    hop: HopLabel,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    route: Route,
}

/// The hop that refused, empty where the request was answered as asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HopLabel(Option<Hop>);

impl EncodeLabelValue for HopLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.map_or("", Hop::as_str).encode(encoder)
    }
}

impl Route {
    pub fn of(info: &RequestInfo) -> Self {
        match &info.route {
            request_info::Route::Proxy(..) if info.upgrade.is_some() => Self::Upgrade,
            request_info::Route::Attach(_) => Self::Attach,
            request_info::Route::Proxy(..) => Self::Proxy,
            request_info::Route::Clusters(_) => Self::Clusters,
            _ => Self::Own,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let buckets: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 4.0, 8));
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(buckets),
            in_flight: Gauge::default(),
            panics: Counter::default(),
        }
    }
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "requests",
            "Completed requests by route, status code and hop",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "request_duration",
            "Time from the request head to the last byte of the response",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register(
            "requests_in_flight",
            "Open requests, including tunnels",
            metrics.in_flight.clone(),
        );
        registry.register("panics", "Requests that panicked", metrics.panics.clone());
        metrics
    }

    /// Counts a request that is over.
    pub fn ended(&self, route: Route, code: u16, hop: Option<Hop>, elapsed: Duration) {
        self.in_flight.dec();
        self.requests.get_or_create(&RequestLabels { route, code, hop: HopLabel(hop) }).inc();
        self.duration.get_or_create(&DurationLabels { route }).observe(elapsed.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_by_route_code_and_hop() {
        let mut registry = crate::metrics::registry();
        let metrics = Metrics::register(crate::metrics::own(&mut registry));
        metrics.in_flight.inc();
        metrics.ended(Route::Proxy, 403, Some(Hop::HostAuthorization), Duration::from_millis(2));
        let text = crate::metrics::text(&registry);
        let line = r#"mc_sidecar_requests_total{route="Proxy",code="403",hop="host authorization"} 1"#;
        assert!(text.contains(line), "{text}");
        assert!(text.contains("mc_sidecar_requests_in_flight 0"), "{text}");
    }
}
