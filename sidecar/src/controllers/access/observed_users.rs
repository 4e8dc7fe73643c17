//! Reads the users who made requests to a member without being named by a binding, and removes those whom the
//! host no longer authorizes. Every replica records users in ConfigMap `<cluster>.learnt`
//! ([`crate::members::on_demand_access`]).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use kubectl_mc_api::access::{Because, ObservedUser, Subject, sent};
use kubectl_mc_api::{ClusterName, Origin};
use serde_json::{Map, Value, json};
use tracing::warn;

use super::reviews::Reviews;
use super::sync::Entitled;
use crate::base::retry;
use crate::controllers::listing::{Listing, Seen};
use crate::controllers::objects;
use crate::host::watch_backoff::WatchBackoff;
use crate::members::on_demand_access::LABEL;

pub(super) fn changes(
    host: &kube::Client,
    namespace: &str,
) -> impl Stream<Item = watcher::Event<ConfigMap>> + use<> {
    let config_maps = Api::<ConfigMap>::namespaced(host.clone(), namespace);
    let events =
        watcher(config_maps, watcher::Config::default().labels(LABEL)).backoff(WatchBackoff::default());
    events.filter_map(async |event| {
        event
            .inspect_err(|error| warn!(error = %error, "cannot read the users recorded for on-demand access"))
            .ok()
    })
}

/// The recorded users, by member.
#[derive(Default)]
pub(super) struct ObservedUsers {
    members: HashMap<ClusterName, MemberUsers>,
    listing: Listing<String>,
}

/// The entries of one member by key, and the resource version of their ConfigMap.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MemberUsers {
    pub(super) entries: BTreeMap<String, Option<ObservedUser>>,
    version: Option<String>,
}

/// The result of checking the entries of one member.
#[derive(Debug)]
pub(super) struct Verified {
    /// The users whom the host still authorizes, by its RBAC or by a review.
    pub(super) allowed: Vec<ObservedUser>,
    /// The keys of all other entries: unauthorized users, expired entries, entries above the limits, and
    /// invalid entries.
    pub(super) pruned: Vec<String>,
    /// The reviews of the allowed users who need one.
    pub(super) reviews: Reviews,
}

impl ObservedUsers {
    /// Applies an event and returns the affected members.
    pub(super) fn take(&mut self, event: watcher::Event<ConfigMap>) -> Vec<ClusterName> {
        match self.listing.take(event, ResourceExt::name_any) {
            Seen::There(map) => {
                let cluster = ClusterName::of_learnt_config_map(&map.name_any());
                let Some(cluster) = cluster else { return Vec::new() };
                self.members.insert(cluster.clone(), MemberUsers::of(&map));
                vec![cluster]
            }
            Seen::Gone(names) => {
                let gone = names.iter().filter_map(|name| ClusterName::of_learnt_config_map(name));
                let gone: Vec<_> = gone.collect();
                gone.iter().for_each(|cluster| _ = self.members.remove(cluster));
                gone
            }
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        self.listing.is_complete()
    }

    pub(super) fn of(&self, cluster: &ClusterName) -> MemberUsers {
        self.members.get(cluster).cloned().unwrap_or_default()
    }
}

impl MemberUsers {
    fn of(map: &ConfigMap) -> Self {
        let entry = |(key, text): (&String, &String)| (key.clone(), serde_json::from_str(text).ok());
        Self { entries: map.data.iter().flatten().map(entry).collect(), version: map.resource_version() }
    }

    /// Checks which users the host still authorizes, by its RBAC (`entitled`), by one of the `reviews` of
    /// earlier syncs, or by a new review.
    pub(super) async fn verified(
        self,
        host: &kube::Client,
        member: (&ClusterName, Origin),
        entitled: &[Entitled],
        reviews: Reviews,
        now: Timestamp,
    ) -> Result<Verified, kube::Error> {
        let (mut fresh, mut pruned) = (Vec::new(), Vec::new());
        for (key, entry) in self.entries {
            match entry {
                Some(entry) if now.duration_since(entry.at.0).unsigned_abs() < MAX_AGE => {
                    fresh.push((key, entry))
                }
                _ => pruned.push(key),
            }
        }
        // The most recent entries are kept.
        fresh.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.at.0));
        let mut size = 0;
        let kept = fresh.iter().take(MAX_ENTRIES).take_while(|(key, entry)| {
            size += key.len()
                + entry.user.len()
                + entry.groups.iter().map(|group| group.len() + 4).sum::<usize>();
            size <= MAX_SIZE
        });
        let kept = kept.count();
        pruned.extend(fresh.drain(kept..).map(|(key, _)| key));

