//! What `/metrics` tells. Labels have few values: no user or path is one, and a cluster only where one
//! replica tells of each member once ([`controllers`]).

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use kubectl_mc_api::Hop;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::authentication::CredentialKinds;
use crate::controllers;
use crate::request_info::{self, RequestInfo};

/// The process's metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    duration: Family<DurationLabels, Histogram, fn() -> Histogram>,
    pub in_flight: Gauge,
    pub tunnels: Gauge,
    pub connections: Gauge,
    pub connections_refused: Counter,
    pub members: Gauge<f64, AtomicU64>,
    pub panics: Counter,
    pub members_unreachable: Gauge,
    authentication_failures: Family<AttemptedLabels, Counter>,
    pub controllers: controllers::metrics::Metrics,
}

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Route {
    Proxy,
    Upgrade,
    Clusters,
    Own,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: Route,
    code: u16,
    hop: HopLabel,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptedLabels {
    attempted: CredentialKinds,
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
            request_info::Route::Proxy(..) => Self::Proxy,
            request_info::Route::Clusters(_) => Self::Clusters,
            _ => Self::Own,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("mc_sidecar");
        let requests = Family::default();
        let buckets: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 4.0, 8));
        let duration = Family::new_with_constructor(buckets);
        let (in_flight, tunnels, connections, members, members_unreachable) = Default::default();
        let (panics, connections_refused) = (Counter::default(), Counter::default());
        registry.register("requests", "Requests that are over", Family::clone(&requests));
        registry.register_with_unit(
            "request_duration",
            "Time from a request's head to the last byte of its answer",
            Unit::Seconds,
            Family::clone(&duration),
        );
        registry.register(
            "requests_in_flight",
            "Requests under way, tunnels included",
            Gauge::clone(&in_flight),
        );
        registry.register("tunnels", "Upgraded connections that are open", Gauge::clone(&tunnels));
        registry.register("connections", "Downstream connections that are open", Gauge::clone(&connections));
        registry.register(
            "connections_refused",
            "Downstream connections that were closed because there was no place for them",
            Counter::clone(&connections_refused),
        );
        registry.register("members", "Members that are registered", Gauge::clone(&members));
        registry.register(
            "members_unreachable",
            "Members to which nothing is sent for now, because attempts to reach them failed",
            Gauge::clone(&members_unreachable),
        );
        registry.register("panics", "Requests that caused a panic", Counter::clone(&panics));
        let authentication_failures = Family::default();
        registry.register(
            "authentication_failures",
            "Logins that failed, by the kinds of credential that were attempted",
            Family::clone(&authentication_failures),
        );
        let controllers = controllers::metrics::Metrics::register(&mut registry);
        Self {
            registry,
            requests,
            duration,
            in_flight,
            tunnels,
            connections,
            connections_refused,
            members,
            members_unreachable,
            panics,
            authentication_failures,
            controllers,
        }
    }
}

impl Metrics {
    /// Counts a request that is over.
    pub fn ended(&self, route: Route, code: u16, hop: Option<Hop>, elapsed: Duration) {
        self.in_flight.dec();
        self.requests.get_or_create(&RequestLabels { route, code, hop: HopLabel(hop) }).inc();
        self.duration.get_or_create(&DurationLabels { route }).observe(elapsed.as_secs_f64());
    }

    /// Counts a login that failed.
    pub fn authentication_failed(&self, attempted: CredentialKinds) {
        self.authentication_failures.get_or_create(&AttemptedLabels { attempted }).inc();
    }

    /// The text that Prometheus reads (OpenMetrics 1.0).
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_by_route_code_and_hop() {
        let metrics = Metrics::default();
        metrics.in_flight.inc();
        metrics.ended(Route::Proxy, 403, Some(Hop::HostAuthorization), Duration::from_millis(2));
        let text = metrics.text();
        let line = r#"mc_sidecar_requests_total{route="Proxy",code="403",hop="host authorization"} 1"#;
        assert!(text.contains(line), "{text}");
        assert!(text.contains("mc_sidecar_requests_in_flight 0"), "{text}");
    }
}
