//! Registers the members of a hub's inventory: one MemberCluster for each registration, with its labels and
//! label `fleet.kubectl-mc.dev/inventory`. One collection thus contains all members, with one
//! resourceVersion, and the status of all members is in one place. A MemberCluster has no address
//! and no credential: each replica reads these from the hub's objects of the same name, so requests
//! cannot be redirected with the right to write MemberClusters.
//!
//! The controller changes no MemberCluster without this label. If the hub registers a member of the same
//! name, condition `UniqueName` reports the conflict.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt};
use kubectl_mc_api::member_cluster::MemberClusterSpec;
use kubectl_mc_api::names::{FLEET_GROUP, INVENTORY, SIDECAR};
use kubectl_mc_api::{ClusterName, MemberCluster, Origin};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::conditions::{Aspect, Finding};
use super::context::Context;
use crate::members::inventory::fleet::{Fleet, HubMembers};
use crate::members::inventory::hub::source;

type Labels = BTreeMap<String, String>;

/// Syncs the MemberClusters with the hub's registrations, if this hub's inventory is enabled.
pub(super) async fn run(context: Context, hub: Origin) {
    let (mut clusters, mut fleet) = (context.hub_clusters.clone(), context.fleet.clone());
    let members: Api<MemberCluster> = Api::all(context.host.clone());
    let queue = context.metrics.queue(hub.as_str());
    loop {
        let (wanted, told) = (clusters.borrow_and_update().clone(), fleet.borrow_and_update().clone());
        let mut pause = LONG;
        if let Some(wanted) = wanted.filter(|wanted| wanted.origin == hub) {
            tell_conflicts(&context, hub, &told);
            tell_unbound(&context, &told);
            let changes = changes(&wanted, &told);
            if !changes.is_empty() {
                let work = queue.begin();
                let done = changes.into_iter().map(|change| change.run(hub, &members));
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
        // Changes within a short time are combined.
        sleep(MOMENT).await;
    }
}

fn tell_conflicts(context: &Context, hub: Origin, fleet: &Fleet) {
    for (cluster, registered) in fleet.iter().filter(|(_, registered)| registered.in_two) {
        let message = format!(
            "a MemberCluster and a {} of {} have this name: requests go by {}",
            hub.kind(),
            hub.title(),
            source(registered.origin, cluster)
        );
        context.conditions.set(cluster, Aspect::UniqueName, Finding::no("Conflict", message));
    }
}

/// Reports the members whose registrations choose their Secrets, as `--inventory-allow-refs` permits.
fn tell_unbound(context: &Context, fleet: &Fleet) {
    for (cluster, registered) in fleet.iter() {
        let Some(unbound) = registered.unbound() else { continue };
        let message =
            format!("{unbound} of Cluster {cluster}: the sidecar's flag --inventory-allow-refs permits it");
        context.conditions.set(cluster, Aspect::SecretsBound, Finding::no("ChosenByReference", message));
    }
}

/// One write on the host.
#[derive(Debug)]
enum Change {
    Create(ClusterName, Labels),
    Label(Arc<MemberCluster>, Labels),
    Delete(Arc<MemberCluster>),
}

fn changes(hub: &HubMembers, fleet: &Fleet) -> Vec<Change> {
    let HubMembers { origin, labels: clusters } = hub;
    let mut changes = Vec::new();
    for (name, labels) in clusters {
        let labels = wanted(*origin, labels);
        match fleet.get(name).map(|registered| &registered.member) {
            None => changes.push(Change::Create(name.clone(), labels)),
            Some(member) if Origin::of(member) != *origin || member.labels() == &labels => {}
            Some(member) => changes.push(Change::Label(member.clone(), labels)),
        }
    }
    let members = fleet.iter().filter(|(name, registered)| {
        Origin::of(&registered.member) == *origin && !clusters.contains_key(*name)
    });
    changes.extend(members.map(|(_, registered)| Change::Delete(registered.member.clone())));
    changes
}

/// The labels of a registration, without those of kubectl-mc's own group, and the label of the inventory.
fn wanted(hub: Origin, labels: &Labels) -> Labels {
    let own = |key: &str| key.split_once('/').is_some_and(|(prefix, _)| prefix == FLEET_GROUP);
    let labels = labels.iter().filter(|(key, _)| !own(key));
    let mark = (INVENTORY.to_owned(), hub.to_string());
    labels.map(|(key, value)| (key.clone(), value.clone())).chain([mark]).collect()
}

impl Change {
    /// Returns whether the change is done or no longer necessary.
    async fn run(self, hub: Origin, members: &Api<MemberCluster>) -> bool {
        let (name, verb) = match &self {
            Self::Create(name, _) => (name.to_string(), "create"),
            Self::Label(member, _) => (member.name_any(), "label"),
            Self::Delete(member) => (member.name_any(), "delete"),
        };
        match timeout(TIMEOUT, self.write(members)).await {
            Ok(Ok(())) => {
                info!(cluster = name, verb, inventory = %hub, "the member follows the hub");
                true
            }
            // The object has changed in the meantime. The watch delivers its new state.
            Ok(Err(kube::Error::Api(error))) if matches!(error.code, 404 | 409) => true,
            Ok(Err(error)) => {
                warn!(cluster = name, verb, inventory = %hub, error = %error, "cannot write the MemberCluster of a hub's member");
                false
            }
            Err(_) => {
                warn!(cluster = name, verb, inventory = %hub, "writing the MemberCluster of a hub's member timed out");
                false
            }
        }
    }

    async fn write(self, members: &Api<MemberCluster>) -> Result<(), kube::Error> {
        match self {
            Self::Create(name, labels) => {
                let params = PostParams { field_manager: Some(SIDECAR.to_owned()), ..PostParams::default() };
                members.create(&params, &registration(&name, labels)).await?;
            }
            Self::Label(member, labels) => {
                let params = PatchParams::apply(SIDECAR);
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

/// The MemberCluster to create. Its spec is left to administrators.
fn registration(name: &ClusterName, labels: Labels) -> MemberCluster {
    let mut member = MemberCluster::new(name.as_str(), MemberClusterSpec::default());
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

/// The maximum number of concurrent writes: 1,000 registrations take some seconds.
const MAX_UNDER_WAY: usize = 8;
const MOMENT: Duration = Duration::from_millis(50);
/// The delay before failed writes are retried.
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
                hub_account: None,
                way: Err(Arc::from("")),
            };
            (name, registered)
        };
        members.iter().map(registered).collect()
    }

    const MARK: (&str, &str) = (INVENTORY, "karmada");

    #[test]
    fn registrations_become_members_with_their_labels() {
        let clusters = [
            ("created", &[("env", "prod"), ("fleet.kubectl-mc.dev/grant-for", "x")][..]),
            ("same", &[("env", "prod")]),
            ("labelled", &[("env", "prod")]),
            ("own", &[("env", "prod")]),
        ];
        let clusters =
            clusters.map(|(name, of_it)| (name.parse().unwrap(), labels(of_it))).into_iter().collect();
        let clusters = HubMembers { origin: Origin::Karmada, labels: clusters };
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
}
