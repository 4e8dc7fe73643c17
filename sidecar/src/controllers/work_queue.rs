//! Measures the reconciliations of a controller with the metrics of a work queue (client-go:
//! `util/workqueue/metrics.go`). A due reconciliation is [`Queued`] until the limit of concurrent
//! reconciliations allows it to start; then it is [`Working`]. A reconciliation that is dropped, because its
//! member or the leadership is gone, is removed from the gauges.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use crate::base::locked::Locked;
use crate::observe::metrics::Labels;

/// The metrics of all controllers' queues.
#[derive(Debug)]
pub(super) struct Metrics {
    depth: Family<Labels<1>, Gauge>,
    adds: Family<Labels<1>, Counter>,
    waited: Family<Labels<1>, Histogram, fn() -> Histogram>,
    worked: Family<Labels<1>, Histogram, fn() -> Histogram>,
    retries: Family<Labels<1>, Counter>,
    running: Running,
}

/// The queue of one controller.
#[derive(Clone, Debug)]
pub(super) struct WorkQueue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: &'static str,
    depth: Gauge,
    adds: Counter,
    waited: Histogram,
    worked: Histogram,
    retries: Counter,
    running: Running,
}

/// A reconciliation that is due.
#[derive(Debug)]
pub(super) struct Queued {
    queue: WorkQueue,
    since: Instant,
}

/// A reconciliation that runs.
#[derive(Debug)]
pub(super) struct Working {
    queue: WorkQueue,
    id: u64,
    begun: Instant,
}

impl Default for Metrics {
    fn default() -> Self {
        // Upstream's buckets: 10 ns to 10 s.
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(1e-8, 10.0, 10));
        Self {
            depth: Family::default(),
            adds: Family::default(),
            waited: Family::new_with_constructor(histogram),
            worked: Family::new_with_constructor(histogram),
            retries: Family::default(),
            running: Running::default(),
        }
    }
}

impl Metrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let text = "Reconciliations that are due and wait for a place";
        registry.register("workqueue_depth", text, metrics.depth.clone());
        let text = "Reconciliations that became due";
        registry.register("workqueue_adds", text, metrics.adds.clone());
        let text = "Time from when a reconciliation is due until it begins";
        registry.register_with_unit("workqueue_queue_duration", text, Unit::Seconds, metrics.waited.clone());
        let text = "Time of the reconciliations of a controller";
        registry.register_with_unit("workqueue_work_duration", text, Unit::Seconds, metrics.worked.clone());
        let text = "Reconciliations that failed, in part or as a whole, and are retried";
        registry.register("workqueue_retries", text, metrics.retries.clone());
        registry.register_collector(Box::new(metrics.running.clone()));
        metrics
    }

    /// Creates the queue of a controller and its series.
    pub(super) fn queue(&self, name: &'static str) -> WorkQueue {
        let label = [("name", name)];
        self.running.0.with(|running| _ = running.of.entry(name).or_default());
        WorkQueue(Arc::new(Inner {
            name,
            depth: self.depth.get_or_create_owned(&label),
            adds: self.adds.get_or_create_owned(&label),
            waited: self.waited.get_or_create_owned(&label),
            worked: self.worked.get_or_create_owned(&label),
            retries: self.retries.get_or_create_owned(&label),
            running: self.running.clone(),
        }))
    }
}

impl WorkQueue {
    /// Adds a reconciliation that has been due since this time.
    pub(super) fn add(&self, since: Instant) -> Queued {
        self.0.adds.inc();
        self.0.depth.inc();
        Queued { queue: self.clone(), since }
    }

    #[cfg(test)]
    pub(super) fn depth(&self) -> i64 {
        self.0.depth.get()
    }

    /// Starts a reconciliation that does not wait in the queue.
    pub(super) fn begin(&self) -> Working {
        self.add(Instant::now()).begin()
    }
}

impl Queued {
    pub(super) fn begin(self) -> Working {
        let (queue, begun) = (self.queue.clone(), Instant::now());
        queue.0.waited.observe(begun.saturating_duration_since(self.since).as_secs_f64());
        let id = queue.0.running.0.with(|running| running.begin(queue.0.name, begun));
        Working { queue, id, begun }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.queue.0.depth.dec();
    }
}

