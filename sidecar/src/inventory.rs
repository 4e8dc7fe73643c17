//! The members that are known, and the way to each. The request's path asks one question and does
//! not know where the answer comes from: [`HostInventory`] is fed by the host's MemberClusters and
//! Secrets.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::member_cluster::Forwarded;
use tokio_util::sync::CancellationToken;

use crate::authorization::Attributes;
use crate::identity::Identity;
use crate::learning::{Learning, Learnt, Room};
use crate::limits::{self, Caller, MemberBounds, Permit};
use crate::upstream::Upstream;

pub mod fleet;
pub mod renewal;
pub mod watch;

use renewal::Renewals;

/// Where members are looked up.
pub trait Inventory: Send + Sync {
    /// The member of this name, if requests can be sent to it.
    fn find(&self, name: &ClusterName) -> Result<Arc<Cluster>, Error>;

    /// The same member by the same way with another credential than the one that it `refused`, if
    /// there is one.
    fn renewed<'a>(
        &'a self,
        refused: &'a Cluster,
    ) -> Pin<Box<dyn Future<Output = Option<Arc<Cluster>>> + Send + 'a>>;

    /// Has the member let us be `identity`, if it can be had. These `rights` are what it takes there.
    fn learn<'a>(
        &'a self,
        cluster: &'a Cluster,
        identity: &'a Arc<Identity>,
        rights: &'a [Attributes],
    ) -> Pin<Box<dyn Future<Output = Learnt> + Send + 'a>>;
}

/// A member that requests can be sent to.
#[derive(Debug)]
pub struct Cluster {
    pub name: ClusterName,
    pub forwarded: Forwarded,
    pub upstream: Arc<Upstream>,
    /// Ends what is open when the member is deleted or its connection leads elsewhere.
    pub gone: CancellationToken,
    pub bounds: MemberBounds,
    /// Whether somebody keeps the rights that it gives us.
    pub managed: bool,
    /// For those who wait until it lets us be them.
    pub room: Room,
}

impl Cluster {
    /// Admits a request to this member, so that a slow one takes no more than its own share. One that is
    /// never `due` is long-running.
    pub async fn admit(&self, caller: Caller, due: Option<Instant>) -> Result<Permit, limits::Error> {
        match due {
            Some(due) => self.bounds.admit(&self.name, caller, due).await,
            None => self.bounds.admit_watch(&self.name, caller),
        }
    }
}

/// The members that the host registers: a snapshot that one writer replaces.
pub struct HostInventory {
    members: ArcSwap<Option<Members>>,
    renewals: Renewals,
    learning: Learning,
}

/// Each registered member, or why nothing can be sent to it.
type Members = HashMap<ClusterName, Result<Arc<Cluster>, Arc<str>>>;

impl Inventory for HostInventory {
    fn find(&self, name: &ClusterName) -> Result<Arc<Cluster>, Error> {
        let snapshot = self.members.load();
        let members = snapshot.as_ref().as_ref().ok_or(Error::NotSynced)?;
        match members.get(name) {
            Some(Ok(cluster)) => Ok(cluster.clone()),
            Some(Err(why)) => Err(Error::ProxyOff { cluster: name.clone(), why: why.clone() }),
            None => Err(Error::Unknown(name.clone())),
        }
    }

    fn renewed<'a>(
        &'a self,
        refused: &'a Cluster,
    ) -> Pin<Box<dyn Future<Output = Option<Arc<Cluster>>> + Send + 'a>> {
        Box::pin(async move {
            // The watch may have been faster.
            if let Some(renewed) = self.other_than(refused) {
                return Some(renewed);
            }
            self.renewals.read(&refused.name).await;
            self.other_than(refused)
        })
    }

    fn learn<'a>(
        &'a self,
        cluster: &'a Cluster,
        identity: &'a Arc<Identity>,
        rights: &'a [Attributes],
    ) -> Pin<Box<dyn Future<Output = Learnt> + Send + 'a>> {
        Box::pin(self.learning.learn(cluster, identity, rights))
    }
}

impl HostInventory {
    pub fn new(renewals: Renewals, learning: Learning) -> Self {
        Self { members: ArcSwap::default(), renewals, learning }
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
    #[error("the proxy to member {cluster} is off: Secret {} {why}", cluster.member_secret())]
    ProxyOff { cluster: ClusterName, why: Arc<str> },
}
