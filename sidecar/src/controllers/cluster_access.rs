//! Syncs ClusterAccesses: on the host the right to access the selected members, on each member the bindings.
//!
//! - [`wanted`]: computes the desired state of all ClusterAccesses
//! - [`host`]: writes the host's roles and bindings
//! - [`member`]: writes one member's bindings with its manager's credential; [`bindings`] computes them, and
//!   which the member's administrators refuse
//! - [`status`]: writes the status of each ClusterAccess
//!
//! The desired state is recomputed when a ClusterAccess, a member or its labels change, and when an access
//! expires. The host and each member are synced when their desired state changes, and every
//! `--member-resync-period`. Expiration removes the right on the host even if the members do not answer.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use kubectl_mc_api::{ClusterAccess, ClusterName};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use super::context::Context;
use super::kube_error;
use super::listing::{Listing, Seen};
use super::turn::Turn;
use super::work_queue::{WorkQueue, Working};
use crate::base::retry;
use crate::host::watch_backoff::WatchBackoff;
use crate::members::inventory::fleet::{Fleet, Registered};

mod bindings;
mod host;
mod member;
mod status;
mod wanted;

use bindings::{State, States};
use host::HostSide;
use status::Statuses;
use wanted::{Grants, Registry, Wanted};

/// Runs until it is dropped.
pub(super) async fn run(context: Context) {
    let mut fleet = context.fleet.clone();
    let accesses = Api::<ClusterAccess>::all(context.host.clone());
    let mut events = pin!(watcher(accesses, watcher::Config::default()).backoff(WatchBackoff::default()));
    let mut controller = Controller::new(context);
    // The fleet is empty until the members are read for the first time.
    controller.is_fleet_known = fleet.has_changed().unwrap_or(false);
    let mut under_way = JoinSet::new();
    controller.follow(fleet.borrow_and_update().clone());
    loop {
        let next = controller.next(under_way.len());
        tokio::select! {
            Some(event) = events.next() => controller.take(event),
            changed = fleet.changed() => match changed {
                Ok(()) => {
                    controller.is_fleet_known = true;
                    controller.follow(fleet.borrow_and_update().clone());
                }
                Err(_) => return,
            },
            Some(done) = under_way.join_next() => match done {
                Ok(done) => controller.done(done),
                // The controller ends and is restarted with a new state.
                Err(error) => return warn!(error = %error, "a sync of ClusterAccesses failed"),
            },
            () = sleep_until(next) => {}
        }
        controller.begin(&mut under_way);
    }
}

/// The result of one task.
enum Done {
    Host(Working, host::Objects, Result<host::Synced, String>),
    /// With the grants that were synced.
    Member(Working, ClusterName, Arc<Grants>, member::Outcome),
    /// Whether a status could not be written.
    Statuses(Working, bool),
}

struct Controller {
    context: Context,
    queue: WorkQueue,
    fleet: Arc<Fleet>,
    registry: Registry,
    accesses: BTreeMap<String, Arc<ClusterAccess>>,
    /// The names of `accesses`. Nothing is removed before these and all members are read.
    listing: Listing<String>,
    /// The ClusterAccesses that were changed by a user. Their members are synced after any change.
    written: HashSet<String>,
    is_fleet_known: bool,
    /// Whether something changed since `wanted` was computed.
    stale: bool,
    wanted: Wanted,
    host: Turn,
    on_host: HostSide,
    members: HashMap<ClusterName, Member>,
    writes: Turn,
}

/// The state of a member between two syncs.
struct Member {
    grants: Arc<Grants>,
    states: States,
    turn: Turn,
}

impl Controller {
    fn new(context: Context) -> Self {
        Self {
            queue: context.metrics.queue(NAME),
            context,
            fleet: Arc::default(),
            registry: Registry::default(),
            accesses: BTreeMap::new(),
            listing: Listing::default(),
            written: HashSet::new(),
            is_fleet_known: false,
            stale: true,
            wanted: Wanted::default(),
            host: Turn::now(),
            on_host: HostSide::default(),
            members: HashMap::new(),
            writes: Turn::now(),
        }
    }

