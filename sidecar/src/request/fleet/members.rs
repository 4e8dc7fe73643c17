//! The members of a merged request: those that the caller may use. The others are left out, as if they did not exist.

use std::collections::HashSet;
use std::sync::Arc;

use kubectl_mc_api::{ClusterName, Origin};

use crate::endpoints::clusters::Viewer;
use crate::identity::Identity;
use crate::identity::authorization::{self, Authorizer};
use crate::limits::in_flight::Caller;
use crate::members::cluster::Cluster;
use crate::members::inventory::{Found, Inventory};

/// The members of a merged request, sorted by name.
pub(super) struct Members {
    inventory: Arc<Inventory>,
    viewer: Viewer,
    pub(super) all: Vec<Member>,
}

/// Proof that the caller may use a member.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: ClusterName,
    found: Found,
}

impl Member {
    /// The same member with its connection of now.
    pub(super) fn refreshed(&self, inventory: &Inventory) -> Self {
        let found = inventory.find(&self.name).map_err(|error| Arc::from(error.to_string()));
        Self { name: self.name.clone(), found }
    }

    /// The member's upstream, or why its proxy is off.
    pub(super) fn cluster(&self) -> Result<&Arc<Cluster>, &Arc<str>> {
        self.found.as_ref()
    }
}

impl Members {
    pub(super) async fn of(
        inventory: Arc<Inventory>,
        authorizer: Arc<Authorizer>,
        identity: Arc<Identity>,
        caller: Caller,
    ) -> Result<Self, authorization::Error> {
        let mut members =
            Self { inventory, viewer: Viewer { authorizer, identity, caller }, all: Vec::new() };
        members.all = members.now().await?;
        Ok(members)
    }

    /// The members that the caller may use now.
    pub(super) async fn now(&self) -> Result<Vec<Member>, authorization::Error> {
        let all = self.inventory.all();
        let named = all.iter().map(|(name, found)| {
            let origin = found.as_ref().map_or_else(|_| Origin::default(), |cluster| cluster.origin);
            (Arc::from(name.as_str()), origin)
        });
        let visible = self.viewer.sees(named.collect::<Vec<_>>().into_iter()).await?;
        let members = all.into_iter().filter(|(name, _)| visible.has(name.as_str()));
        Ok(members.map(|(name, found)| Member { name, found }).collect())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &ClusterName> {
        self.all.iter().map(|member| &member.name)
    }

    /// Whether exactly these members are the caller's.
    pub(super) fn set(members: &[Member]) -> HashSet<ClusterName> {
        members.iter().map(|member| member.name.clone()).collect()
    }
}
