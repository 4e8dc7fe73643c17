//! Whether members can be reached, and what they say of themselves: condition `Reachable`, `version` and
//! `lastSeen`. Each member is asked every `--member-monitor-period`, by the same way as callers'
//! requests go, whether or not it has a credential yet. Nothing is refused because of what is found,
//! except that the breaker hears of it.
//!
//! One failure of a member that was up is none, and so is one answer of a member that was down: the
//! condition changes after [`DOWN`] and [`UP`] of them. The first result counts at once.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kubectl_mc_api::names::ENROLLMENT_UNTIL;
use kubectl_mc_api::{ClusterName, Origin};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::Context;
use super::conditions::{Aspect, Finding};
use super::work_queue::WorkQueue;
use crate::members::inventory::fleet::{Fleet, Registered};
use crate::random;
use crate::tunnel::registry::AgentTunnels;
use crate::upstream::Upstream;
use crate::upstream::connection::Connection;

pub mod probe;

use probe::{Probe, Verdict};

/// Follows the members.
pub(super) async fn run(context: Context) {
    let mut fleet = context.fleet.clone();
    fleet.mark_changed();
    let mut monitor = Monitor {
        turns: Arc::new(Semaphore::new(MAX_UNDER_WAY)),
        monitored: HashMap::new(),
        spread: true,
        queue: context.metrics.queue("health"),
        context,
    };
    while fleet.changed().await.is_ok() {
        let told = fleet.borrow_and_update().clone();
        monitor.follow(&told);
    }
}

struct Monitor {
    context: Context,
    queue: WorkQueue,
    turns: Arc<Semaphore>,
    monitored: HashMap<ClusterName, Monitored>,
    /// Members that are there at the beginning are not all asked at once.
    spread: bool,
}

/// A member that is asked. Dropping it ends that.
struct Monitored {
    member_uid: Option<String>,
    target: ProbeTarget,
    _task: Option<AbortOnDropHandle<()>>,
}

/// What is asked. As long as it is the same, nothing begins anew.
enum ProbeTarget {
    /// A member that requests can be sent to.
    Upstream(Arc<Upstream>),
    /// One without a credential, or with a Secret that cannot be used.
    Unusable(Arc<Secret>),
    /// One of which is not known how it is reached, and why.
    Unconnected(Origin, Arc<str>),
}

impl Monitor {
    fn follow(&mut self, fleet: &Fleet) {
        let metrics = &self.context.metrics;
        self.monitored.retain(|cluster, _| {
            fleet.contains_key(cluster) || {
                metrics.not_asked(cluster);
                self.context.forget_verdict(cluster);
                false
            }
        });
        let spread = self.spread && fleet.len() > MAX_UNDER_WAY;
        self.spread &= fleet.is_empty();
        for (cluster, registered) in fleet {
            let (member_uid, target) = (registered.member.uid(), ProbeTarget::of(registered));
            let before = self.monitored.get(cluster);
            let is_other = before.is_some_and(|before| before.member_uid != member_uid);
            if !is_other && before.is_some_and(|before| before.target.is_same(&target)) {
                continue;
            }
            // What it thought of the credential before stands until it is asked again, unless it is gone.
            if is_other || !matches!(target, ProbeTarget::Upstream(_)) {
                self.context.forget_verdict(cluster);
            }
            let task = self.monitor(cluster, &target, spread);
            self.monitored.insert(cluster.clone(), Monitored { member_uid, target, _task: task });
        }
    }

    fn monitor(
        &self,
        cluster: &ClusterName,
        target: &ProbeTarget,
        spread: bool,
    ) -> Option<AbortOnDropHandle<()>> {
        let upstream = match target.upstream(cluster, &self.context.tunnels) {
            Ok(upstream) => upstream,
            Err(finding) => {
                self.context.metrics.not_asked(cluster);
                self.context.conditions.set(cluster, Aspect::Reachable, finding);
                return None;
            }
        };
        let asked = Asked {
            context: self.context.clone(),
            queue: self.queue.clone(),
            cluster: cluster.clone(),
            upstream,
            turns: self.turns.clone(),
        };
        Some(AbortOnDropHandle::new(tokio::spawn(asked.run_with_restarts(spread))))
    }
}

impl ProbeTarget {
    fn of(registered: &Registered) -> Self {
        match (&registered.way, &registered.connection) {
            (Ok(cluster), _) => Self::Upstream(cluster.upstream.clone()),
            (Err(_), Some(secret)) => Self::Unusable(secret.clone()),
            (Err(why), None) => Self::Unconnected(registered.origin, why.clone()),
        }
    }

