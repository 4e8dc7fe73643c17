//! On-demand access: users whom the host authorizes but whom the member does not let the sidecar impersonate
//! yet. A binding to a group names no users, and RBAC asks about the user's name too. So the sidecar records
//! such a user in ConfigMap `<cluster>.learnt` on the host, the leader's access controller adds the right on
//! the member, and the request that waited for it goes on.
//!
//! Only requests that the host allowed get here, and only after the member refused them: others pay nothing.
//! At most [`MAX_WAITING`](crate::members::waiter_limit::MAX_WAITING) users wait for one member at once, each for [`TIMEOUT`]. A user who got no
//! right by then is refused at once for [`KEPT`], by any credential and without another write or question.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::access::ObservedUser as Entry;
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::identity::Identity;
use crate::identity::authorization::Attributes;
use crate::members::cluster::Cluster;
use crate::ttl_cache::TtlCache;
use crate::upstream::grant::Lacking;

/// Records users for on-demand access.
pub struct OnDemandAccess {
    config_maps: Api<ConfigMap>,
    /// How it ended for a user with these groups. A credential's id and other extra make no difference: no
    /// right depends on them that is given on demand.
    outcomes: TtlCache<(ClusterName, String), Answer>,
}

/// How on-demand access ended, and what the member's grant lacks if it lacks something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    pub lacking: Option<Arc<str>>,
}

/// How a request for access ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The member lets us be them now.
    Granted,
    /// It will not by anything that is done here: the member has no manager, or lacks other rights.
    NotGrantable,
    /// No right came in time.
    Late,
    /// Too many wait already.
    Busy,
}

impl OnDemandAccess {
    pub fn new(host: kube::Client, namespace: &str) -> Self {
        Self { config_maps: Api::namespaced(host, namespace), outcomes: TtlCache::new(MAX_KEPT, KEPT) }
    }

    /// Has the member let us be `identity`, whom the host authorized and the member refused. These `rights` are
    /// what it takes there.
    pub async fn request(
        &self,
        cluster: &Cluster,
        identity: &Arc<Identity>,
        rights: &[Attributes],
    ) -> Answer {
        let recent = self.outcomes.get(&(cluster.name.clone(), key(identity)));
        if let Some(refused) = recent.filter(|answer| answer.outcome == Outcome::Late) {
            return refused;
        }
        match cluster.upstream.lacking(identity, rights).await {
            Some(lacking) => self.acquire(cluster, identity, &lacking).await,
            None => Answer { outcome: Outcome::NotGrantable, lacking: None },
        }
    }

    /// Has the member give what is `lacking`.
    pub(crate) async fn acquire(&self, cluster: &Cluster, identity: &Identity, lacking: &Lacking) -> Answer {
        let words = Some(lacking.words.clone());
        if !cluster.managed
            || lacking.rights.is_empty()
            || !lacking.rights.iter().all(is_grantable)
            || identity.size() > MAX_SIZE
        {
            return Answer { outcome: Outcome::NotGrantable, lacking: words };
        }
        let key = (cluster.name.clone(), key(identity));
        let ended = async {
            let outcome = self.wait(cluster, identity, &lacking.rights).await;
            Answer { outcome, lacking: words }
        };
        self.outcomes.get_or_fetch(&key, ended, is_kept).await
    }

    async fn wait(&self, cluster: &Cluster, identity: &Identity, lacking: &[Attributes]) -> Outcome {
        let Some(_place) = cluster.waiters.enter(&identity.user) else { return Outcome::Busy };
        let granted = async {
            if let Err(error) = self.write(&cluster.name, identity).await {
                warn!(cluster = %cluster.name, error = %error, "cannot record the user for on-demand access");
                return Outcome::Late;
            }
            let mut pause = FIRST_PAUSE;
            while !cluster.upstream.grants(lacking).await {
                sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
            info!(cluster = %cluster.name, user = identity.user, "on-demand access granted");
            Outcome::Granted
        };
        timeout(TIMEOUT, granted).await.unwrap_or(Outcome::Late)
    }

    async fn write(&self, cluster: &ClusterName, identity: &Identity) -> Result<(), kube::Error> {
        let (name, key) = (cluster.learnt_config_map(), key(identity));
        let at = Time(Timestamp::now());
        let entry = Entry { user: identity.user.clone(), groups: identity.groups.clone(), at };
        let text = serde_json::to_string(&entry).map_err(kube::Error::SerdeError)?;
        let data: Map<String, Value> = [(key.clone(), text.clone().into())].into_iter().collect();
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(json!({"data": data})));
        let patched = || self.config_maps.patch(&name, &parameters, &patch);
        match patched().await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            patched => return patched.map(drop),
        }
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(BTreeMap::from([(LABEL.to_owned(), String::new())])),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(key, text)])),
            ..ConfigMap::default()
        };
        match self.config_maps.create(&PostParams::default(), &map).await {
            // Another replica was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => patched().await.map(drop),
            created => created.map(drop),
        }
    }
}

/// Whether an outcome holds for a while: only a refusal. A place is free again in a moment, and a member that
/// refuses after it granted is another one of that name.
fn is_kept(answer: &Answer) -> bool {
    answer.outcome == Outcome::Late
}

/// A key of ConfigMaps for a user and groups, in any order and number.
fn key(identity: &Identity) -> String {
    let mut groups: Vec<&str> = identity.groups.iter().map(String::as_str).collect();
    groups.sort_unstable();
    groups.dedup();
    let text = json!([identity.user, groups]).to_string();
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the access controller gives this right to who came.
fn is_grantable(right: &Attributes) -> bool {
    matches!(right, Attributes::Resource { group: "", resource: "users" | "groups" | "serviceaccounts", .. })
}

/// The label of the ConfigMaps, by which the access controller finds them.
pub const LABEL: &str = kubectl_mc_api::names::ON_DEMAND;

/// The leader's watch delivers a new entry at once and it writes one object: far less on an idle host. On a busy host or a
/// distant member a caller prefers to wait over an error that says to try again.
const TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_millis(800);
/// A user who got no right is not recorded again so soon.
const KEPT: Duration = Duration::from_secs(15);
const MAX_KEPT: usize = 10_000;
/// Of name, groups and the like: hundreds of groups. The object that it goes into is bounded.
const MAX_SIZE: usize = 16 * 1024;

#[cfg(test)]
mod tests;