    fn take(&mut self, event: watcher::Result<watcher::Event<ClusterAccess>>) {
        let event = match event {
            Ok(event) => event,
            // An installation older than the sidecar does not have the CRD.
            Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 404 => {
                return debug!("the host serves no ClusterAccesses");
            }
            Err(error) => return warn!(%error, "cannot read the ClusterAccesses"),
        };
        match self.listing.take(event, ResourceExt::name_any) {
            Seen::There(access) => self.read(access),
            Seen::Gone(names) => {
                names.iter().for_each(|name| _ = self.accesses.remove(name));
                self.stale = true;
            }
        }
    }

    fn read(&mut self, access: ClusterAccess) {
        let name = access.name_any();
        let access = Arc::new(access);
        let before = self.accesses.insert(name.clone(), access.clone());
        let settings = |access: &ClusterAccess| {
            let ObjectMeta { labels, annotations, generation, uid, deletion_timestamp, .. } =
                access.metadata.clone();
            (labels, annotations, generation, uid, deletion_timestamp)
        };
        // The status is ignored, because it is written often.
        if before.is_none_or(|before| settings(&before) != settings(&access)) {
            self.written.insert(name);
            self.stale = true;
        }
    }

    /// Processes a change of the fleet. The members' status is ignored.
    fn follow(&mut self, fleet: Arc<Fleet>) {
        let mut registry = Registry::default();
        for (name, registered) in fleet.iter() {
            if registered.is_of(&self.context.namespace) {
                let labels = registered.member.metadata.labels.clone().unwrap_or_default();
                registry.own.insert(name.clone(), labels);
            } else {
                registry.others.insert(name.clone());
            }
        }
        self.stale |= registry != self.registry;
        self.registry = registry;
        self.members.retain(|cluster, _| fleet.contains_key(cluster));
        for (cluster, registered) in fleet.iter() {
            let settings = |of: &Registered| (of.manager.is_some(), of.member.service_accounts());
            let before = self.fleet.get(cluster).map(settings);
            let member = self.members.entry(cluster.clone()).or_insert_with(|| Member {
                grants: Arc::default(),
                states: States::new(),
                turn: Turn::now(),
            });
            if before != Some(settings(registered)) {
                member.turn.hurry(Instant::now());
            }
        }
        self.fleet = fleet;
    }

    /// The time of the next due work. While the maximum number of syncs is running, members are not
    /// considered: the end of a sync wakes the controller.
    fn next(&self, under_way: usize) -> Instant {
        if !(self.listing.is_complete() && self.is_fleet_known) {
            return Instant::now() + LONG;
        }
        let members = self.members.values().filter(|_| under_way < MAX_UNDER_WAY).map(|member| &member.turn);
        let turns = members.chain([&self.host, &self.writes]);
        let next = turns.filter_map(Turn::next).min();
        let end = self.wanted.next_end.map(|end| {
            let left = end.duration_since(Timestamp::now());
            // The clock may be changed during the wait.
            Instant::now() + Duration::try_from(left).unwrap_or_default().min(CLOCK_CHECK)
        });
        next.into_iter().chain(end).min().unwrap_or_else(|| Instant::now() + LONG)
    }

