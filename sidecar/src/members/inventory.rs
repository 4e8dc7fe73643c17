//! Keeps a snapshot of the members to which requests can be sent. [`watch`] reads them from the
//! host's MemberClusters and Secrets, and from the objects of a [`hub`].

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use kubectl_mc_api::{ClusterName, Origin};

use crate::identity::Identity;
use crate::identity::authorization::Attributes;
use crate::members::cluster::Cluster;
use crate::members::on_demand_access::{Answer, OnDemandAccess};

pub mod fleet;
pub mod hub;
pub mod metrics;
pub mod renewal;
pub mod watch;

use fleet::{Fleet, Registered};
use hub::Hub;
pub use metrics::Metrics;
use renewal::Renewals;

/// The registered members: a snapshot that is replaced by a single writer.
pub struct Inventory {
    members: ArcSwapOption<Fleet>,
    renewals: Renewals,
    on_demand: OnDemandAccess,
}

/// The enabled inventories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventories {
    /// The inventories by precedence: a name in several is served from the first.
    pub order: Arc<[Origin]>,
    /// The hub among them.
    pub hub: Option<Hub>,
}

impl Default for Inventories {
    fn default() -> Self {
        Self { order: Arc::from([Origin::MemberCluster]), hub: None }
    }
}

impl Inventories {
    /// The hub whose API group the sidecar serves.
    pub fn served_hub(&self) -> Option<Origin> {
        let hub = self.hub.as_ref().map(|hub| hub.origin);
        hub.filter(|hub| hub.has_served_group())
    }

    pub fn has(&self, origin: Origin) -> bool {
        self.order.contains(&origin)
    }
}

/// A registered member, or why nothing can be sent to it.
pub type Found = Result<Arc<Cluster>, Arc<str>>;

impl Inventory {
    pub fn new(renewals: Renewals, on_demand: OnDemandAccess) -> Self {
        Self { members: ArcSwapOption::empty(), renewals, on_demand }
    }

    /// The member of this name, if requests can be sent to it.
    pub fn find(&self, name: &ClusterName) -> Result<Arc<Cluster>, Error> {
        self.find_in(Origin::MemberCluster, None, name)
    }

    /// The member for a request to this API group. With `only`, members of other inventories are not found.
    pub fn find_in(
        &self,
        group: Origin,
        only: Option<Origin>,
        name: &ClusterName,
    ) -> Result<Arc<Cluster>, Error> {
        let snapshot = self.members.load();
        let members = snapshot.as_ref().ok_or(Error::NotSynced)?;
        match members.get(name).filter(|member| only.is_none_or(|only| only == member.origin)) {
            Some(Registered { way: Ok(cluster), .. }) => Ok(cluster.clone()),
            Some(Registered { way: Err(why), .. }) => {
                Err(Error::ProxyOff { cluster: name.clone(), why: why.clone() })
            }
            None => Err(Error::Unknown(group, name.clone())),
        }
    }

    /// Whether a member of this name is registered, even if requests cannot be sent to it.
    pub fn registered(&self, name: &ClusterName) -> Result<(), Error> {
        match self.find(name) {
            Ok(_) | Err(Error::ProxyOff { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// All members sorted by name, each with the reason if requests cannot be sent to it. Empty until the
    /// list is read.
    pub fn all(&self) -> Vec<(ClusterName, Found)> {
        let snapshot = self.members.load();
        let mut all: Vec<_> = snapshot
            .iter()
            .flat_map(|members| members.iter().map(|(name, member)| (name.clone(), member.way.clone())))
            .collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Closes surplus and expired idle connections, before the sidecar stops.
    pub fn sweep(&self) {
        let snapshot = self.members.load();
        let members = snapshot.iter().flat_map(|members| members.values());
        members.flat_map(|member| &member.way).for_each(|cluster| cluster.upstream.sweep());
    }

    /// The same member at the same address with another credential than the `refused` one, if there is one.
    pub async fn renewed(&self, refused: &Cluster) -> Option<Arc<Cluster>> {
        // The watch may have delivered the new credential already.
        if let Some(renewed) = self.other_than(refused) {
            return Some(renewed);
        }
        self.renewals.read(refused.origin, &refused.name).await;
        self.other_than(refused)
    }

    /// Requests on-demand access for `identity`. Impersonation on the member needs these `rights`.
    pub async fn request_access(
        &self,
        cluster: &Cluster,
        identity: &Arc<Identity>,
        rights: &[Attributes],
    ) -> Answer {
        self.on_demand.request(cluster, identity, rights).await
    }

    fn other_than(&self, refused: &Cluster) -> Option<Arc<Cluster>> {
        let now = self.find(&refused.name).ok()?;
        let another = !Arc::ptr_eq(&now.upstream, &refused.upstream);
        // A request that ends with the old connection must not continue on a new one.
        (another && !refused.gone.is_cancelled()).then_some(now)
    }
}

/// Why nothing can be sent to a member.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the sidecar has not read the list of members yet")]
    NotSynced,
    #[error("{}.{} {:?} not found", .0.grant_resource(), .0.grant_group(), .1.as_str())]
    Unknown(Origin, ClusterName),
    #[error("the proxy to member {cluster} is off: {why}")]
    ProxyOff { cluster: ClusterName, why: Arc<str> },
}
