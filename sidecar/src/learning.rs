//! People whom the host lets in and whom a member does not let us be yet. A binding to a group names no
//! users, and RBAC asks about the user's name too; so who comes is written into ConfigMap
//! `<cluster>.learnt` on the host, the leader's access controller gives the right for it, and the request
//! that waited for it goes on.
//!
//! Only requests that the host allowed get here, and only after the member refused: others pay nothing.
//! At most [`MAX_WAITING`] people wait for a member at once, each for [`PATIENCE`], and whoever got no
//! right then is refused at once for a while.

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
use kubectl_mc_api::access::Learnt;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::authorization::Attributes;
use crate::identity::Identity;
use crate::inventory::Cluster;
use crate::kept::Kept;

/// Writes down who came.
pub struct Learning {
    config_maps: Api<ConfigMap>,
    /// How it ended for whom; whoever comes meanwhile waits along.
    ended: Kept<(ClusterName, Arc<Identity>), Ended>,
}

/// Room for those who wait for one member.
#[derive(Clone, Debug)]
pub struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_WAITING)))
    }
}

/// How learning ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The member lets us be them now.
    Granted,
    /// It will not by anything that is done here: the member has no manager, or lacks other rights.
    NotLearnable,
    /// No right came in time.
    Late,
    /// Too many wait already.
    Busy,
}

impl Learning {
    pub fn new(host: kube::Client, namespace: &str) -> Self {
        Self { config_maps: Api::namespaced(host, namespace), ended: Kept::new(MAX_KEPT, KEPT) }
    }

    /// Has the member let us be `identity`, whom the host let in, where it lacks these rights.
    pub async fn learn(&self, cluster: &Cluster, identity: &Arc<Identity>, lacking: &[Attributes]) -> Ended {
        if !cluster.managed
            || lacking.is_empty()
            || !lacking.iter().all(is_learnable)
            || identity.size() > MAX_SIZE
        {
            return Ended::NotLearnable;
        }
        let key = (cluster.name.clone(), identity.clone());
        self.ended.get_or_ask(&key, self.wait(cluster, identity, lacking), |_| true).await
    }

    async fn wait(&self, cluster: &Cluster, identity: &Identity, lacking: &[Attributes]) -> Ended {
        let Ok(_place) = cluster.room.0.try_acquire() else { return Ended::Busy };
        let granted = async {
            if let Err(error) = self.write(&cluster.name, identity).await {
                warn!(cluster = %cluster.name, error = %error, "who came cannot be written down");
                return Ended::Late;
            }
            while !cluster.upstream.grants(lacking).await {
                sleep(PACE).await;
            }
            info!(cluster = %cluster.name, user = identity.user, "the member lets the sidecar be this user now");
            Ended::Granted
        };
        timeout(PATIENCE, granted).await.unwrap_or(Ended::Late)
    }

    async fn write(&self, cluster: &ClusterName, identity: &Identity) -> Result<(), kube::Error> {
        let (name, key) = (cluster.learnt_config_map(), key(identity));
        let at = Time(Timestamp::now());
        let learnt = Learnt { user: identity.user.clone(), groups: identity.groups.clone(), at };
        let text = serde_json::to_string(&learnt).map_err(kube::Error::SerdeError)?;
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

/// A key of ConfigMaps for a user and groups, in any order.
fn key(identity: &Identity) -> String {
    let mut groups: Vec<&str> = identity.groups.iter().map(String::as_str).collect();
    groups.sort_unstable();
    let text = json!([identity.user, groups]).to_string();
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the access controller gives this right to who came.
fn is_learnable(right: &Attributes) -> bool {
    matches!(right, Attributes::Resource { group: "", resource: "users" | "groups" | "serviceaccounts", .. })
}

/// The label of the ConfigMaps, by which the access controller finds them.
pub const LABEL: &str = "fleet.kubectl-mc.dev/learnt";

/// A caller waits for it. The leader hears of a new entry at once and writes one object.
const PATIENCE: Duration = Duration::from_secs(3);
const PACE: Duration = Duration::from_millis(100);
/// Who was not learnt is not waited for again so soon, and costs no second write.
const KEPT: Duration = Duration::from_secs(15);
const MAX_KEPT: usize = 10_000;
/// People, for one member, on one replica.
const MAX_WAITING: usize = 32;
/// Of name, groups and the like: hundreds of groups. The object that it goes into is bounded.
const MAX_SIZE: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_the_user_and_the_set_of_groups() {
        let of = |user: &str, groups: &[&str]| {
            let groups = groups.iter().map(|&group| group.to_owned()).collect();
            key(&Identity { user: user.to_owned(), groups, ..Identity::default() })
        };
        assert_eq!(of("jane", &["a", "b"]), of("jane", &["b", "a"]));
        assert_ne!(of("jane", &["a", "b"]), of("jane", &["a"]));
        assert_ne!(of("jane", &["a", "b"]), of("jane", &["ab"]));
        assert_ne!(of("jane", &[]), of("bob", &[]));
        let key = of("jané o'neill", &["küche"]);
        assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    }

    #[test]
    fn names_are_learnt_and_nothing_else() {
        assert!(is_learnable(&Attributes::impersonate("", "users", "", "", "jane")));
        assert!(is_learnable(&Attributes::impersonate("", "groups", "", "", "dev")));
        assert!(is_learnable(&Attributes::impersonate("", "serviceaccounts", "", "ns", "n")));
        assert!(!is_learnable(&Attributes::impersonate("authentication.k8s.io", "uids", "", "", "1")));
    }
}