        let rbac = Rbac::of(entitled);
        let (mut allowed, unbound): (Vec<_>, Vec<_>) =
            fresh.into_iter().partition(|(_, entry)| rbac.lets_in(entry));
        let answers = stream::iter(unbound).map(|(key, entry)| async {
            let is_allowed = reviews.allow(&entry) || host_lets_in(host, member, &entry).await?;
            Ok::<_, kube::Error>((key, entry, is_allowed))
        });
        let mut answers = answers.buffer_unordered(MAX_REVIEWS);
        let mut reviewed = Vec::new();
        while let Some(answer) = answers.next().await {
            match answer? {
                (key, entry, true) => reviewed.push((key, entry)),
                (key, _, false) => pruned.push(key),
            }
        }
        drop(answers);
        let reviews = reviews.with(reviewed.iter().map(|(_, entry)| entry));
        allowed.append(&mut reviewed);
        Ok(Verified { allowed: allowed.into_iter().map(|(_, entry)| entry).collect(), pruned, reviews })
    }
}

/// Deletes entries, unless the ConfigMap has changed in the meantime: the change starts another sync.
pub(super) async fn prune(
    host: &kube::Client,
    namespace: &str,
    cluster: &ClusterName,
    came: &MemberUsers,
    keys: Vec<String>,
) {
    if keys.is_empty() {
        return;
    }
    let config_maps = Api::<ConfigMap>::namespaced(host.clone(), namespace);
    let data: Map<String, Value> = keys.into_iter().map(|key| (key, Value::Null)).collect();
    let patch = json!({"metadata": {"resourceVersion": came.version}, "data": data});
    let name = cluster.learnt_config_map();
    match config_maps.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {}
        Err(error) => warn!(%cluster, error = %error, "cannot delete the record of a user without access"),
        Ok(_) => {}
    }
}

/// Deletes all entries of a removed member.
pub(super) async fn forget(host: kube::Client, namespace: Arc<str>, cluster: ClusterName) {
    let config_maps = Api::<ConfigMap>::namespaced(host, &namespace);
    if let Err(error) = objects::delete(&config_maps, &cluster.learnt_config_map()).await {
        warn!(%cluster, error = %error, "cannot delete the recorded users of a removed member");
    }
}

/// The subjects of the host's bindings, which need no review.
struct Rbac<'a>(HashSet<&'a Subject>);

impl<'a> Rbac<'a> {
    fn of(entitled: &'a [Entitled]) -> Self {
        let bound = entitled.iter().filter(|(_, because)| matches!(because, Because::Binding { .. }));
        Self(bound.map(|(subject, _)| subject).collect())
    }

    fn lets_in(&self, entry: &ObservedUser) -> bool {
        let ObservedUser { user, groups, .. } = entry;
        self.0.contains(&Subject::of_user(user))
            || groups
                .iter()
                .any(|group| group == sent::MASTERS || self.0.contains(&Subject::Group(group.clone())))
    }
}

/// Whether the host allows a user any verb on the member's proxy. A grant in the API group of a hub allows it
/// for members of that hub.
async fn host_lets_in(
    host: &kube::Client,
    (cluster, origin): (&ClusterName, Origin),
    entry: &ObservedUser,
) -> Result<bool, kube::Error> {
    let reviews = Api::<SubjectAccessReview>::all(host.clone());
    let of_hub = Some(origin).filter(|origin| origin.is_hub());
    let groups = [Some(Origin::MemberCluster), of_hub].into_iter().flatten();
    for (group, verb) in groups.flat_map(|group| VERBS.map(|verb| (group, verb))) {
        let resource_attributes = ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.grant_group().to_owned()),
            version: Some(group.grant_version().to_owned()),
            resource: Some(group.grant_resource().to_owned()),
            subresource: Some("proxy".to_owned()),
            name: Some(cluster.to_string()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(entry.user.clone()),
            groups: Some(entry.groups.clone()),
            resource_attributes: Some(resource_attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let status = retry::review(&reviews, &review).await?.status.unwrap_or_default();
        if status.allowed && status.denied != Some(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The TTL of an entry. A later request records the user again.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// The limit for one member. With more users, bind them by name or choose `users: Any`.
const MAX_ENTRIES: usize = 2_000;
/// An object on the host is at most 1 MiB. Half of that leaves room for users who are recorded until the next
/// sync.
const MAX_SIZE: usize = 512 * 1024;
const MAX_REVIEWS: usize = 16;
const VERBS: [&str; 5] = ["get", "create", "update", "patch", "delete"];

#[cfg(test)]
mod tests;
