//! What is known of each member, as its status: the one place that writes it. Controllers tell what
//! they find; it is written when it differs from what is there, and never for a time alone, but for
//! `lastSeen` every [`SEEN_INTERVAL`]. A condition that changes is told by an Event as well.
//!
//! What is found at nearly the same time is one write, and the first status of a member waits until all is
//! known: with hundreds of them the host is written to once for each.
//!
//! `Ready` follows from the others ([`status`]). The members of another sidecar of this host, which has
//! their Secrets in its own namespace, are left to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kubectl_mc_api::{ClusterName, MemberCluster, MemberClusterStatus};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use super::events::Events;
use crate::members::inventory::fleet::{Fleet, Registered};
use crate::random;

pub mod status;
mod waiting;

use status::Known;
pub use status::{Aspect, Finding};
use waiting::Waiting;

/// Takes what controllers find.
#[derive(Clone, Debug)]
pub struct Conditions(mpsc::UnboundedSender<(ClusterName, Report)>);

#[derive(Debug)]
enum Report {
    Found(Aspect, Finding),
    Seen { at: Timestamp, version: Option<String> },
}

impl Conditions {
    /// The other half runs as long as this replica leads.
    pub fn new(
        host: kube::Client,
        namespace: &str,
        fleet: watch::Receiver<Arc<Fleet>>,
        awaited: Awaited,
    ) -> (Self, Writer) {
        let (reports, reported) = mpsc::unbounded_channel();
        let writer = Writer {
            events: Events::new(host.clone()),
            members: Api::all(host),
            namespace: namespace.to_owned(),
            fleet,
            reported,
            awaited,
            known: HashMap::new(),
            waiting: Waiting::default(),
            told: Arc::default(),
        };
        (Self(reports), writer)
    }

    /// Tells how one aspect of a member is now. Telling the same again costs nothing.
    pub fn set(&self, cluster: &ClusterName, aspect: Aspect, finding: Finding) {
        self.send(cluster, Report::Found(aspect, finding));
    }

    /// Tells that a member answered, and its version if it said so.
    pub fn seen(&self, cluster: &ClusterName, version: Option<String>) {
        self.send(cluster, Report::Seen { at: Timestamp::now(), version });
    }

    fn send(&self, cluster: &ClusterName, report: Report) {
        // A writer that is gone means that this replica leads no more.
        let _ = self.0.send((cluster.clone(), report));
    }
}

/// What the first status of a member waits for.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// What the controllers that run will tell.
    pub aspects: Arc<[Aspect]>,
    /// No longer than this.
    pub patience: Duration,
}

/// Writes members' statuses.
pub struct Writer {
    members: Api<MemberCluster>,
    events: Events,
    namespace: String,
    fleet: watch::Receiver<Arc<Fleet>>,
    reported: mpsc::UnboundedReceiver<(ClusterName, Report)>,
    awaited: Awaited,
    known: HashMap<ClusterName, Known>,
    /// Those whose status may differ from what is known.
    waiting: Waiting,
    /// What the host said when it was looked at last.
    told: Arc<Fleet>,
}

impl Writer {
    /// Writes until it is dropped.
    pub async fn run(mut self) {
        self.follow();
        loop {
            let next = self.waiting.next();
            tokio::select! {
                report = self.reported.recv() => match report {
                    Some(report) => self.take(report),
                    None => return,
                },
                changed = self.fleet.changed() => match changed {
                    Ok(()) => self.follow(),
                    Err(_) => return,
                },
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
            while let Ok(report) = self.reported.try_recv() {
                self.take(report);
            }
            let due = self.waiting.due(Instant::now());
            let due: Vec<_> = due.into_iter().filter_map(|cluster| self.due(cluster)).collect();
            let writes = due.into_iter().map(|due| self.write(due));
            let written: Vec<_> = stream::iter(writes).buffer_unordered(MAX_UNDER_WAY).collect().await;
            for cluster in written.into_iter().filter_map(Result::err) {
                self.waiting.until(Instant::now() + PAUSE, cluster);
            }
        }
    }

    fn take(&mut self, (cluster, report): (ClusterName, Report)) {
        let known = self.known.entry(cluster.clone()).or_insert_with(|| Known::new(random::fraction()));
        match report {
            Report::Found(aspect, finding) => known.found(aspect, finding),
            Report::Seen { at, version } => known.seen(at, version),
        }
        self.look_at(cluster);
    }

    /// Looks at what the host says now.
    fn follow(&mut self) {
        let fleet = self.fleet.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.told, fleet.clone());
        self.known.retain(|cluster, _| fleet.contains_key(cluster));
        for (cluster, registered) in fleet.iter() {
            let before = before.get(cluster);
            if before.is_some_and(|before| before.member.uid() != registered.member.uid()) {
                self.known.remove(cluster);
            }
            if !before.is_some_and(|before| before.is_same(registered)) {
                self.look_at(cluster.clone());
            }
        }
    }

