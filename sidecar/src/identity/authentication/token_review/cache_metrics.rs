//! Metrics of the cache of verdicts (apiserver: `authentication/token/cache/stats.go`).

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Default)]
pub struct CacheMetrics {
    hits: Counter,
    misses: Counter,
    fetched: Counter,
    failed: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    status: &'static str,
}

impl CacheMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let mut family = |name, help, statuses: [&'static str; 2]| {
            let counters = Family::<Labels, Counter>::default();
            registry.register(name, help, counters.clone());
            statuses.map(|status| counters.get_or_create_owned(&Labels { status }))
        };
        let help = "Look-ups of tokens in the cache";
        let [hits, misses] = family("authentication_token_cache_request", help, ["hit", "miss"]);
        let help = "Tokens that the host reviewed because the cache had no verdict";
        let [fetched, failed] = family("authentication_token_cache_fetch", help, ["ok", "error"]);
        Self { hits, misses, fetched, failed }
    }

    pub(super) fn asked(&self, is_hit: bool) {
        if is_hit { &self.hits } else { &self.misses }.inc();
    }

    pub(super) fn fetched(&self, is_ok: bool) {
        if is_ok { &self.fetched } else { &self.failed }.inc();
    }
}
