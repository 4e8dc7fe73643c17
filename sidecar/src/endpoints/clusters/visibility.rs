//! Which clusters a caller sees: those that they may `get clusters/proxy` of. The host lets everybody list `clusters`
//! (ClusterRole `kubectl-mc-list`), since its RBAC has no list that depends on names; so the view shows each
//! caller their own clusters, and an answer about any other cluster is the same as about one that does not exist.
//!
//! One unnamed question is enough for a caller who may enter all of them. Else there is one for each cluster, a few at
//! a time; the decisions are kept, and shared between lists, by the authorizer.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use kubectl_mc_api::ClusterName;

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
        names: impl Iterator<Item = Arc<str>>,
    ) -> Result<Visible, authorization::Error> {
        let asker = Asker::Listing(self.caller);
        if self.enters(None, asker).await? {
            return Ok(Visible::All);
        }
        let entered = stream::iter(names).map(async |name| {
            let cluster = name.parse().ok();
            let enters = match &cluster {
                Some(cluster) => self.enters(Some(cluster), asker).await?,
                None => false,
            };
            Ok(enters.then_some(name))
        });
        let entered = entered.buffer_unordered(AT_ONCE).try_filter_map(async |name| Ok(name));
        Ok(Visible::Only(Arc::new(entered.try_collect().await?)))
    }

    /// Whether the viewer sees one cluster, whether or not it exists.
    pub(super) async fn sees_one(&self, name: &ClusterName) -> Result<bool, authorization::Error> {
        let asker = Asker::Caller(self.caller);
        Ok(self.enters(None, asker).await? || self.enters(Some(name), asker).await?)
    }

    async fn enters(
        &self,
        cluster: Option<&ClusterName>,
        asker: Asker,
    ) -> Result<bool, authorization::Error> {
        let right = Attributes::entry(cluster);
        match self.authorizer.check(&self.identity, &right, asker).await {
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
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fake_host::host;

    /// A viewer who may enter these clusters, the empty name being all; and how often the host was asked.
    fn viewer(entered: &'static [&'static str]) -> (Viewer, Arc<std::sync::atomic::AtomicUsize>) {
        let (client, asked) = host(move |review: &Value| {
            let attributes = &review["spec"]["resourceAttributes"];
            assert_eq!((&attributes["verb"], &attributes["subresource"]), (&json!("get"), &json!("proxy")));
            let allowed = entered.contains(&attributes["name"].as_str().unwrap_or_default());
            (
                201,
                json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
                       "spec": {}, "status": {"allowed": allowed}}),
            )
        });
        let identity = Arc::new(Identity { user: "jane".to_owned(), ..Identity::default() });
        let caller = Caller::of_hash(1);
        (Viewer { authorizer: Arc::new(Authorizer::new(client)), identity, caller }, asked)
    }

    fn names(count: usize) -> impl Iterator<Item = Arc<str>> {
        (1..=count).map(|number| format!("m{number}").into())
    }

    #[tokio::test]
    async fn one_question_is_enough_for_all_clusters() {
        let (viewer, asked) = viewer(&[""]);
        assert_eq!(viewer.sees(names(1000)).await.unwrap(), Visible::All);
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn viewer_sees_the_entered_clusters_only() {
        let (viewer, asked) = viewer(&["m1", "m7"]);
        for _ in 0..3 {
            let visible = viewer.sees(names(1000)).await.unwrap();
            assert!(visible.has("m1") && visible.has("m7") && !visible.has("m2"));
        }
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1001, "decisions are not kept");
        assert!(viewer.sees_one(&"m7".parse().unwrap()).await.unwrap());
        assert!(!viewer.sees_one(&"unknown".parse().unwrap()).await.unwrap());
    }

    #[tokio::test]
    async fn viewer_sees_nothing_while_the_host_does_not_answer() {
        let (client, _) = host(|_| (500, json!({"kind": "Status", "status": "Failure", "code": 500})));
        let identity = Arc::new(Identity { user: "jane".to_owned(), ..Identity::default() });
        let caller = Caller::of_hash(1);
        let viewer = Viewer { authorizer: Arc::new(Authorizer::new(client)), identity, caller };
        assert!(viewer.sees(names(3)).await.is_err());
    }
}
