//! A member as a request sees it.

use std::sync::Arc;
use std::time::Instant;

use kubectl_mc_api::member_cluster::Forwarded;
use kubectl_mc_api::{ClusterName, Origin};
use tokio_util::sync::CancellationToken;

use crate::members::waiter_limit::WaiterLimit;
use crate::request::limits::{self, Caller, MemberBounds, Permit};
use crate::request::metrics::OfMember;
use crate::upstream::Upstream;

/// A member that requests can be sent to.
#[derive(Debug)]
pub struct Cluster {
    pub name: ClusterName,
    /// The inventory that it is from.
    pub origin: Origin,
    pub forwarded: Forwarded,
    pub upstream: Arc<Upstream>,
    /// Ends what is open when the member is deleted or its connection leads elsewhere.
    pub gone: CancellationToken,
    pub bounds: MemberBounds,
    /// Whether the leader manages the sidecar's rights on the member.
    pub managed: bool,
    /// For those who wait until it lets us be them.
    pub waiters: WaiterLimit,
    pub requests: Arc<OfMember>,
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
