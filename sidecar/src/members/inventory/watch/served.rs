//! Builds the member that requests use from its Secrets, and keeps the state that must survive a
//! change of them.

use std::collections::HashMap;
use std::sync::Arc;

use kube::ResourceExt;
use kubectl_mc_api::{ClusterName, Origin};

use super::Watch;
use super::rights_written::RightsWritten;
use super::way::Way;
use crate::limits::in_flight::MemberBounds;
use crate::members::cluster::Cluster;
use crate::members::inventory::fleet::{Fleet, Registered};
use crate::members::inventory::{Found, hub};
use crate::members::waiter_limit::WaiterLimit;
use crate::telemetry::requests::OfMember;

#[derive(Default)]
pub(super) struct Served {
    /// A member's upstream and its connection pool stay as long as the content of its Secret does.
    ways: HashMap<ClusterName, Way>,
    /// Shares survive changes of the Secret, so that a change does not reset a member's limits.
    shares: HashMap<ClusterName, Share>,
    rights_written: RightsWritten,
}

/// The limits and the counters of one member.
#[derive(Clone)]
struct Share {
    bounds: MemberBounds,
    waiters: WaiterLimit,
    requests: Arc<OfMember>,
}

impl Served {
    /// The member for requests, from its objects.
    pub(super) fn way(&mut self, watch: &Watch, name: &ClusterName, registered: &Registered) -> Found {
        let Registered { member, origin, connection, manager, hub_account, .. } = registered;
        let Some(secret) = connection else { return registered.way.clone() };
        let is_written = self.rights_written.update(name, member, hub_account.as_ref());
        let uid = if origin.is_hub() { secret.uid() } else { member.uid() };
        let (unreachable, tunnels) = (&watch.metrics.unreachable, &watch.tunnels);
        let source = hub::source(*origin, name);
        let mut way = Way::next(self.ways.remove(name), name, uid, &source, secret, unreachable, tunnels);
        way.reported(member);
        let (upstream, gone) = (way.upstream.clone(), way.gone.clone());
        self.ways.insert(name.clone(), way);
        let share = self.shares.entry(name.clone()).or_insert_with(|| Share {
            bounds: watch.limits.bounds(),
            waiters: WaiterLimit::default(),
            requests: watch.requests.of(name),
        });
        let Share { bounds, waiters, requests } = share.clone();
        let cluster = Cluster {
            name: name.clone(),
            origin: *origin,
            forwarded: member.forwarded(*origin != Origin::Karmada || is_written),
            upstream: upstream?,
            gone,
            bounds,
            managed: manager.is_some() || matches!(hub_account, Some(Ok(_))),
            waiters,
            requests,
        };
        Ok(Arc::new(cluster))
    }

    /// Forgets deleted members. A member without a connection keeps only its limits; its open requests end.
    pub(super) fn retain(&mut self, fleet: &Fleet) {
        let is_connected =
            |name: &ClusterName| fleet.get(name).is_some_and(|member| member.connection.is_some());
        self.ways.extract_if(|name, _| !is_connected(name)).for_each(|(_, way)| way.gone.cancel());
        self.rights_written.retain(is_connected);
        self.shares.retain(|name, _| fleet.contains_key(name));
    }
}
