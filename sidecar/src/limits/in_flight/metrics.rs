//! Exports the metrics of the limits. Metrics that a kube-apiserver also has keep its names (apiserver:
//! `util/flowcontrol/metrics`, `endpoints/metrics`). Most are read from the bounds at scrape time, so they
//! cost a request nothing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::counts::{Counts, LevelCounts, Reason};
use super::queue::Snapshot;
use super::seats::ByLevel;
use super::{Bound, Level, Limits, MemberLimits, WithRefusals};

impl Limits {
    /// Registers the metrics of these limits and of those of members.
    pub fn register(self: &Arc<Self>, members: Arc<MemberLimits>, registry: &mut Registry) {
        registry.register_collector(Box::new(Metrics { limits: self.clone(), members }));
    }
}

#[derive(Debug)]
struct Metrics {
    limits: Arc<Limits>,
    members: Arc<MemberLimits>,
}

/// The label and value of one series.
type Series<L> = (L, u64);

type Label = [(&'static str, &'static str); 1];

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (reads, writes) = (self.limits.reads.0.snapshot(), self.limits.writes.0.snapshot());
        levels(&mut encoder, &reads, &writes)?;
        let kind = |kind, bound: &Snapshot| ([("request_kind", kind)], sum(bound.held));
        gauge(
            &mut encoder,
            "apiserver_current_inflight_requests",
            "Open requests that are not long-running",
            [kind("readOnly", &reads), kind("mutating", &writes)],
        )?;
        self.limits(&mut encoder)
    }
}

impl Metrics {
    /// The bounds of long-running requests, and those of members.
    fn limits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Limits { tunnels, watches, agents, .. } = &*self.limits;
        let of_all = [("tunnels", tunnels), ("watches", watches), ("agents", agents)];
        let of_all = of_all.map(|(name, WithRefusals { bound: Bound(queue), refused })| {
            let Snapshot { places, held, .. } = queue.snapshot();
            (name, sum(held), places, refused)
        });
        let (in_use, watches_in_use) = self.members.in_use();
        let (size, refused) = (self.members.size, &self.members.refused);
        let of_members = [
            ("member", in_use as u64, size.in_flight.places, &refused.in_flight),
            ("member-watches", watches_in_use as u64, size.watches.places, &refused.watches),
        ];
        let all: Vec<_> = of_all.into_iter().chain(of_members).collect();
        let series = |value: fn(&(&'static str, u64, usize, &std::sync::atomic::AtomicU64)) -> u64| {
            all.iter().map(move |limit| ([("limit", limit.0)], value(limit))).collect::<Vec<_>>()
        };
        gauge(
            encoder,
            "mc_sidecar_limit_in_use",
            "Open requests by limit; those of all members for the limits of a member",
            series(|limit| limit.1),
        )?;
        gauge(
            encoder,
            "mc_sidecar_limit",
            "Maximum number of open requests by limit, of one member for the limits of a member; 0 is no limit",
            series(|limit| limit.2 as u64),
        )?;
        counter(
            encoder,
            "mc_sidecar_limit_refused",
            "Requests refused at a limit",
            series(|limit| limit.3.load(Ordering::Relaxed)),
        )
    }
}

/// Encodes the priority levels, for reads and writes together.
fn levels(encoder: &mut DescriptorEncoder<'_>, reads: &Snapshot, writes: &Snapshot) -> fmt::Result {
    let both = |of: fn(&Snapshot) -> &ByLevel<usize>| {
        Level::ALL.map(|level| {
            let of_level = |bound| of(bound)[level as usize] as u64;
            (label(level), of_level(reads) + of_level(writes))
        })
    };
    let mut counts = Counts::default();
    for more in [reads, writes].into_iter().flat_map(|bound| &bound.counts) {
        counts.add(more);
    }
    let counts = Level::ALL.map(|level| (level, counts.0[level as usize].clone()));
    gauge(
        encoder,
        "apiserver_flowcontrol_nominal_limit_seats",
        "Nominal number of places of a priority level",
        both(|bound| &bound.nominal),
    )?;
    gauge(
        encoder,
        "apiserver_flowcontrol_current_executing_requests",
        "Open requests of a priority level",
        both(|bound| &bound.held),
    )?;
    gauge(
        encoder,
        "apiserver_flowcontrol_current_inqueue_requests",
        "Queued requests of a priority level",
        both(|bound| &bound.waiting),
    )?;
    counter(
        encoder,
        "apiserver_flowcontrol_dispatched_requests",
        "Requests that got a place",
        counts.clone().map(|(level, counts)| (label(level), counts.dispatched)),
    )?;
    let rejected = counts.iter().flat_map(|(level, counts)| {
        Reason::ALL.map(|reason| {
            let labels = [("priority_level", level.as_str()), ("reason", reason.as_str())];
            (labels, counts.rejected[reason as usize])
        })
    });
    counter(
        encoder,
        "apiserver_flowcontrol_rejected_requests",
        "Requests that got no place",
        rejected.collect::<Vec<_>>(),
    )?;
    waits(encoder, &counts)
}

fn waits(encoder: &mut DescriptorEncoder<'_>, counts: &[(Level, LevelCounts)]) -> fmt::Result {
    let mut family = encoder.encode_descriptor(
        "apiserver_flowcontrol_request_wait_duration_seconds",
        "Time that requests waited for a place",
        None,
        MetricType::Histogram,
    )?;
    for (level, counts) in counts.iter().filter(|(level, _)| *level != Level::Exempt) {
        for (execute, waits) in [("true", &counts.executed), ("false", &counts.given_up)] {
            let labels = [("priority_level", level.as_str()), ("execute", execute)];
            let mut series = family.encode_family(&labels)?;
            series.encode_histogram::<NoLabelSet>(waits.sum(), waits.count(), &waits.buckets(), None)?;
        }
    }
    Ok(())
}

fn label(level: Level) -> Label {
    [("priority_level", level.as_str())]
}

fn sum(held: ByLevel<usize>) -> u64 {
    held.into_iter().sum::<usize>() as u64
}

fn gauge<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = Series<L>>,
) -> fmt::Result {
    let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    each(family, series, ConstGauge::new)
}

fn counter<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = Series<L>>,
) -> fmt::Result {
    let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    each(family, series, ConstCounter::new)
}

fn each<L: EncodeLabelSet, M: EncodeMetric>(
    mut family: MetricEncoder<'_>,
    series: impl IntoIterator<Item = Series<L>>,
    metric: fn(u64) -> M,
) -> fmt::Result {
    series.into_iter().try_for_each(|(labels, value)| metric(value).encode(family.encode_family(&labels)?))
}
