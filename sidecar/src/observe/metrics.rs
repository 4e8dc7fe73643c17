//! The content of `/metrics`: one registry, in which each module registers its metrics.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

mod plain_counter;
mod process;

pub use plain_counter::PlainCounter;

/// A registry for the metrics of one process, including those about the process itself. Metrics that a
/// kube-apiserver also has keep their names.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    process::register(&mut registry);
    registry
}

/// The sub-registry for metrics that only the sidecar has.
pub fn own(registry: &mut Registry) -> &mut Registry {
    registry.sub_registry_with_prefix("mc_sidecar")
}

/// The labels of a series: names and values.
pub type Labels<const N: usize, V = &'static str> = [(&'static str, V); N];

/// The metrics in Prometheus' text format (OpenMetrics 1.0).
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, registry);
    text
}

/// The content type of [`text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Increments a gauge until it is dropped.
#[derive(Debug)]
pub struct Counted(Gauge);

impl Counted {
    pub fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
