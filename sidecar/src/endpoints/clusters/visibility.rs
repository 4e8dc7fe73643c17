//! Which clusters a caller sees: those that they may `get clusters/proxy` of. The host lets everybody list `clusters`
//! (ClusterRole `kubectl-mc-list`), since its RBAC has no list that depends on names; so the view shows each
//! caller their own clusters, and an answer about any other cluster is the same as about one that does not exist.
//!
//! One unnamed question is enough for a caller who may enter all of them. Else there is one for each cluster, a few at
//! a time; the decisions are kept, and shared between lists, by the authorizer. Members of a hub are seen by the same right
//! in the hub's group as well.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use kubectl_mc_api::{ClusterName, Origin};

use super::registry::Snapshot;
use crate::identity::Identity;
use crate::identity::authorization::{self, Asker, Attributes, Authorizer};
use crate::request::limits::Caller;

/// Somebody who looks at the inventory.
#[derive(Clone)]
pub struct Viewer {
    pub authorizer: Arc<Authorizer>,
    pub identity: Arc<Identity>,
    pub caller: Caller,
}

/// The clusters that somebody sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Visible {
    #[default]
    All,
    Only(Arc<HashSet<Arc<str>>>),
}

impl Viewer {
    /// What of these clusters the viewer sees.
    pub(super) async fn sees(
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

    /// Whether the viewer sees one cluster, whether or not it exists.
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
        // Asked whatever it is of, so that the time that an answer takes tells nothing.
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

    /// Whether the viewer has the right by the group of a hub.
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
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }

    /// The same, of the clusters that still exist.
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

/// Half of the reviews that all lists may have under way together.
const AT_ONCE: usize = 16;

#[cfg(test)]
mod tests;
