//! Holds the state that every controller needs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kubectl_mc_api::direct::Server;
use kubectl_mc_api::ownership::Layout;
use kubectl_mc_api::{ClusterName, Origin};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::conditions::Conditions;
use super::health::probe::Verdict;
use super::metrics::Metrics;
use crate::members::inventory::fleet::{Fleet, HubClusters};
use crate::outbound::tunnel::registry::AgentTunnels;

/// The input of every controller.
#[derive(Clone)]
pub struct Context {
    pub host: kube::Client,
    /// The namespace of the members' Secrets and of the Lease.
    pub namespace: Arc<str>,
    /// The current members of the host.
    pub fleet: watch::Receiver<Arc<Fleet>>,
    /// The members that a hub registers, if its inventory is enabled.
    pub hub_clusters: watch::Receiver<HubClusters>,
    /// The only way to write a member's status.
    pub conditions: Conditions,
    /// Whether members accept the sidecar's credential, by the last probe.
    pub verdicts: Arc<watch::Sender<HashMap<ClusterName, Verdict>>>,
    /// Why enrollment failed, for members with an open enrollment.
    pub enrollments: Arc<watch::Sender<HashMap<ClusterName, String>>>,
    pub settings: Settings,
    pub metrics: Arc<Metrics>,
    /// The tunnels to members with an agent.
    pub tunnels: Arc<AgentTunnels>,
    /// Groups that are never sent to members (`--admin-groups`).
    pub admin_groups: Arc<[String]>,
    /// Cancelled when this replica loses leadership. The controller's future is then dropped.
    pub leadership: CancellationToken,
}

/// The settings of the controllers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interval between health probes of each member.
    pub member_monitor_period: Duration,
    /// Interval (plus up to 50 % jitter) between re-syncs of a member, which repair drift.
    pub member_resync_period: Duration,
    /// The part of a token's lifetime after which it is renewed.
    pub token_renewal_fraction: f64,
    /// Whether the host publishes a direct endpoint (`--direct-server`).
    pub publishes_direct_endpoint: bool,
    /// The host's server in ClusterProfiles; none are written without it (`--cluster-profile-server`).
    pub cluster_profile_server: Option<Server>,
    /// The hub on whose members the impersonation rights are written (`--karmada-member-rbac`).
    pub hub_with_rights: Option<Origin>,
    /// Where Karmada has the objects of its agents, if their RBAC is maintained
    /// (`--karmada-agent-rbac`).
    pub agent_rbac: Option<Arc<Layout>>,
}

impl Context {
    pub(super) fn forget_verdict(&self, cluster: &ClusterName) {
        self.verdicts.send_if_modified(|verdicts| verdicts.remove(cluster).is_some());
    }
}
