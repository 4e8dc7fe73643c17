//! Registers the metrics of the controllers and of the registered members, which the leader reports.

use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::work_queue::{self, WorkQueue};
use crate::observe::metrics::{Labels, own};

/// The controllers' metrics.
#[derive(Debug, Default)]
pub struct Metrics {
    leader: Family<Labels<1, String>, Gauge>,
    work: work_queue::Metrics,
    restarts: Family<Labels<1>, Counter>,
    reachable: Family<Labels<1, String>, Gauge>,
    renewals: Family<Labels<1>, Counter>,
    expiry: Family<CredentialLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CredentialLabels {
    cluster: String,
    secret: &'static str,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self { work: work_queue::Metrics::register(registry), ..Self::default() };
        registry.register(
            "leader_election_master_status",
            "1 if this replica is the leader and runs the controllers",
            metrics.leader.clone(),
        );
        let registry = own(registry);
        registry.register("controller_restarts", "Restarts of a controller", metrics.restarts.clone());
        registry.register(
            "member_reachable",
            "1 if the member passed its last health probe, reported by the leader",
            metrics.reachable.clone(),
        );
        registry.register("token_renewals", "Token renewals by result", metrics.renewals.clone());
        // Prometheus sees no increase of a counter that starts at 1.
        for result in ["renewed", "failed"] {
            drop(metrics.renewals.get_or_create(&[("result", result)]));
        }
        registry.register_with_unit(
            "member_credential_expiry_timestamp",
            "Expiry of the credential in a member's Secret, reported by the leader",
            Unit::Seconds,
            metrics.expiry.clone(),
        );
        metrics
    }

    /// The gauge that shows whether this replica holds the Lease of this name.
    pub fn leader(&self, lease: &str) -> Gauge {
        self.leader.get_or_create_owned(&[("name", lease.to_owned())])
    }

    /// The queue that measures the reconciliations of a controller.
    pub(super) fn queue(&self, controller: &'static str) -> WorkQueue {
        self.work.queue(controller)
    }

    /// Counts a renewal.
    pub fn renewed(&self, well: bool) {
        let result = if well { "renewed" } else { "failed" };
        self.renewals.get_or_create(&[("result", result)]).inc();
    }

    /// Sets the expiry of a member's credential; `None` removes the series.
    pub fn expires(&self, cluster: &ClusterName, secret: &'static str, ends: Option<Timestamp>) {
        let labels = CredentialLabels { cluster: cluster.to_string(), secret };
        match ends {
            Some(ends) => drop(self.expiry.get_or_create(&labels).set(ends.as_second())),
            None => drop(self.expiry.remove(&labels)),
        }
    }

    /// Sets whether a member is reachable.
    pub fn reachable(&self, cluster: &ClusterName, reachable: bool) {
        self.reachable.get_or_create(&[("cluster", cluster.to_string())]).set(reachable.into());
    }

    /// Removes the series of a member that is no longer probed.
    pub fn not_asked(&self, cluster: &ClusterName) {
        self.reachable.remove(&[("cluster", cluster.to_string())]);
    }

    /// Removes the series of all members, because another replica reports them.
    pub fn forget_all(&self) {
        self.reachable.clear();
        self.expiry.clear();
    }

    /// Creates the series for the restarts of a controller.
    pub fn started(&self, controller: &'static str) {
        drop(self.restarts.get_or_create(&[("controller", controller)]));
    }

    /// Counts a restart of a controller.
    pub fn restarted(&self, controller: &'static str) {
        self.restarts.get_or_create(&[("controller", controller)]).inc();
    }
}
