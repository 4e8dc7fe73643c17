//! Registers the members of Karmada's inventory: one MemberCluster for each Cluster, with its labels and label
//! `fleet.kubectl-mc.dev/inventory`. So one collection has every member, with one resourceVersion, and all that is known
//! of members is kept in one place. It holds no address and no credential: each replica reads these from Karmada's
//! objects of the same name, so who may write a MemberCluster cannot change where a member's requests go.
//!
//! The controller changes no MemberCluster without this label. Where Karmada has a Cluster of the same name, condition
//! `UniqueName` reports the conflict.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt};
use kubectl_mc_api::member_cluster::{Forwarding, Impersonation, MemberClusterSpec};
use kubectl_mc_api::names::{FLEET_GROUP, INVENTORY};
use kubectl_mc_api::{ClusterName, MemberCluster, Origin};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::Context;
use super::conditions::{Aspect, FIELD_MANAGER, Finding};
use crate::members::inventory::fleet::Fleet;
use crate::members::inventory::karmada::source;

type Labels = BTreeMap<String, String>;

/// Follows both inventories.
pub(super) async fn run(context: Context) {
    let (mut clusters, mut fleet) = (context.karmada_clusters.clone(), context.fleet.clone());
    let members: Api<MemberCluster> = Api::all(context.host.clone());
    let queue = context.metrics.queue("karmada");
    loop {
        let (wanted, told) = (clusters.borrow_and_update().clone(), fleet.borrow_and_update().clone());
        let mut pause = LONG;
        if let Some(wanted) = wanted {
            tell_conflicts(&context, &told);
            let changes = changes(&wanted, &told);
            if !changes.is_empty() {
                let work = queue.begin();
                let done = changes.into_iter().map(|change| change.run(&members));
                let done: Vec<bool> = stream::iter(done).buffer_unordered(MAX_UNDER_WAY).collect().await;
                let failed = done.contains(&false);
                work.done(failed);
                if failed {
                    pause = PAUSE;
                }
            }
        }
        tokio::select! {
            changed = clusters.changed() => if changed.is_err() { return },
            changed = fleet.changed() => if changed.is_err() { return },
            () = sleep(pause) => {}
        }
        // Changes that come together are handled together.
        sleep(MOMENT).await;
    }
}

fn tell_conflicts(context: &Context, fleet: &Fleet) {
    for (cluster, registered) in fleet.iter().filter(|(_, registered)| registered.in_two) {
        let message = format!(
            "a MemberCluster and a Cluster of Karmada have this name: requests go by {}",
            source(registered.origin, cluster)
        );
        context.conditions.set(cluster, Aspect::UniqueName, Finding::no("Conflict", message));
    }
}

/// One write on the host.
#[derive(Debug)]
enum Change {
    Create(ClusterName, Labels),
    Label(Arc<MemberCluster>, Labels),
    Delete(Arc<MemberCluster>),
}

fn changes(clusters: &BTreeMap<ClusterName, Labels>, fleet: &Fleet) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, labels) in clusters {
        let labels = wanted(labels);
        match fleet.get(name).map(|registered| &registered.member) {
            None => changes.push(Change::Create(name.clone(), labels)),
            Some(member) if Origin::of(member) != Origin::Karmada || member.labels() == &labels => {}
            Some(member) => changes.push(Change::Label(member.clone(), labels)),
        }
    }
    let members = fleet.iter().filter(|(name, registered)| {
        Origin::of(&registered.member) == Origin::Karmada && !clusters.contains_key(*name)
    });
    changes.extend(members.map(|(_, registered)| Change::Delete(registered.member.clone())));
    changes
}

/// The labels of a Cluster and our own, which no Cluster sets.
fn wanted(labels: &Labels) -> Labels {
    let own = |key: &str| key.split_once('/').is_some_and(|(prefix, _)| prefix == FLEET_GROUP);
    let labels = labels.iter().filter(|(key, _)| !own(key));
    let mark = (INVENTORY.to_owned(), Origin::Karmada.to_string());
    labels.map(|(key, value)| (key.clone(), value.clone())).chain([mark]).collect()
}

impl Change {
    /// Says whether it is done, or need not be.
    async fn run(self, members: &Api<MemberCluster>) -> bool {
        let (name, verb) = match &self {
            Self::Create(name, _) => (name.to_string(), "create"),
            Self::Label(member, _) => (member.name_any(), "label"),
            Self::Delete(member) => (member.name_any(), "delete"),
        };
        match timeout(TIMEOUT, self.write(members)).await {
            Ok(Ok(())) => {
                info!(cluster = name, verb, "the member follows Karmada's Cluster");
                true
            }
            // Another writer was faster; the watch delivers the result.
            Ok(Err(kube::Error::Api(error))) if matches!(error.code, 404 | 409) => true,
            Ok(Err(error)) => {
                warn!(cluster = name, verb, error = %error, "cannot write the MemberCluster of Karmada's Cluster");
                false
            }
            Err(_) => {
                warn!(cluster = name, verb, "writing the MemberCluster of Karmada's Cluster timed out");
                false
            }
        }
    }

