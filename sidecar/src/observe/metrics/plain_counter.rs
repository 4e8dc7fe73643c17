//! A counter whose name does not end in `_total`, like some of a kube-apiserver's. OpenMetrics does not allow
//! such a counter, so its type is unknown, which Prometheus reads like any other.

use std::fmt::Error;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::{MetricType, TypedMetric};

#[derive(Clone, Debug, Default)]
pub struct PlainCounter(Counter);

impl PlainCounter {
    pub fn inc(&self) {
        self.0.inc();
    }
}

impl EncodeMetric for PlainCounter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), Error> {
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for PlainCounter {
    const TYPE: MetricType = MetricType::Unknown;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_name_has_no_suffix() {
        let (mut registry, counter) =
            (prometheus_client::registry::Registry::default(), PlainCounter::default());
        registry.register("attempts", "Attempts", counter.clone());
        counter.inc();
        let text = crate::observe::metrics::text(&registry);
        assert_eq!(text, "# HELP attempts Attempts.\n# TYPE attempts unknown\nattempts 1\n# EOF\n");
    }
}
