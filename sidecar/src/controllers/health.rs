//! Probes members and reports condition `Reachable`, `version` and `lastSeen`. Each member is probed every
//! `--member-monitor-period` over the same connection as callers' requests, even without a credential.
//! A probe does not refuse requests by itself; only the circuit breaker, which receives its results, does.
//!
//! A single failed probe of a reachable member does not change the condition, and neither does a single
//! successful probe of an unreachable one: the condition changes after [`DOWN`] or [`UP`] results in a row.
//! The first result counts immediately.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kubectl_mc_api::names::ENROLLMENT_UNTIL;
use kubectl_mc_api::{ClusterName, Origin};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
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

/// Starts and stops the probes as members change.
pub(super) async fn run(context: Context) {
    let mut fleet = context.fleet.clone();
    fleet.mark_changed();
    let mut monitor = Monitor {
        turns: Arc::new(Turns::new(MAX_UNDER_WAY)),
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
    turns: Arc<Turns>,
    monitored: HashMap<ClusterName, Monitored>,
    /// Whether first probes are spread over an interval, as after a start.
    spread: bool,
}

/// A probed member. Dropping it stops the probes.
struct Monitored {
    member_uid: Option<String>,
    target: ProbeTarget,
    _task: Option<AbortOnDropHandle<()>>,
}

/// The target of the probes. As long as it is the same, the probes continue.
enum ProbeTarget {
    /// A member with a usable connection.
    Upstream(Arc<Upstream>),
    /// A member without a credential, or with an invalid Secret.
    Unusable(Arc<Secret>),
    /// A member without a known connection, and why.
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
            // The previous verdict stands until the next probe, unless the member or its connection is gone.
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

    /// The upstream to probe, or why there is none.
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

/// The probe task of one member.
struct Asked {
    context: Context,
    queue: WorkQueue,
    cluster: ClusterName,
    upstream: Arc<Upstream>,
    turns: Arc<Turns>,
}

/// Limits the concurrent probes. Members that do not answer have turns of their own: each of their probes lasts
/// until its timeout, and the others would be probed too rarely.
struct Turns {
    answering: Semaphore,
    silent: Semaphore,
}

impl Turns {
    fn new(each: usize) -> Self {
        Self { answering: Semaphore::new(each), silent: Semaphore::new(each) }
    }

    async fn take(&self, answers: bool) -> Result<SemaphorePermit<'_>, AcquireError> {
        if answers { &self.answering } else { &self.silent }.acquire().await
    }
}

impl Asked {
    async fn run_with_restarts(self, spread: bool) {
        let period = self.context.settings.member_monitor_period;
        if spread {
            sleep(period.mul_f64(random::fraction())).await;
        }
        let (mut reachable, mut accepted) = (Steady::new(DOWN, UP), Steady::new(REFUSED, 1));
        let mut answers = true;
        loop {
            let queued = self.queue.add(Instant::now());
            let Ok(turn) = self.turns.take(answers).await else { return };
            let work = queued.begin();
            // The boxed future is freed between probes, which saves memory for every member.
            let probe = Box::pin(probe::probe(&self.upstream)).await;
            drop(turn);
            work.done(false);
            answers = probe.is_answer();
            self.tell(&probe, &mut reachable, &mut accepted);
            // Jitter separates members that are probed at the same time.
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

/// A boolean state that changes only after several equal results in a row.
#[derive(Debug)]
struct Steady {
    /// The current state, if it is known.
    good: Option<bool>,
    /// The number of contrary results in a row.
    against: u32,
    /// The numbers of results in a row that change the state to bad and to good.
    down: u32,
    up: u32,
}

impl Steady {
    fn new(down: u32, up: u32) -> Self {
        Self { good: None, against: 0, down, up }
    }

    /// Takes a result, and returns whether it is now the current state.
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

/// The numbers of results in a row that change condition `Reachable`.
const DOWN: u32 = 3;
const UP: u32 = 2;
/// The number of refusals in a row that count: a starting member may briefly refuse a valid credential.
const REFUSED: u32 = 2;
/// The jitter, as a fraction of the interval.
const JITTER: f64 = 0.2;
/// The maximum number of concurrent probes of members that answer, and of those that do not.
const MAX_UNDER_WAY: usize = 32;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::controllers::tests::{context, upstream};

    /// Every member has one such task.
    #[tokio::test]
    async fn probe_memory_is_freed_between_probes() {
        let (_told, context) = context();
        let (upstream, cluster) = (upstream(), "m1".parse().unwrap());
        let probing = size_of_val(&probe::probe(&upstream));
        let (queue, turns) = (context.metrics.queue("health"), Arc::new(Turns::new(1)));
        let asked = Asked { context, queue, cluster, upstream, turns };
        let waiting = size_of_val(&asked.run_with_restarts(true));
        assert!(waiting < 1024 && waiting < probing, "{waiting} bytes, and {probing} for a probe");
    }

    /// Hundreds of members that do not answer would delay the probes of the others.
    #[tokio::test(start_paused = true)]
    async fn member_that_does_not_answer_takes_no_turn_of_the_others() {
        let (_told, context) = context();
        let (queue, turns) = (context.metrics.queue("health"), Arc::new(Turns::new(1)));
        let _others = turns.take(false).await.unwrap();
        let (upstream, cluster) = (upstream(), "m1".parse().unwrap());
        let asked = Asked { context, queue: queue.clone(), cluster, upstream, turns: turns.clone() };
        let (hour, mut probing) = (Duration::from_secs(3600), pin!(asked.run_with_restarts(false)));
        assert!(timeout(hour, &mut probing).await.is_err());
        assert_eq!(queue.depth(), 1, "it waits after its first probe");
        assert_eq!(turns.answering.available_permits(), 1);
    }

    #[test]
    fn state_changes_only_after_several_results_in_a_row() {
        let mut steady = Steady::new(3, 2);
        assert!(steady.takes(true));
        for (good, counts) in [
            (false, false),
            (false, false),
            // It recovered before the third failure.
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
    fn first_failure_counts_immediately() {
        assert!(Steady::new(3, 2).takes(false));
    }
}
