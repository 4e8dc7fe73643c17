//! Grants on-demand access to users whom the host authorizes but whom the member does not let the sidecar
//! impersonate yet. A binding to a group names no users, but impersonation needs a right on the user's name
//! too. The sidecar therefore records such a user in ConfigMap `<cluster>.learnt` on the host, the leader's
//! access controller adds the right on the member, and the waiting request continues.
//!
//! Only requests that the host has authorized and the member has refused wait; other requests have no extra
//! cost. At most [`MAX_WAITING`](crate::members::waiter_limit::MAX_WAITING) users wait for one member at
//! once, each for [`TIMEOUT`]. A user who has no right by then is refused immediately for [`KEPT`], with any
//! credential and without another write or request to the member.

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

use crate::base::ttl_cache::TtlCache;
use crate::identity::Identity;
use crate::identity::authorization::Attributes;
use crate::members::cluster::Cluster;
use crate::outbound::upstream::grant::Lacking;

/// Records users for on-demand access.
pub struct OnDemandAccess {
    config_maps: Api<ConfigMap>,
    /// The outcome for a user with these groups. The key omits the credential's id and other extra, because
    /// no right that is granted on demand depends on them.
    outcomes: TtlCache<(ClusterName, String), Answer>,
}

/// The outcome of on-demand access, and a description of the missing rights, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    pub lacking: Option<Arc<str>>,
}

/// How a request for access ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The member now allows the impersonation.
    Granted,
    /// On-demand access cannot help: the member has no manager, or other rights are missing.
    NotGrantable,
    /// The right was not granted in time.
    Late,
    /// Too many users are waiting.
    Busy,
}

impl OnDemandAccess {
    pub fn new(host: kube::Client, namespace: &str) -> Self {
        Self { config_maps: Api::namespaced(host, namespace), outcomes: TtlCache::new(MAX_KEPT, KEPT) }
    }

    /// Requests access for `identity`, whom the host authorized and the member refused. Impersonation on the
    /// member needs these `rights`.
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

    /// Waits until the member has granted the rights that are `lacking`.
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
            // Another replica has created the ConfigMap.
            Err(kube::Error::Api(status)) if status.code == 409 => patched().await.map(drop),
            created => created.map(drop),
        }
    }
}

/// Whether an outcome is cached. Only a refusal is: a slot may soon be free again, and a member that
/// refuses after a grant is another member of the same name.
fn is_kept(answer: &Answer) -> bool {
    answer.outcome == Outcome::Late
}

/// The ConfigMap key for a user and a set of groups, independent of their order and repetition.
fn key(identity: &Identity) -> String {
    let mut groups: Vec<&str> = identity.groups.iter().map(String::as_str).collect();
    groups.sort_unstable();
    groups.dedup();
    let text = json!([identity.user, groups]).to_string();
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the access controller grants this right to recorded users.
fn is_grantable(right: &Attributes) -> bool {
    matches!(right, Attributes::Resource { group: "", resource: "users" | "groups" | "serviceaccounts", .. })
}

/// The label of the ConfigMaps, by which the access controller finds them.
pub const LABEL: &str = kubectl_mc_api::names::ON_DEMAND;

/// The longest wait of a caller. The leader observes a new entry immediately and writes one object, which takes far
/// less on an idle host. On a busy host, a wait is better than an error that says to try again.
const TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_millis(800);
/// The TTL of a refusal. The user is not recorded again within it.
const KEPT: Duration = Duration::from_secs(15);
const MAX_KEPT: usize = 10_000;
/// The size limit of an identity, enough for hundreds of groups. The size of the ConfigMap is limited.
const MAX_SIZE: usize = 16 * 1024;

#[cfg(test)]
mod tests;
