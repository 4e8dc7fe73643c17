//! The members that requests can be sent to, read from the host's MemberClusters and Secrets, and from the objects of
//! a [`hub`], by [`watch`].

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
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

use hub::Hub;
pub use metrics::Metrics;
use renewal::Renewals;

/// The members that the host registers: a snapshot that one writer replaces.
pub struct Inventory {
    members: ArcSwap<Option<Members>>,
    renewals: Renewals,
    on_demand: OnDemandAccess,
}

/// Where members are registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventories {
    /// A name in several of them is served from the first.
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
    /// The hub whose own API group is served. Karmada serves its group itself.
    pub fn own_path(&self) -> Option<Origin> {
        let hub = self.hub.as_ref().map(|hub| hub.origin);
        hub.filter(|hub| *hub == Origin::KubeAdmiral)
    }

    pub fn has(&self, origin: Origin) -> bool {
        self.order.contains(&origin)
    }
}

/// A registered member, or why nothing can be sent to it.
pub type Found = Result<Arc<Cluster>, Arc<str>>;

type Members = HashMap<ClusterName, Member>;

/// A registered member and the inventory that it is served from.
struct Member {
    origin: Origin,
    found: Found,
}

impl Inventory {
    pub fn new(renewals: Renewals, on_demand: OnDemandAccess) -> Self {
        Self { members: ArcSwap::default(), renewals, on_demand }
    }

    /// The member of this name, if requests can be sent to it.
    pub fn find(&self, name: &ClusterName) -> Result<Arc<Cluster>, Error> {
        self.find_in(None, name)
    }

    /// The same, of the members of one inventory, as if there were no others.
    pub fn find_in(&self, only: Option<Origin>, name: &ClusterName) -> Result<Arc<Cluster>, Error> {
        let snapshot = self.members.load();
        let members = snapshot.as_ref().as_ref().ok_or(Error::NotSynced)?;
        match members.get(name).filter(|member| only.is_none_or(|only| only == member.origin)) {
            Some(Member { found: Ok(cluster), .. }) => Ok(cluster.clone()),
            Some(Member { found: Err(why), .. }) => {
                Err(Error::ProxyOff { cluster: name.clone(), why: why.clone() })
            }
            None => Err(Error::Unknown(name.clone())),
        }
    }

    /// Whether the host registers a member of this name, be it one that requests can be sent to or not.
    pub fn registered(&self, name: &ClusterName) -> Result<(), Error> {
        match self.find(name) {
            Ok(_) | Err(Error::ProxyOff { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Each member by its name, or why nothing can be sent to it. Empty before the list was read.
    pub fn all(&self) -> Vec<(ClusterName, Found)> {
        let snapshot = self.members.load();
        let mut all: Vec<_> = snapshot
            .iter()
            .flat_map(|members| members.iter().map(|(name, member)| (name.clone(), member.found.clone())))
            .collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Closes idle connections that should not be kept any longer, before the sidecar ends.
    pub fn sweep(&self) {
        let snapshot = self.members.load();
        let members = snapshot.iter().flat_map(HashMap::values);
        members.flat_map(|member| &member.found).for_each(|cluster| cluster.upstream.sweep());
    }

    /// The same member at the same address with another credential than the one that it `refused`, if there is
    /// one.
    pub async fn renewed(&self, refused: &Cluster) -> Option<Arc<Cluster>> {
        // The watch may have been faster.
        if let Some(renewed) = self.other_than(refused) {
            return Some(renewed);
        }
        self.renewals.read(refused.origin, &refused.name).await;
        self.other_than(refused)
    }

    /// Has the member let the sidecar impersonate `identity`, if it can. These `rights` are what that takes there.
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
        // What ends with the old way must not begin anew on the next one.
        (another && !refused.gone.is_cancelled()).then_some(now)
    }
}

/// Why nothing can be sent to a member.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the sidecar has not read the list of members yet")]
    NotSynced,
    #[error("clusters.proxy.kubectl-mc.dev {:?} not found", .0.as_str())]
    Unknown(ClusterName),
    #[error("the proxy to member {cluster} is off: {why}")]
    ProxyOff { cluster: ClusterName, why: Arc<str> },
}
