//! Enrolls members. While a member's Secrets have no credential and their annotation opens the enrollment,
//! the leader requests the CA and the tokens from the member's agent and writes them to the Secrets.
//! Condition `CredentialValid` shows why an enrollment failed ([`Context::enrollments`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::enrollment::Enrollment;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};
use tracing::{info, warn};

use super::context::Context;
use super::turn::Turn;
use super::work_queue::WorkQueue;
use crate::members::inventory::fleet::Fleet;

mod answer;
mod attempt;

use attempt::{Attempt, Error};

/// Checks for members with an open enrollment.
pub(super) async fn run(context: Context) {
    let mut every = interval(INTERVAL);
    let mut enroller = Enroller {
        turns: Arc::new(Semaphore::new(MAX_UNDER_WAY)),
        queue: context.metrics.queue("enrollment"),
        context,
        waiting: HashMap::new(),
        under_way: JoinSet::new(),
    };
    loop {
        tokio::select! {
            _ = every.tick() => enroller.look().await,
            Some(ended) = enroller.under_way.join_next() => match ended {
                Ok((cluster, result)) => enroller.ended(&cluster, result),
                // The controller ends and is restarted with a new state.
                Err(error) => return warn!(error = %error, "an enrollment failed"),
            },
        }
    }
}

struct Enroller {
    context: Context,
    queue: WorkQueue,
    turns: Arc<Semaphore>,
    waiting: HashMap<ClusterName, Waiting>,
    under_way: JoinSet<(ClusterName, Result<(), Error>)>,
}

/// A member whose enrollment is open.
struct Waiting {
    until: Timestamp,
    turn: Turn,
}

impl Enroller {
    async fn look(&mut self) {
        let fleet = self.context.fleet.borrow().clone();
        self.follow(&fleet, Timestamp::now());
        let now = Instant::now();
        let due: Vec<_> = self
            .waiting
            .iter()
            .filter(|(_, one)| one.turn.is_due(now))
            .map(|(name, _)| name.clone())
            .collect();
        if due.is_empty() {
            return;
        }
        let tunnels = self.context.tunnels.clone();
        let elsewhere = tunnels.peers().tunnels().await;
        for cluster in due {
            let is_connected = tunnels.oldest(&cluster).is_some() || elsewhere.contains_key(&cluster);
            let waiting = self.waiting.get_mut(&cluster).filter(|_| is_connected);
            let Some((waiting, registered)) = waiting.zip(fleet.get(&cluster).cloned()) else { continue };
            let queued = waiting.turn.begin(LONGEST, &self.queue);
            let attempt = Attempt {
                cluster: cluster.clone(),
                registered,
                fleet: fleet.clone(),
                host: self.context.host.clone(),
                namespace: self.context.namespace.clone(),
                tunnels: tunnels.clone(),
            };
            let turns = self.turns.clone();
            self.under_way.spawn(async move {
                let _turn = turns.acquire().await;
                let work = queued.begin();
                let result = attempt.run().await;
                work.done(result.is_err());
                (cluster, result)
            });
        }
    }

    /// Updates the list of open enrollments.
    fn follow(&mut self, fleet: &Fleet, now: Timestamp) {
        let open: HashMap<_, _> = fleet
            .iter()
            .filter(|(_, registered)| registered.is_of(&self.context.namespace) && registered.is_via_agent())
            .filter_map(|(cluster, registered)| match registered.enrollment(now)? {
                Enrollment::Open(until) => Some((cluster.clone(), until)),
                Enrollment::Over(_) | Enrollment::Invalid => None,
            })
            .collect();
        self.waiting.retain(|cluster, _| open.contains_key(cluster));
        let mut reopened = Vec::new();
        for (cluster, until) in open {
            let waiting =
                self.waiting.entry(cluster.clone()).or_insert_with(|| Waiting { until, turn: Turn::now() });
            if waiting.until != until {
                *waiting = Waiting { until, turn: std::mem::replace(&mut waiting.turn, Turn::now()) };
                waiting.turn.restart();
                reopened.push(cluster);
            }
        }
        let waiting = &self.waiting;
        self.context.enrollments.send_if_modified(|failures| {
            let before = failures.len();
            failures.retain(|cluster, _| waiting.contains_key(cluster) && !reopened.contains(cluster));
            failures.len() != before
        });
    }

    fn ended(&mut self, cluster: &ClusterName, result: Result<(), Error>) {
        if let Some(waiting) = self.waiting.get_mut(cluster) {
            waiting.turn.done(result.is_err());
        }
        match result {
            Ok(()) => info!(%cluster, "the member's agent has enrolled it"),
            Err(error) => {
                warn!(%cluster, %error, "cannot enroll the member");
                if self.waiting.contains_key(cluster) {
                    let why = error.to_string();
                    self.context.enrollments.send_if_modified(|failures| {
                        failures.insert(cluster.clone(), why.clone()).as_ref() != Some(&why)
                    });
                }
            }
        }
    }
}

const INTERVAL: Duration = Duration::from_secs(1);
/// The time after which an attempt has ended.
const LONGEST: Duration = Duration::from_secs(120);
/// The maximum number of concurrent enrollments.
const MAX_UNDER_WAY: usize = 8;

#[cfg(test)]
pub(super) mod tests;
