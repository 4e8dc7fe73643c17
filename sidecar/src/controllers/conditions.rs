//! Writes the status of each MemberCluster; no other code does this. Controllers report findings,
//! and a status is written when it differs from the current one. If only a time has changed,
//! nothing is written, except `lastSeen` every [`kubectl_mc_api::SEEN_INTERVAL`]. A changed
//! condition also creates an Event.
//!
//! Findings within a short time are combined in one write. The first status of a member waits until all
//! controllers have reported, so hundreds of new members need only one write each.
//!
//! `Ready` is derived from the other conditions ([`status`]). The status of members whose Secrets
//! are in the namespace of another sidecar on this host is not written.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kubectl_mc_api::names::SIDECAR;
use kubectl_mc_api::{ClusterName, MemberCluster, MemberClusterStatus};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use super::events::Events;
use crate::base::random;
use crate::members::inventory::fleet::{Fleet, Registered};

pub mod status;
mod waiting;

use status::Known;
pub use status::{Aspect, Finding};
use waiting::Waiting;

/// Receives the findings of controllers.
#[derive(Clone, Debug)]
pub struct Conditions(mpsc::UnboundedSender<(ClusterName, Report)>);

#[derive(Debug)]
enum Report {
    Found(Aspect, Finding),
    Seen { at: Timestamp, version: Option<String> },
}

impl Conditions {
    /// The writer must run as long as this replica leads.
    pub fn new(
        host: kube::Client,
        namespace: &str,
        fleet: watch::Receiver<Arc<Fleet>>,
        awaited: Awaited,
    ) -> (Self, Writer) {
        let (reports, reported) = mpsc::unbounded_channel();
        let writer = Writer {
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

    /// Reports one aspect of a member. Repeated equal findings cause no write.
    pub fn set(&self, cluster: &ClusterName, aspect: Aspect, finding: Finding) {
        self.send(cluster, Report::Found(aspect, finding));
    }

    /// Reports that a member has answered, and its version if it is known.
    pub fn seen(&self, cluster: &ClusterName, version: Option<String>) {
        self.send(cluster, Report::Seen { at: Timestamp::now(), version });
    }

    fn send(&self, cluster: &ClusterName, report: Report) {
        // The writer is dropped when this replica loses leadership.
        let _ = self.0.send((cluster.clone(), report));
    }
}

/// The findings for which the first status of a member waits.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// The aspects that the enabled controllers report.
    pub aspects: Arc<[Aspect]>,
    /// The longest wait.
    pub patience: Duration,
}

/// Writes members' statuses.
pub struct Writer {
    members: Api<MemberCluster>,
    namespace: String,
    fleet: watch::Receiver<Arc<Fleet>>,
    reported: mpsc::UnboundedReceiver<(ClusterName, Report)>,
    awaited: Awaited,
    known: HashMap<ClusterName, Known>,
    /// The members whose status may differ from the findings.
    waiting: Waiting,
    /// The last observed fleet.
    told: Arc<Fleet>,
}

impl Writer {
    /// Writes until it is dropped.
    pub async fn run(mut self) {
        let events = Events::start(self.members.clone().into_client());
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
            // This comes before the reports, because it removes those of a replaced member.
            if self.fleet.has_changed().is_ok_and(|changed| changed) {
                self.follow();
            }
            while let Ok(report) = self.reported.try_recv() {
                self.take(report);
            }
            let due = self.waiting.due(Instant::now());
            let due: Vec<_> = due.into_iter().filter_map(|cluster| self.due(cluster)).collect();
            let writes = due.into_iter().map(|due| self.write(due, &events));
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

    /// Processes a change of the fleet.
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

    /// Schedules a check of a member. A short delay combines findings in one write. A member without a status
    /// waits until all controllers have reported.
    fn look_at(&mut self, cluster: ClusterName) {
        let status = self.told.get(&cluster).map(|registered| &registered.member.status);
        let is_new =
            status.is_none_or(|status| status.as_ref().is_none_or(|status| status.conditions.is_empty()));
        let known = self.known.get(&cluster);
        let is_whole = known.is_some_and(|known| known.is_whole(&self.awaited.aspects));
        let pause = if is_new && !is_whole { self.awaited.patience } else { MOMENT };
        self.waiting.until(Instant::now() + pause, cluster);
    }

    /// The member, if its status differs from the findings.
    fn due(&mut self, cluster: ClusterName) -> Option<Due> {
        let registered = self.told.get(&cluster)?.clone();
        let known = self.known.get_mut(&cluster)?;
        known.settle(&self.namespace, &registered);
        let known = known.clone();
        known.status(&self.namespace, &registered, &registered.member, Timestamp::now())?;
        Some(Due { cluster, registered, known })
    }

    /// Writes a status with the resource version that it was computed from.
    async fn write(&self, due: Due, events: &Events) -> Result<(), ClusterName> {
        let Due { cluster, mut registered, mut known } = due;
        for _ in 0..ATTEMPTS {
            let member = registered.member.clone();
            let Some(status) = known.status(&self.namespace, &registered, &member, Timestamp::now()) else {
                return Ok(());
            };
            match timeout(TIMEOUT, self.patch(&member, &status)).await {
                Ok(Ok(_)) => {
                    events.changed(&member, &status, &known);
                    return Ok(());
                }
                // The object has changed, such as its labels or the sidecar that owns the member.
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
        // A null removes the field.
        let patch = json!({
            "metadata": {"uid": member.uid(), "resourceVersion": member.resource_version()},
            "status": {
                "namespace": namespace, "server": server, "version": version, "uid": uid,
                "lastSeen": last_seen, "conditions": conditions,
            },
        });
        let params = PatchParams::apply(SIDECAR);
        self.members.patch_status(&member.name_any(), &params, &Patch::Merge(patch)).await
    }
}

/// A member whose status is to be written.
struct Due {
    cluster: ClusterName,
    registered: Registered,
    known: Known,
}

/// The delay that combines findings of several controllers from one response of a member.
const MOMENT: Duration = Duration::from_millis(100);
/// The maximum number of concurrent writes; after a start, every member may be due.
const MAX_UNDER_WAY: usize = 8;
const ATTEMPTS: usize = 3;
/// The delay before a failed write is retried.
const PAUSE: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
