//! The members that are known, and the way to each. The request's path asks one question and does
//! not know where the answer comes from: [`HostInventory`] is fed by the host's MemberClusters and
//! Secrets.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::member_cluster::Impersonation;
use tokio_util::sync::CancellationToken;

use crate::limits::{self, Bound, Permit};
use crate::upstream::Upstream;

pub mod watch;

/// Where members are looked up.
pub trait Inventory: Send + Sync {
    /// The member of this name, if requests can be sent to it.
    fn find(&self, name: &ClusterName) -> Result<Arc<Cluster>, Error>;
}

/// A member that requests can be sent to.
#[derive(Debug)]
pub struct Cluster {
    pub name: ClusterName,
    pub impersonation: Impersonation,
    pub upstream: Arc<Upstream>,
    /// Ends what is open when the member is deleted or its connection leads elsewhere.
    pub gone: CancellationToken,
    pub in_flight: Bound,
}

impl Cluster {
    /// Admits a request to this member, so that a slow one takes no more than its own share.
    pub fn admit(&self) -> Result<Permit, limits::Error> {
        self.in_flight.admit().ok_or_else(|| limits::Error::ForMember(self.name.to_string()))
    }
}

/// The members that the host registers: a snapshot that one writer replaces.
#[derive(Debug, Default)]
pub struct HostInventory(ArcSwap<Option<Members>>);

/// Each registered member, or why nothing can be sent to it.
type Members = HashMap<ClusterName, Result<Arc<Cluster>, Arc<str>>>;

impl Inventory for HostInventory {
    fn find(&self, name: &ClusterName) -> Result<Arc<Cluster>, Error> {
        let snapshot = self.0.load();
        let members = snapshot.as_ref().as_ref().ok_or(Error::NotSynced)?;
        match members.get(name) {
            Some(Ok(cluster)) => Ok(cluster.clone()),
            Some(Err(why)) => Err(Error::ProxyOff { cluster: name.clone(), why: why.clone() }),
            None => Err(Error::Unknown(name.clone())),
        }
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
