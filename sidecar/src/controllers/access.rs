//! Syncs the impersonation rights on each member with the host's RBAC: the sidecar may impersonate only
//! subjects that may use the member's proxy on the host (`kubectl_mc_api::access`).
//!
//! - [`host`]: watches the host's ClusterRoles and ClusterRoleBindings; a change names the affected members
//! - [`observed_users`]: users whom no binding names, as long as the host authorizes them
//! - [`reviews`]: the host's answers about these users
//! - [`member`]: reads and writes a member's roles and bindings as its manager
//! - [`sync`]: one sync of one member
//!
//! A member is synced when the host's rules for it, its MemberCluster or its manager's Secret change, when a
//! user is recorded, and every `--member-resync-period`, which repairs drift.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kubectl_mc_api::access::{Affected, Index};
use kubectl_mc_api::{ClusterName, Origin};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::conditions::{Aspect, Finding};
use super::context::Context;
use super::turn::Turn;
use super::work_queue::{WorkQueue, Working};
use crate::members::inventory::fleet::{Fleet, Registered};

mod host;
mod member;
mod observed_users;
mod reviews;
mod sync;

use host::HostRbac;
use observed_users::ObservedUsers;
use reviews::Reviews;
use sync::{Outcome, Sync};

/// Runs until it is dropped.
pub(super) async fn run(context: Context) {
    let mut fleet = context.fleet.clone();
    let mut rbac = pin!(host::changes(&context.host));
    let mut observed = pin!(observed_users::changes(&context.host, &context.namespace));
    let mut access = Access {
        told: Arc::default(),
        rbac: HostRbac::new(context.settings.hub_with_rights),
        observed: ObservedUsers::default(),
        members: HashMap::new(),
        queue: context.metrics.queue("access"),
        context,
    };
    let mut syncs = JoinSet::new();
    access.follow(fleet.borrow_and_update().clone());
    loop {
        let next = access.next(syncs.len());
        tokio::select! {
            Some(change) = rbac.next() => {
                let affected = access.rbac.take(change);
                access.affected(&affected);
            }
            Some(change) = observed.next() => {
                for cluster in access.observed.take(change) {
                    access.due(&cluster, Instant::now());
                }
            }
            changed = fleet.changed() => match changed {
                Ok(()) => access.follow(fleet.borrow_and_update().clone()),
                Err(_) => return,
            },
            Some(done) = syncs.join_next() => match done {
                Ok((cluster, work, outcome)) => access.done(&cluster, work, outcome),
                // The controller ends and is restarted with a new state.
                Err(error) => return warn!(error = %error, "access sync failed"),
            },
            () = sleep_until(next) => {}
        }
        access.begin(&mut syncs);
    }
}

struct Access {
    context: Context,
    queue: WorkQueue,
    /// The last observed fleet.
    told: Arc<Fleet>,
    rbac: HostRbac,
    observed: ObservedUsers,
    /// The members that have a manager.
    members: HashMap<ClusterName, Member>,
}

/// The state of a member between two syncs.
struct Member {
    manager: Arc<Secret>,
    turn: Turn,
    reviews: Reviews,
}

impl Member {
    /// Syncs soon and reviews all recorded users, because the host's rules or the member have changed.
    fn changed(&mut self, at: Instant) {
        self.reviews.discard();
        self.turn.hurry(at);
    }
}

impl Access {
    /// Processes a change of the fleet.
    fn follow(&mut self, fleet: Arc<Fleet>) {
        let before = std::mem::replace(&mut self.told, fleet.clone());
        self.members.retain(|cluster, _| fleet.contains_key(cluster));
        for cluster in before.keys().filter(|&cluster| !fleet.contains_key(cluster)) {
            tokio::spawn(observed_users::forget(
                self.context.host.clone(),
                self.context.namespace.clone(),
                cluster.clone(),
            ));
        }
        for (cluster, registered) in fleet.iter() {
            if before.get(cluster).is_some_and(|before| is_same(before, registered)) {
                continue;
            }
            match manager(cluster, registered) {
                Ok(manager) => match self.members.get_mut(cluster) {
                    Some(member) if Arc::ptr_eq(&member.manager, &manager) => {
                        member.changed(Instant::now());
                    }
                    Some(member) => {
                        member.manager = manager;
                        member.reviews.discard();
                        member.turn.restart();
                    }
                    None => {
                        let member = Member { manager, turn: Turn::now(), reviews: Reviews::default() };
                        self.members.insert(cluster.clone(), member);
                    }
                },
                Err(finding) => {
                    self.members.remove(cluster);
                    self.context.conditions.set(cluster, Aspect::AuthSynced, finding);
                }
            }
        }
    }

    fn affected(&mut self, affected: &Affected) {
        let now = Instant::now();
        match affected {
            Affected::All => self.members.values_mut().for_each(|member| member.changed(now)),
            Affected::Named(names) => {
                for cluster in names {
                    self.members.get_mut(cluster).into_iter().for_each(|member| member.changed(now));
                }
            }
        }
        if let Some(why) = self.rbac.unreadable() {
            for cluster in self.members.keys() {
                let finding = Finding::unknown("HostRBACUnreadable", why.clone());
                self.context.conditions.set(cluster, Aspect::AuthSynced, finding);
            }
        }
    }

