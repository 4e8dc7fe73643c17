//! Tracks whether this replica is ready for requests. Each part that must be ready first holds a [`Pending`];
//! dropping it marks the part as ready.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Ready when nothing is pending and the shutdown has not begun. A shutdown has two phases: draining, when
/// everything is still served, and closing.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// A bit for each [`Part`].
    pending: AtomicU8,
    draining: AtomicBool,
    closing: AtomicBool,
}

/// A part that must be ready before the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// The CAs of ConfigMap `extension-apiserver-authentication`.
    Trust = 1,
    /// The members that are registered on the host.
    Members = 2,
    /// A serving certificate that the host can verify.
    ServingCertificate = 4,
}

const PARTS: [(Part, &str); 3] =
    [(Part::Trust, "trust"), (Part::Members, "members"), (Part::ServingCertificate, "serving-certificate")];

/// A part that is not ready yet.
#[derive(Debug)]
pub struct Pending(Arc<State>, Part);

/// One check of readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub has_passed: bool,
}

impl Readiness {
    /// Adds a part that is not ready yet.
    pub fn pending(&self, part: Part) -> Pending {
        self.0.pending.fetch_or(part as u8, Ordering::AcqRel);
        Pending(self.0.clone(), part)
    }

    /// Starts the shutdown: clients should send no new requests.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
    }

    /// Whether the shutdown has begun.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// Starts the second phase: no long-running request may begin.
    pub fn close(&self) {
        self.0.closing.store(true, Ordering::Release);
    }

    pub fn is_closing(&self) -> bool {
        self.0.closing.load(Ordering::Acquire)
    }

    pub fn is_ready(&self) -> bool {
        self.0.pending.load(Ordering::Acquire) == 0 && !self.is_draining()
    }

    /// All checks, in a constant order.
    pub fn checks(&self) -> impl Iterator<Item = Check> {
        let pending = self.0.pending.load(Ordering::Acquire);
        let parts = PARTS.map(|(part, name)| Check { name, has_passed: pending & part as u8 == 0 });
        // The same name as upstream.
        let shutdown = Check { name: "shutdown", has_passed: !self.is_draining() };
        parts.into_iter().chain([shutdown])
    }

    /// Exports the checks like a kube-apiserver (component-base: `metrics/prometheus/slis`).
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Checks(self.clone())));
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.pending.fetch_and(!(self.1 as u8), Ordering::AcqRel);
    }
}

#[derive(Debug)]
struct Checks(Readiness);

impl Collector for Checks {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "1 if the check passes";
        let mut family =
            encoder.encode_descriptor("kubernetes_healthcheck", help, None, MetricType::Gauge)?;
        for Check { name, has_passed } in self.0.checks() {
            let labels = [("name", name), ("type", "readyz")];
            ConstGauge::new(i64::from(has_passed)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::metrics;

    #[test]
    fn replica_is_ready_once_all_parts_are_until_the_shutdown() {
        let readiness = Readiness::default();
        let (first, second) = (readiness.pending(Part::Trust), readiness.pending(Part::Members));
        assert!(!readiness.is_ready());
        drop(first);
        assert!(!readiness.is_ready());
        drop(second);
        assert!(readiness.is_ready());
        readiness.drain();
        assert!(!readiness.is_ready());
    }

    #[test]
    fn each_check_is_a_metric() {
        let (readiness, mut registry) = (Readiness::default(), Registry::default());
        readiness.register(&mut registry);
        let _pending = readiness.pending(Part::Members);
        let text = metrics::text(&registry);
        for (name, value) in [("trust", 1), ("members", 0), ("serving-certificate", 1), ("shutdown", 1)] {
            let line = format!("kubernetes_healthcheck{{name=\"{name}\",type=\"readyz\"}} {value}\n");
            assert!(text.contains(&line), "{text}");
        }
        readiness.drain();
        assert!(metrics::text(&registry).contains("name=\"shutdown\",type=\"readyz\"} 0"));
    }
}
