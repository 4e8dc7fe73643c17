//! Counts lookups in the cache of token reviews (apiserver: `authentication/token/cache/stats.go`).

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::observe::metrics::{Counted, Labels};

#[derive(Debug, Default)]
pub struct CacheMetrics {
    hits: Counter,
    misses: Counter,
    fetched: Counter,
    failed: Counter,
    blocked: Gauge,
    in_flight: Gauge,
}

impl CacheMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let mut family = |name, help, statuses: [&'static str; 2]| {
            let counters = Family::<Labels<1>, Counter>::default();
            registry.register(name, help, counters.clone());
            statuses.map(|status| counters.get_or_create_owned(&[("status", status)]))
        };
        let help = "Look-ups of tokens in the cache";
        let [hits, misses] = family("authentication_token_cache_request", help, ["hit", "miss"]);
        let help = "Tokens that the host reviewed because the cache had no verdict";
        let [fetched, failed] = family("authentication_token_cache_fetch", help, ["ok", "error"]);
        let help =
            "Look-ups that wait for a review: those that began one, and those that another one's holds up";
        let gauges = Family::<Labels<1>, Gauge>::default();
        registry.register("authentication_token_cache_active_fetch_count", help, gauges.clone());
        let [blocked, in_flight] =
            ["blocked", "in_flight"].map(|status| gauges.get_or_create_owned(&[("status", status)]));
        Self { hits, misses, fetched, failed, blocked, in_flight }
    }

    pub(super) fn asked(&self, is_hit: bool) {
        if is_hit { &self.hits } else { &self.misses }.inc();
    }

    /// Counts a lookup that waits for a review, until it is dropped.
    pub(super) fn blocked(&self) -> Counted {
        Counted::new(self.blocked.clone())
    }

    /// Counts a review in progress, until it is dropped.
    pub(super) fn in_flight(&self) -> Counted {
        Counted::new(self.in_flight.clone())
    }

    pub(super) fn fetched(&self, is_ok: bool) {
        if is_ok { &self.fetched } else { &self.failed }.inc();
    }
}
