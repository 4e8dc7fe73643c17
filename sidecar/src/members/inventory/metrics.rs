//! Registers the metrics of the members.

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use super::Inventory;
use crate::observe::metrics::own;

/// The numbers of members.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(super) members: Gauge<f64, AtomicU64>,
    pub(super) unreachable: Gauge,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = own(registry);
        registry.register("members", "Registered members", metrics.members.clone());
        registry.register(
            "members_unreachable",
            "Members whose circuit breaker is open",
            metrics.unreachable.clone(),
        );
        metrics
    }
}

/// Registers a gauge for the circuit breaker of each member.
pub fn register_breakers(inventory: Arc<Inventory>, registry: &mut Registry) {
    registry.register_collector(Box::new(Breakers(inventory)));
}

struct Breakers(Arc<Inventory>);

impl std::fmt::Debug for Breakers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Breakers").finish()
    }
}

impl Collector for Breakers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let (name, help) =
            ("mc_sidecar_member_breaker_open", "1 if the circuit breaker of the member is open");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let snapshot = self.0.members.load();
        let members = snapshot.iter().flat_map(|members| members.values());
        for cluster in members.flat_map(|member| &member.way) {
            let gauge = ConstGauge::new(i64::from(cluster.upstream.is_unreachable()));
            gauge.encode(family.encode_family(&[("cluster", cluster.name.as_str())])?)?;
        }
        Ok(())
    }
}
