//! Determines which clusters a caller sees: those whose `clusters/proxy` they may `get`. The host lets
//! everyone list `clusters` (ClusterRole `kubectl-mc-list`), because RBAC cannot limit a list by name. So the
//! view shows each caller only their own clusters, and the answer about another cluster is the same as about
//! a cluster that does not exist.
//!
//! One review without a name is enough for a caller who may enter all clusters. Otherwise there is one review
//! for each cluster, a few at a time; the authorizer caches the decisions and shares them between lists.
//! Members of a hub are also visible to callers with the same right in the hub's group.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use kubectl_mc_api::{ClusterName, Origin};

use super::registry::Snapshot;
use crate::identity::Identity;
use crate::identity::authorization::{self, Asker, Attributes, Authorizer};
use crate::limits::in_flight::Caller;

/// A caller who reads the inventory.
#[derive(Clone)]
pub struct Viewer {
    pub authorizer: Arc<Authorizer>,
    pub identity: Arc<Identity>,
    pub caller: Caller,
}

/// The clusters that a viewer sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Visible {
    #[default]
    All,
    Only(Arc<HashSet<Arc<str>>>),
}

impl Viewer {
    /// Which of these clusters the viewer sees.
    pub(crate) async fn sees(
        &self,
        clusters: impl Iterator<Item = (Arc<str>, Origin)>,
    ) -> Result<Visible, authorization::Error> {
        let asker = Asker::Listing(self.caller);
        if self.enters(&Attributes::entry(None), asker).await? {
            return Ok(Visible::All);
        }
        let (hub, enters_hubs) = (self.authorizer.hub(), self.enters_by_hub(None, asker).await?);
        let entered = stream::iter(clusters).map(async |(name, origin)| {
            let of_all = enters_hubs && Some(origin) == hub;
            let enters = match name.parse().ok() {
                _ if of_all => true,
                Some(cluster) => self.enters_one(&cluster, origin, asker).await?,
                None => false,
            };
            Ok(enters.then_some(name))
        });
        let entered = entered.buffer_unordered(AT_ONCE).try_filter_map(async |name| Ok(name));
        Ok(Visible::Only(Arc::new(entered.try_collect().await?)))
    }

    /// Whether the viewer sees one cluster, which may not exist.
    pub(super) async fn sees_one(
        &self,
        name: &ClusterName,
        origin: Origin,
    ) -> Result<bool, authorization::Error> {
        let asker = Asker::Caller(self.caller);
        if self.enters(&Attributes::entry(None), asker).await?
            || self.enters(&Attributes::entry(Some(name)), asker).await?
        {
            return Ok(true);
        }
        // The reviews do not depend on the cluster's inventory, so that the answer's latency reveals nothing.
        let enters = self.enters_by_hub(None, asker).await? || self.enters_by_hub(Some(name), asker).await?;
        Ok(enters && Some(origin) == self.authorizer.hub())
    }

    async fn enters_one(
        &self,
        name: &ClusterName,
        origin: Origin,
        asker: Asker,
    ) -> Result<bool, authorization::Error> {
        Ok(self.enters(&Attributes::entry(Some(name)), asker).await?
            || (Some(origin) == self.authorizer.hub() && self.enters_by_hub(Some(name), asker).await?))
    }

    /// Whether the viewer has the right in the group of a hub.
    async fn enters_by_hub(
        &self,
        cluster: Option<&ClusterName>,
        asker: Asker,
    ) -> Result<bool, authorization::Error> {
        match self.authorizer.of_hub(&Attributes::entry(cluster)) {
            Some((_, right)) => self.enters(&right, asker).await,
            None => Ok(false),
        }
    }

    async fn enters(&self, right: &Attributes, asker: Asker) -> Result<bool, authorization::Error> {
        match self.authorizer.check(&self.identity, right, asker).await {
            Ok(_) => Ok(true),
            Err(authorization::Error::Denied(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Visible {
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }

    /// The same, limited to clusters that still exist.
    pub(super) fn within(&self, snapshot: &Snapshot) -> Self {
        match self {
            Self::All => Self::All,
            Self::Only(names) => {
                let still = names.iter().filter(|name| snapshot.clusters.contains_key(*name)).cloned();
                Self::Only(Arc::new(still.collect()))
            }
        }
    }
}

/// Half of the concurrent reviews that all lists may use together.
const AT_ONCE: usize = 16;

#[cfg(test)]
mod tests;