impl Working {
    /// Counts a finished reconciliation. `retry` means that it failed, partly or completely, and is
    /// retried.
    pub(super) fn done(self, retry: bool) {
        self.queue.0.worked.observe(self.begun.elapsed().as_secs_f64());
        if retry {
            self.queue.0.retries.inc();
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let queue = &self.queue.0;
        queue.running.0.with(|running| _ = running.of.get_mut(queue.name).and_then(|of| of.remove(&self.id)));
    }
}

/// The start of each running reconciliation, by controller.
#[derive(Clone, Debug, Default)]
struct Running(Arc<Locked<Begun>>);

#[derive(Debug, Default)]
struct Begun {
    next: u64,
    of: BTreeMap<&'static str, HashMap<u64, Instant>>,
}

impl Begun {
    fn begin(&mut self, name: &'static str, at: Instant) -> u64 {
        let id = self.next;
        self.next += 1;
        self.of.entry(name).or_default().insert(id, at);
        id
    }
}

impl Collector for Running {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let now = Instant::now();
        let measured: Vec<_> = self.0.with(|running| {
            let took = |of: &HashMap<u64, Instant>| -> Vec<Duration> {
                of.values().map(|&begun| now.saturating_duration_since(begun)).collect()
            };
            running.of.iter().map(|(&name, of)| (name, took(of))).collect()
        });
        let mut gauge = |name, help, value: fn(&[Duration]) -> Duration| {
            let kind = prometheus_client::metrics::MetricType::Gauge;
            let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), kind)?;
            for (name, took) in &measured {
                let gauge = ConstGauge::new(value(took).as_secs_f64());
                gauge.encode(family.encode_family(&[("name", *name)])?)?;
            }
            Ok(())
        };
        let text = "Time that the reconciliations that run have taken so far, in sum";
        gauge("workqueue_unfinished_work", text, |took| took.iter().sum())?;
        let text = "Time that the reconciliation that runs for the longest time has taken so far";
        gauge("workqueue_longest_running_processor", text, |took| {
            took.iter().max().copied().unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(registry: &Registry) -> String {
        let text = crate::observe::metrics::text(registry);
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket"));
        let short = lines.map(|line| line.replace("workqueue_", "").replace("{name=\"access\"}", ""));
        short.collect::<Vec<_>>().join(", ")
    }

    #[tokio::test(start_paused = true)]
    async fn reconciliation_updates_each_metric() {
        let mut registry = Registry::default();
        let queue = Metrics::register(&mut registry).queue("access");
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        let (first, second) = (queue.add(Instant::now()), queue.add(Instant::now()));
        pass(2).await;
        let first = first.begin();
        pass(3).await;
        assert_eq!(
            values(&registry),
            "depth 1, adds_total 2, queue_duration_seconds_sum 2.0, queue_duration_seconds_count 1, \
             work_duration_seconds_sum 0.0, work_duration_seconds_count 0, retries_total 0, \
             unfinished_work_seconds 3.0, longest_running_processor_seconds 3.0"
        );
        let second = second.begin();
        pass(1).await;
        assert!(
            values(&registry).ends_with("unfinished_work_seconds 5.0, longest_running_processor_seconds 4.0")
        );
        first.done(true);
        second.done(false);
        assert_eq!(
            values(&registry),
            "depth 0, adds_total 2, queue_duration_seconds_sum 7.0, queue_duration_seconds_count 2, \
             work_duration_seconds_sum 5.0, work_duration_seconds_count 2, retries_total 1, \
             unfinished_work_seconds 0.0, longest_running_processor_seconds 0.0"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_reconciliation_is_removed_from_the_gauges() {
        let mut registry = Registry::default();
        let queue = Metrics::register(&mut registry).queue("access");
        let (queued, working) = (queue.add(Instant::now()), queue.begin());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(
            values(&registry).contains("depth 1, ")
                && values(&registry).contains("unfinished_work_seconds 2.0")
        );
        drop((queued, working));
        let text = values(&registry);
        assert!(text.contains("depth 0, ") && text.contains("unfinished_work_seconds 0.0"), "{text}");
        assert!(text.contains("work_duration_seconds_count 0"), "{text}");
    }
}