    async fn write(self, members: &Api<MemberCluster>) -> Result<(), kube::Error> {
        match self {
            Self::Create(name, labels) => {
                let params =
                    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
                members.create(&params, &registration(&name, labels)).await?;
            }
            Self::Label(member, labels) => {
                let params =
                    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
                let patch = label_patch(&member, &labels);
                members.patch_metadata(&member.name_any(), &params, &Patch::Merge(patch)).await?;
            }
            Self::Delete(member) => {
                let preconditions = Preconditions { uid: member.uid(), resource_version: None };
                let params = DeleteParams::default().preconditions(preconditions);
                members.delete(&member.name_any(), &params).await?;
            }
        }
        Ok(())
    }
}

/// Karmada's impersonator may impersonate users, groups and service accounts, and no uid or extra. Who lets it may say so
/// in the spec, which is not written again.
fn registration(name: &ClusterName, labels: Labels) -> MemberCluster {
    let impersonation =
        Impersonation { uid: Forwarding::Omit, extra: Forwarding::Omit, ..Impersonation::default() };
    let spec = MemberClusterSpec { impersonation: Some(impersonation) };
    let mut member = MemberCluster::new(name.as_str(), spec);
    member.meta_mut().labels = Some(labels);
    member
}

fn label_patch(member: &MemberCluster, labels: &Labels) -> Value {
    let gone = member.labels().keys().filter(|key| !labels.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let labels: serde_json::Map<_, _> =
        labels.iter().map(|(key, value)| (key.clone(), json!(value))).chain(gone).collect();
    json!({
        "apiVersion": MemberCluster::api_version(&()), "kind": MemberCluster::kind(&()),
        "metadata": {"uid": member.uid(), "resourceVersion": member.resource_version(), "labels": labels},
    })
}

/// A host with 1,000 Clusters is followed in some seconds.
const MAX_UNDER_WAY: usize = 8;
const MOMENT: Duration = Duration::from_millis(50);
/// Before what could not be written is tried again.
const PAUSE: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(3600);
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::inventory::fleet::Registered;

    fn labels(labels: &[(&str, &str)]) -> Labels {
        labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn fleet(members: &[(&str, &[(&str, &str)])]) -> Fleet {
        let registered = |&(name, labels): &(&str, &[(&str, &str)])| {
            let name: ClusterName = name.parse().unwrap();
            let mut member = MemberCluster::new(name.as_str(), MemberClusterSpec::default());
            member.metadata.labels = Some(self::labels(labels));
            let registered = Registered {
                member: Arc::new(member),
                origin: Origin::Karmada,
                is_read: true,
                in_two: false,
                connection: None,
                manager: None,
                way: Err(Arc::from("")),
            };
            (name, registered)
        };
        members.iter().map(registered).collect()
    }

    const MARK: (&str, &str) = (INVENTORY, "karmada");

    #[test]
    fn each_cluster_becomes_a_member_with_its_labels() {
        let clusters = [
            ("created", &[("env", "prod"), ("fleet.kubectl-mc.dev/grant-for", "x")][..]),
            ("same", &[("env", "prod")]),
            ("labelled", &[("env", "prod")]),
            ("own", &[("env", "prod")]),
        ];
        let clusters =
            clusters.map(|(name, of_it)| (name.parse().unwrap(), labels(of_it))).into_iter().collect();
        let fleet = fleet(&[
            ("same", &[("env", "prod"), MARK]),
            ("labelled", &[("env", "test"), ("tier", "1"), MARK]),
            ("own", &[("env", "test")]),
            ("gone", &[MARK]),
            ("other", &[]),
        ]);
        let mut done: Vec<String> = Vec::new();
        for change in changes(&clusters, &fleet) {
            done.push(match change {
                Change::Create(name, labels) => {
                    assert_eq!(labels, self::labels(&[("env", "prod"), MARK]));
                    format!("create {name}")
                }
                Change::Label(member, labels) => {
                    let patch = label_patch(&member, &labels);
                    let expected = json!({"env": "prod", "tier": null, INVENTORY: "karmada"});
                    assert_eq!(patch["metadata"]["labels"], expected);
                    format!("label {}", member.name_any())
                }
                Change::Delete(member) => format!("delete {}", member.name_any()),
            });
        }
        done.sort();
        assert_eq!(done, ["create created", "delete gone", "label labelled"]);
    }

    #[test]
    fn registration_forwards_neither_uid_nor_extra() {
        let member = registration(&"m1".parse().unwrap(), labels(&[MARK]));
        let forwarded = member.forwarded();
        assert_eq!((forwarded.uid, forwarded.extra), (Forwarding::Omit, Forwarding::Omit));
        assert_eq!(Origin::of(&member), Origin::Karmada);
    }
}
