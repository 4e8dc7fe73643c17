//! Metrics of the controllers, and of the members that are registered, which the leader reports. A reconciliation counts as the
//! work of a work queue (client-go: `util/workqueue/metrics.go`).

use std::time::Duration;

use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::metrics::own;

/// The controllers' metrics.
#[derive(Debug)]
pub struct Metrics {
    leader: Family<NameLabels, Gauge>,
    work: Family<NameLabels, Histogram, fn() -> Histogram>,
    retries: Family<NameLabels, Counter>,
    restarts: Family<ControllerLabels, Counter>,
    reachable: Family<MemberLabels, Gauge>,
    renewals: Family<ResultLabels, Counter>,
    expiry: Family<CredentialLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabels {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CredentialLabels {
    cluster: String,
    secret: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MemberLabels {
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        // Upstream's: 10 ns to 10 s.
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(1e-8, 10.0, 10));
        Self {
            leader: Family::default(),
            work: Family::new_with_constructor(histogram),
            retries: Family::default(),
            restarts: Family::default(),
            reachable: Family::default(),
            renewals: Family::default(),
            expiry: Family::default(),
        }
    }
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "leader_election_master_status",
            "1 if this replica is the leader and runs the controllers",
            metrics.leader.clone(),
        );
        registry.register_with_unit(
            "workqueue_work_duration",
            "Time of the reconciliations of a controller",
            Unit::Seconds,
            metrics.work.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Reconciliations that failed, in part or as a whole, and are retried",
            metrics.retries.clone(),
        );
        let registry = own(registry);
        registry.register("controller_restarts", "Restarts of a controller", metrics.restarts.clone());
        registry.register(
            "member_reachable",
            "1 if the member passed its last health probe, reported by the leader",
            metrics.reachable.clone(),
        );
        registry.register("token_renewals", "Token renewals by result", metrics.renewals.clone());
        // Prometheus sees no increase of a counter that begins with 1.
        for result in ["renewed", "failed"] {
            drop(metrics.renewals.get_or_create(&ResultLabels { result }));
        }
        registry.register_with_unit(
            "member_credential_expiry_timestamp",
            "Expiry of the credential in a member's Secret, reported by the leader",
            Unit::Seconds,
            metrics.expiry.clone(),
        );
        metrics
    }

    /// Whether this replica has the Lease of this name.
    pub fn leader(&self, lease: &str) -> Gauge {
        self.leader.get_or_create_owned(&NameLabels { name: lease.to_owned() })
    }

    /// Counts a reconciliation.
    pub fn reconciled(&self, controller: &'static str, took: Duration, retry: bool) {
        let labels = NameLabels { name: controller.to_owned() };
        self.work.get_or_create(&labels).observe(took.as_secs_f64());
        if retry {
            self.retries.get_or_create(&labels).inc();
        }
    }

    /// Counts a renewal.
    pub fn renewed(&self, well: bool) {
        let result = if well { "renewed" } else { "failed" };
        self.renewals.get_or_create(&ResultLabels { result }).inc();
    }

    /// Tells when a member's credential ends; nothing of one that does not.
    pub fn expires(&self, cluster: &ClusterName, secret: &'static str, ends: Option<Timestamp>) {
        let labels = CredentialLabels { cluster: cluster.to_string(), secret };
        match ends {
            Some(ends) => drop(self.expiry.get_or_create(&labels).set(ends.as_second())),
            None => drop(self.expiry.remove(&labels)),
        }
    }

    /// Tells whether a member is up.
    pub fn reachable(&self, cluster: &ClusterName, reachable: bool) {
        self.reachable.get_or_create(&MemberLabels::of(cluster)).set(reachable.into());
    }

    /// Does not tell any more whether a member is up.
    pub fn not_asked(&self, cluster: &ClusterName) {
        self.reachable.remove(&MemberLabels::of(cluster));
    }

    /// Says nothing more of any: another replica does.
    pub fn forget_all(&self) {
        self.reachable.clear();
        self.expiry.clear();
    }

    /// Begins to count the restarts of a controller.
    pub fn started(&self, controller: &'static str) {
        drop(self.restarts.get_or_create(&ControllerLabels { controller }));
    }

    /// Counts a controller that ended.
    pub fn restarted(&self, controller: &'static str) {
        self.restarts.get_or_create(&ControllerLabels { controller }).inc();
    }
}

impl MemberLabels {
    fn of(cluster: &ClusterName) -> Self {
        Self { cluster: cluster.to_string() }
    }
}
