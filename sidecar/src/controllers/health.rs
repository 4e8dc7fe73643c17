//! Probes members and reports condition `Reachable`, `version` and `lastSeen`. Each member is probed every
//! `--member-monitor-period` over the same connection as callers' requests, even without a credential.
//! A probe does not refuse requests by itself; only the circuit breaker, which receives its results, does.
//!
//! A single failed probe of a reachable member does not change the condition, and neither does a single
//! successful probe of an unreachable one: the condition changes after [`DOWN`] or [`UP`] results in a row.
//! The first result counts immediately. A renewed credential is probed at once, and does not reset the counts
//! of condition `Reachable`: one lost probe after a renewal still counts as one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kubectl_mc_api::names::ENROLLMENT_UNTIL;
use kubectl_mc_api::{ClusterName, Origin};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::conditions::{Aspect, Finding};
use super::context::Context;
use super::work_queue::WorkQueue;
use crate::base::random;
use crate::members::cluster::Cluster;
use crate::members::inventory::fleet::{Fleet, Registered};
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::outbound::upstream::Upstream;
use crate::outbound::upstream::connection::Connection;

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
        context: Arc::new(context),
    };
    while fleet.changed().await.is_ok() {
        let told = fleet.borrow_and_update().clone();
        monitor.follow(&told);
    }
}

struct Monitor {
    context: Arc<Context>,
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
    probes: Option<Probes>,
}

/// The running probes of a member.
struct Probes {
    upstream: watch::Sender<Arc<Upstream>>,
    _task: AbortOnDropHandle<()>,
}

/// The target of the probes. As long as it is the same, the probes continue.
enum ProbeTarget {
    /// A member with a usable connection.
    Upstream(Arc<Cluster>),
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
            let before = self.monitored.get_mut(cluster);
            let is_other = before.as_ref().is_some_and(|before| before.member_uid != member_uid);
            if let Some(before) = before.filter(|_| !is_other) {
                if before.target.is_same(&target) {
                    continue;
                }
                if let Some(probes) = &before.probes
                    && let Some(upstream) = before.target.renewed(&target)
                {
                    probes.upstream.send_replace(upstream);
                    before.target = target;
                    continue;
                }
            }
            // The previous verdict stands until the next probe, unless the member or its connection is gone.
            if is_other || !matches!(target, ProbeTarget::Upstream(_)) {
                self.context.forget_verdict(cluster);
            }
            let probes = self.monitor(cluster, &target, spread);
            self.monitored.insert(cluster.clone(), Monitored { member_uid, target, probes });
        }
    }

    fn monitor(&self, cluster: &ClusterName, target: &ProbeTarget, spread: bool) -> Option<Probes> {
        let upstream = match target.upstream(cluster, &self.context.tunnels) {
            Ok(upstream) => upstream,
            Err(finding) => {
                self.context.metrics.not_asked(cluster);
                self.context.conditions.set(cluster, Aspect::Reachable, finding);
                return None;
            }
        };
        let (upstream, renewals) = watch::channel(upstream);
        let asked = Asked {
            context: self.context.clone(),
            queue: self.queue.clone(),
            cluster: cluster.clone(),
            upstream: renewals,
            turns: self.turns.clone(),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(asked.run_with_restarts(spread)));
        Some(Probes { upstream, _task: task })
    }
}

impl ProbeTarget {
    fn of(registered: &Registered) -> Self {
        match (&registered.way, &registered.connection) {
            (Ok(cluster), _) => Self::Upstream(cluster.clone()),
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
            (Self::Upstream(one), Self::Upstream(other)) => Arc::ptr_eq(&one.upstream, &other.upstream),
            (Self::Unusable(one), Self::Unusable(other)) => one.data == other.data,
            (Self::Unconnected(_, one), Self::Unconnected(_, other)) => one == other,
            _ => false,
        }
    }

    /// The upstream of `other` if only the credential differs. A connection to another server cancels `gone`.
    fn renewed(&self, other: &Self) -> Option<Arc<Upstream>> {
        match (self, other) {
            (Self::Upstream(before), Self::Upstream(after)) if !before.gone.is_cancelled() => {
                Some(after.upstream.clone())
            }
            _ => None,
        }
    }

    /// The upstream to probe, or why there is none.
    fn upstream(&self, cluster: &ClusterName, tunnels: &Arc<AgentTunnels>) -> Result<Arc<Upstream>, Finding> {
        match self {
            Self::Upstream(cluster) => Ok(cluster.upstream.clone()),
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
    context: Arc<Context>,
    queue: WorkQueue,
    cluster: ClusterName,
    /// The current upstream. Every version has the same destination.
    upstream: watch::Receiver<Arc<Upstream>>,
    turns: Arc<Turns>,
}

/// Limits the concurrent probes. Members that do not answer have separate turns: each of their
/// probes lasts until its timeout, and otherwise the others would be probed too rarely.
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
    async fn run_with_restarts(mut self, spread: bool) {
        let period = self.context.settings.member_monitor_period;
        let (mut reachable, mut accepted) = (Steady::new(DOWN, UP), Steady::new(REFUSED, 1));
        let mut answers = true;
        let mut pause = if spread { period.mul_f64(random::fraction()) } else { Duration::ZERO };
        loop {
            tokio::select! {
                () = sleep(pause) => {}
                renewed = self.upstream.changed() => match renewed {
                    Ok(()) => accepted = Steady::new(REFUSED, 1),
                    Err(_) => return,
                },
            }
            let queued = self.queue.add(Instant::now());
            let Ok(turn) = self.turns.take(answers).await else { return };
            let work = queued.begin();
            if self.upstream.has_changed().unwrap_or(false) {
                accepted = Steady::new(REFUSED, 1);
            }
            // The boxed future is freed between probes, which saves memory for every member.
            pause = match Box::pin(probe_current(&mut self.upstream)).await {
                Some(probe) => {
                    answers = probe.is_answer();
                    self.tell(&probe, &mut reachable, &mut accepted);
                    // Jitter separates members that are probed at the same time.
                    period.mul_f64(JITTER.mul_add(random::fraction() - 0.5, 1.0))
                }
                None => {
                    accepted = Steady::new(REFUSED, 1);
                    Duration::ZERO
                }
            };
            drop(turn);
            work.done(false);
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

/// Probes with the current credential. `None` if it is renewed in the meantime: a refusal of the
/// old one means nothing.
async fn probe_current(upstream: &mut watch::Receiver<Arc<Upstream>>) -> Option<Probe> {
    let current = upstream.borrow_and_update().clone();
    tokio::select! {
        probe = probe::probe(&current) => Some(probe),
        Ok(()) = upstream.changed() => None,
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
mod tests;