    /// Recomputes the desired state if necessary, and starts the due syncs.
    fn begin(&mut self, under_way: &mut JoinSet<Done>) {
        if !(self.listing.is_complete() && self.is_fleet_known) {
            return;
        }
        self.stale |= self.wanted.next_end.is_some_and(|end| end <= Timestamp::now());
        if std::mem::take(&mut self.stale) {
            self.work_out();
        }
        let now = Instant::now();
        let resync = self.context.settings.member_resync_period;
        if self.host.is_due(now) {
            let work = self.host.begin(retry::jittered(resync), &self.queue).begin();
            let (client, wanted) = (self.context.host.clone(), self.wanted.host.clone());
            let namespace = self.context.namespace.clone();
            under_way.spawn(async move {
                let synced = match timeout(TIMEOUT, host::sync(&client, &namespace, &wanted)).await {
                    Ok(synced) => synced.map_err(|error| kube_error::message(&error)),
                    Err(_) => Err("the host did not answer in time".to_owned()),
                };
                Done::Host(work, wanted, synced)
            });
        }
        // Members that have been due for the longest time come first, so unresponsive members do not starve
        // others.
        let mut due: Vec<_> = self.members.iter_mut().filter(|(_, member)| member.turn.is_due(now)).collect();
        due.sort_by_key(|(_, member)| member.turn.due());
        for (cluster, member) in due {
            if under_way.len() >= MAX_UNDER_WAY {
                member.turn.wait(&self.queue);
                continue;
            }
            let work = member.turn.begin(retry::jittered(resync), &self.queue).begin();
            let registered = self.fleet.get(cluster);
            let accounts = registered.map(|registered| registered.member.service_accounts());
            let manager = registered.and_then(|registered| registered.manager.clone());
            let (Some(accounts), Some(manager)) = (accounts, manager) else {
                let message = format!("there is no Secret {}", cluster.manager_secret());
                let state = State::unknown("NoManager", message);
                member.states = member.grants.keys().map(|access| (access.clone(), state.clone())).collect();
                member.turn.done(false);
                work.done(false);
                self.writes.hurry(now + WRITE_DELAY);
                continue;
            };
            let (cluster, grants) = (cluster.clone(), member.grants.clone());
            let tunnels = self.context.tunnels.clone();
            under_way.spawn(async move {
                let outcome = member::sync(&cluster, &manager, &grants, accounts, &tunnels).await;
                Done::Member(work, cluster, grants, outcome)
            });
        }
        if self.writes.is_due(now) {
            let work = self.writes.begin(LONG, &self.queue).begin();
            let states = self.members.iter().map(|(cluster, member)| (cluster, &member.states));
            let statuses =
                Statuses::new(&self.accesses, &self.wanted, states, &self.on_host, &self.context.namespace);
            let changed = statuses.changed(&self.accesses);
            let host = self.context.host.clone();
            under_way.spawn(async move {
                let failed = timeout(TIMEOUT, changed.write(&host)).await;
                Done::Statuses(work, failed.map_or(true, |failed| !failed.is_empty()))
            });
        }
    }

    fn work_out(&mut self) {
        let wanted =
            Wanted::new(self.accesses.values(), &self.registry, &self.context.namespace, Timestamp::now());
        let written = std::mem::take(&mut self.written);
        let now = Instant::now();
        if wanted.host != self.wanted.host || !written.is_empty() {
            self.host.hurry(now);
        }
        for (cluster, member) in &mut self.members {
            let grants = wanted.members.get(cluster).cloned().unwrap_or_default();
            if *member.grants != grants {
                // The state of a changed grant is outdated.
                member.states.retain(|access, _| grants.get(access) == member.grants.get(access));
                member.grants = Arc::new(grants);
                member.turn.hurry(now);
            } else if grants.keys().any(|access| written.contains(access)) {
                member.turn.hurry(now);
            }
        }
        self.wanted = wanted;
        self.writes.hurry(now + WRITE_DELAY);
    }

    fn done(&mut self, done: Done) {
        let now = Instant::now();
        match done {
            Done::Host(work, written, Ok(host::Synced { failures, left })) => {
                for (object, error) in &left {
                    warn!(object, error, "cannot delete an RBAC object of a ClusterAccess on the host");
                }
                for (access, error) in &failures {
                    warn!(access, error, "cannot write the host's RBAC objects of a ClusterAccess");
                }
                let retry = !(failures.is_empty() && left.is_empty());
                self.host.done(retry);
                work.done(retry);
                self.on_host = HostSide { written, failures };
            }
            Done::Host(work, _, Err(error)) => {
                warn!(error, "cannot keep the host's RBAC objects of ClusterAccesses");
                let all = self.wanted.host.keys().map(|access| (access.clone(), error.clone()));
                self.on_host.failures = all.collect();
                self.host.done(true);
                work.done(true);
            }
            Done::Member(work, cluster, used, member::Outcome { states, retry }) => {
                let Some(member) = self.members.get_mut(&cluster) else { return };
                // The state of a grant that changed during the sync is outdated.
                let grants = member.grants.clone();
                let is_of_now = |access: &String| used.get(access) == grants.get(access);
                member.states = states.into_iter().filter(|(access, _)| is_of_now(access)).collect();
                member.turn.done(retry);
                work.done(retry);
            }
            Done::Statuses(work, failed) => {
                self.writes.done(failed);
                work.done(failed);
                return;
            }
        }
        self.writes.hurry(now + WRITE_DELAY);
    }
}

/// The name in `--controllers`.
const NAME: &str = "cluster-access";
/// The maximum number of concurrent syncs.
const MAX_UNDER_WAY: usize = 32;
/// The timeout of a sync of the host and of writing the statuses.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Changes within this time are combined in one write.
const WRITE_DELAY: Duration = Duration::from_millis(300);
const CLOCK_CHECK: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;