    /// A user was recorded. The host's answers about the others are kept.
    fn due(&mut self, cluster: &ClusterName, at: Instant) {
        if let Some(member) = self.members.get_mut(cluster) {
            member.turn.hurry(at);
        }
    }

    /// The time of the next due sync. While the maximum number of syncs is running, members are not
    /// considered.
    fn next(&self, under_way: usize) -> Instant {
        let members = self.members.values().filter(|_| under_way < MAX_UNDER_WAY);
        members.filter_map(|member| member.turn.next()).min().unwrap_or_else(|| Instant::now() + LONG)
    }

    /// Starts the syncs that are due. None is due before all of the host's rules are read, because a partial
    /// list would remove rights.
    fn begin(&mut self, syncs: &mut JoinSet<(ClusterName, Working, Outcome)>) {
        if !(self.rbac.is_synced() && self.observed.is_synced()) {
            return self.postpone();
        }
        let now = Instant::now();
        // Members that have been due for the longest time come first, so unresponsive members do not starve
        // the others.
        let mut due: Vec<_> = self.members.iter_mut().filter(|(_, member)| member.turn.is_due(now)).collect();
        due.sort_by_key(|(_, member)| member.turn.due());
        for (cluster, member) in due {
            let Some(registered) = self.told.get(cluster) else { continue };
            if syncs.len() >= MAX_UNDER_WAY {
                member.turn.wait(&self.queue);
                continue;
            }
            let (reviews, resync) = member.reviews.begin(now, self.context.settings.member_resync_period);
            let work = member.turn.begin(resync, &self.queue).begin();
            let sync = Sync {
                cluster: cluster.clone(),
                host: self.context.host.clone(),
                namespace: self.context.namespace.clone(),
                origin: registered.origin,
                manager: member.manager.clone(),
                admin_groups: self.context.admin_groups.clone(),
                impersonation: registered.member.spec.impersonation.clone().unwrap_or_default(),
                entitled: entitled(self.rbac.index(registered.origin), cluster),
                note: self.rbac.note(),
                observed: self.observed.of(cluster),
                reviews,
                tunnels: self.context.tunnels.clone(),
            };
            syncs.spawn(async move {
                let cluster = sync.cluster.clone();
                let outcome = sync.run().await;
                (cluster, work, outcome)
            });
        }
    }

    /// Postpones all members, because the host's rules are not read yet.
    fn postpone(&mut self) {
        let soon = Instant::now() + UNREAD_PAUSE;
        self.members.values_mut().for_each(|member| member.turn.postpone(soon));
    }

    fn done(&mut self, cluster: &ClusterName, work: Working, outcome: Outcome) {
        let Some(member) = self.members.get_mut(cluster) else { return };
        let Outcome { finding, retry, reviews } = outcome;
        if let Some(reviews) = reviews {
            member.reviews.update(reviews);
        }
        member.turn.done(retry);
        work.done(retry);
        self.context.conditions.set(cluster, Aspect::AuthSynced, finding);
    }
}

/// Whether two states are equal for a sync. The status is ignored, because it is written often.
fn is_same(before: &Registered, now: &Registered) -> bool {
    fn manager(registered: &Registered) -> Option<&Option<BTreeMap<String, ByteString>>> {
        registered.manager.as_ref().map(|secret| &secret.data)
    }
    let same_member = Arc::ptr_eq(&before.member, &now.member)
        || (before.member.uid() == now.member.uid()
            && before.member.spec == now.member.spec
            && before.member.metadata.labels == now.member.metadata.labels
            && before.member.metadata.annotations == now.member.metadata.annotations);
    same_member
        && before.origin == now.origin
        && manager(before) == manager(now)
        && before.hub_account == now.hub_account
}

/// The account that writes the rights on the member.
fn manager(cluster: &ClusterName, registered: &Registered) -> Result<Arc<Secret>, Finding> {
    match registered.origin {
        Origin::MemberCluster => registered.manager.clone().ok_or_else(|| {
            let secret = cluster.manager_secret();
            let message = format!("there is no Secret {secret}: nothing keeps the rights on the member");
            Finding::unknown("NoManager", message)
        }),
        Origin::Karmada => {
            let kept = "Karmada keeps the rights on the member, by its own rules";
            let why = match &registered.hub_account {
                Some(Ok(account)) => return Ok(account.clone()),
                Some(Err(why)) => format!("{kept}; --karmada-member-rbac has no effect: {why}"),
                None => kept.to_owned(),
            };
            Err(Finding::unknown("KeptByKarmada", why))
        }
        Origin::KubeAdmiral => {
            let message = "KubeAdmiral's credential may impersonate every caller on the member";
            Err(Finding::unknown("KeptByKubeAdmiral", message))
        }
    }
}

fn entitled(index: &Index, cluster: &ClusterName) -> Vec<sync::Entitled> {
    index.entitled(cluster).map(|(subject, because)| (subject.clone(), because)).collect()
}

/// The maximum number of concurrent syncs. A change of a broad role affects all members, and distant members
/// need long round trips.
const MAX_UNDER_WAY: usize = 64;
const UNREAD_PAUSE: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;