    /// Has a member looked at in a moment, so that what comes together is written together; and one that has no
    /// status yet when all is known.
    fn look_at(&mut self, cluster: ClusterName) {
        let status = self.told.get(&cluster).map(|registered| &registered.member.status);
        let is_new =
            status.is_none_or(|status| status.as_ref().is_none_or(|status| status.conditions.is_empty()));
        let known = self.known.get(&cluster);
        let is_whole = known.is_some_and(|known| known.is_whole(&self.awaited.aspects));
        let pause = if is_new && !is_whole { self.awaited.patience } else { MOMENT };
        self.waiting.until(Instant::now() + pause, cluster);
    }

    /// The member, if its status is not what is known.
    fn due(&mut self, cluster: ClusterName) -> Option<Due> {
        let registered = self.told.get(&cluster)?.clone();
        let known = self.known.get_mut(&cluster)?;
        known.settle(&self.namespace, &registered);
        let known = known.clone();
        known.status(&self.namespace, &registered, &registered.member, Timestamp::now())?;
        Some(Due { cluster, registered, known })
    }

    /// Writes a status over the one that it was made from, and over no other.
    async fn write(&self, due: Due) -> Result<(), ClusterName> {
        let Due { cluster, mut registered, mut known } = due;
        for _ in 0..ATTEMPTS {
            let member = registered.member.clone();
            let Some(status) = known.status(&self.namespace, &registered, &member, Timestamp::now()) else {
                return Ok(());
            };
            match timeout(TIMEOUT, self.patch(&member, &status)).await {
                Ok(Ok(_)) => {
                    self.events.changed(&member, &status, &known).await;
                    return Ok(());
                }
                // Somebody wrote meanwhile: the labels, say, or that the member is another sidecar's.
                Ok(Err(kube::Error::Api(error))) if error.code == 409 => {
                    match timeout(TIMEOUT, self.members.get_opt(cluster.as_str())).await {
                        Ok(Ok(Some(now))) if now.uid() == member.uid() => {
                            registered.member = Arc::new(now);
                            known.settle(&self.namespace, &registered);
                        }
                        Ok(Ok(_)) => return Ok(()),
                        Ok(Err(_)) | Err(_) => break,
                    }
                }
                Ok(Err(kube::Error::Api(error))) if error.code == 404 => return Ok(()),
                Ok(Err(error)) => {
                    warn!(%cluster, error = %error, "cannot write the member's status");
                    break;
                }
                Err(_) => {
                    info!(%cluster, "writing the member's status timed out");
                    break;
                }
            }
        }
        Err(cluster)
    }

    async fn patch(
        &self,
        member: &MemberCluster,
        status: &MemberClusterStatus,
    ) -> Result<MemberCluster, kube::Error> {
        let MemberClusterStatus { namespace, server, version, uid, last_seen, conditions } = status;
        // A null takes the field away.
        let patch = json!({
            "metadata": {"uid": member.uid(), "resourceVersion": member.resource_version()},
            "status": {
                "namespace": namespace, "server": server, "version": version, "uid": uid,
                "lastSeen": last_seen, "conditions": conditions,
            },
        });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.members.patch_status(&member.name_any(), &params, &Patch::Merge(patch)).await
    }
}

/// A member that is to be written.
struct Due {
    cluster: ClusterName,
    registered: Registered,
    known: Known,
}

/// The sidecar's, whatever it writes.
pub const FIELD_MANAGER: &str = kubectl_mc_api::names::SIDECAR;
/// As often a member is said to have been seen, at most.
pub const SEEN_INTERVAL: Duration = Duration::from_secs(300);
/// For what follows from one answer of a member, found by several controllers.
const MOMENT: Duration = Duration::from_millis(100);
/// At a start every member is written at once.
const MAX_UNDER_WAY: usize = 8;
const ATTEMPTS: usize = 3;
/// Before what could not be written is tried again.
const PAUSE: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