    /// Whether the Secret waits for the member's agent to enroll.
    fn enrolls(&self) -> bool {
        let Self::Unusable(secret) = self else { return false };
        secret.annotations().contains_key(ENROLLMENT_UNTIL)
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Upstream(one), Self::Upstream(other)) => Arc::ptr_eq(one, other),
            (Self::Unusable(one), Self::Unusable(other)) => one.data == other.data,
            (Self::Unconnected(_, one), Self::Unconnected(_, other)) => one == other,
            _ => false,
        }
    }

    /// How to ask the member, or why that is not known.
    fn upstream(&self, cluster: &ClusterName, tunnels: &Arc<AgentTunnels>) -> Result<Arc<Upstream>, Finding> {
        match self {
            Self::Upstream(upstream) => Ok(upstream.clone()),
            Self::Unusable(secret) => {
                let data = secret.data.clone().unwrap_or_default();
                let upstream = Connection::parse_any(&data).and_then(|connection| {
                    Upstream::new(cluster.clone(), connection, Gauge::default(), tunnels)
                });
                upstream.map(Arc::new).map_err(|error| {
                    if self.enrolls() {
                        let why = "how to reach the member is known once its agent has enrolled it";
                        return Finding::unknown("NotEnrolled", why);
                    }
                    let message = format!("Secret {} cannot be used: {error}", secret.name_any());
                    Finding::unknown("InvalidSecret", message)
                })
            }
            Self::Unconnected(Origin::MemberCluster, why) => Err(Finding::unknown("NoSecret", &**why)),
            Self::Unconnected(Origin::Karmada | Origin::KubeAdmiral, why) => {
                Err(Finding::unknown("NoConnection", &**why))
            }
        }
    }
}

/// A member and how it is asked.
struct Asked {
    context: Context,
    queue: WorkQueue,
    cluster: ClusterName,
    upstream: Arc<Upstream>,
    turns: Arc<Semaphore>,
}

impl Asked {
    async fn run_with_restarts(self, spread: bool) {
        let period = self.context.settings.member_monitor_period;
        if spread {
            sleep(period.mul_f64(random::fraction())).await;
        }
        let (mut reachable, mut accepted) = (Steady::new(DOWN, UP), Steady::new(REFUSED, 1));
        loop {
            let queued = self.queue.add(Instant::now());
            let Ok(turn) = self.turns.acquire().await else { return };
            let work = queued.begin();
            // In a box, so that what a probe needs is not kept for every member between two.
            let probe = Box::pin(probe::probe(&self.upstream)).await;
            drop(turn);
            work.done(false);
            self.tell(&probe, &mut reachable, &mut accepted);
            // So that those who are asked together do not stay together.
            sleep(period.mul_f64(JITTER.mul_add(random::fraction() - 0.5, 1.0))).await;
        }
    }

    fn tell(&self, probe: &Probe, reachable: &mut Steady, accepted: &mut Steady) {
        let Self { context, cluster, .. } = self;
        if reachable.takes(probe.is_up()) {
            context.conditions.set(cluster, Aspect::Reachable, probe.finding());
            context.metrics.reachable(cluster, probe.is_up());
        }
        if probe.is_answer() {
            context.conditions.seen(cluster, probe.version.clone());
        }
        if let Some(verdict) = &probe.verdict
            && accepted.takes(*verdict == Verdict::Accepted)
        {
            context.verdicts.send_if_modified(|verdicts| {
                let before = verdicts.insert(cluster.clone(), verdict.clone());
                before.as_ref() != Some(verdict)
            });
        }
    }
}

/// What has to be so a few times before it counts, once it was otherwise.
#[derive(Debug)]
struct Steady {
    /// How it is, if that is known.
    good: Option<bool>,
    /// How often in a row it was otherwise.
    against: u32,
    /// As often it must be bad to count as bad, and good to count as good.
    down: u32,
    up: u32,
}

impl Steady {
    fn new(down: u32, up: u32) -> Self {
        Self { good: None, against: 0, down, up }
    }

    /// Whether a result counts.
    fn takes(&mut self, good: bool) -> bool {
        if self.good.is_none_or(|now| now == good) {
            self.against = 0;
        } else {
            self.against += 1;
            if self.against < if good { self.up } else { self.down } {
                return false;
            }
            self.against = 0;
        }
        self.good = Some(good);
        true
    }
}

/// Results in a row.
const DOWN: u32 = 3;
const UP: u32 = 2;
/// A member that is starting may refuse a good credential for a moment.
const REFUSED: u32 = 2;
/// Of the period.
const JITTER: f64 = 0.2;
/// Members that are asked at the same time.
const MAX_UNDER_WAY: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::tests::{context, upstream};

    /// There is one such task for each member.
    #[tokio::test]
    async fn what_a_probe_needs_is_there_only_while_it_probes() {
        let (_told, context) = context();
        let (upstream, cluster) = (upstream(), "m1".parse().unwrap());
        let probing = size_of_val(&probe::probe(&upstream));
        let (queue, turns) = (context.metrics.queue("health"), Arc::new(Semaphore::new(1)));
        let asked = Asked { context, queue, cluster, upstream, turns };
        let waiting = size_of_val(&asked.run_with_restarts(true));
        assert!(waiting < 1024 && waiting < probing, "{waiting} bytes, and {probing} for a probe");
    }

    #[test]
    fn the_first_result_counts_and_a_change_must_last() {
        let mut steady = Steady::new(3, 2);
        assert!(steady.takes(true));
        for (good, counts) in [
            (false, false),
            (false, false),
            // It was back before it was gone.
            (true, true),
            (false, false),
            (false, false),
            (false, true),
            (false, true),
            (true, false),
            (false, true),
            (true, false),
            (true, true),
        ] {
            assert_eq!(steady.takes(good), counts, "{steady:?}");
        }
    }

    #[test]
    fn a_first_failure_counts_at_once() {
        assert!(Steady::new(3, 2).takes(false));
    }
}
