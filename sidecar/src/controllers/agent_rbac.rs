//! Maintains the RBAC of Karmada's agents on the host (`--karmada-agent-rbac`): for each Cluster in
//! pull mode, the roles and bindings that `kubectl mc authz apply` writes, and none for a deleted
//! Cluster.
//!
//! - [`state`]: the Clusters and the maintained objects on the host, and the writes of one
//!   cluster's sync
//! - [`host`]: the watches and the writes
//!
//! The names are those of `karmadactl register`, so writing them narrows the rights of a
//! registration. Only objects with the label of this sidecar and the name of an agent are deleted.
//! The sidecar writes rights that it does not have itself:
//! `kubectl mc authz apply --kept-by-sidecar` grants this, and an admission policy restricts the
//! account to these objects.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::context::Context;
use super::turn::Turn;
use super::work_queue::Working;

mod host;
mod state;

use host::Failure;
use state::Agents;

/// Maintains the RBAC until this replica loses leadership.
pub(super) async fn run(context: Context) {
    let Some(layout) = context.settings.agent_rbac.clone() else {
        return std::future::pending().await;
    };
    let queue = context.metrics.queue("agent-rbac");
    let mut events = pin!(host::events(&context.host, &context.namespace));
    let mut agents = Agents::new(layout, &context.namespace);
    let mut turns: BTreeMap<String, Turn> = BTreeMap::new();
    let mut failures = Failures::default();
    let mut under_way: JoinSet<Done> = JoinSet::new();
    loop {
        let has_place = agents.is_read() && under_way.len() < MAX_UNDER_WAY;
        let next = turns.values().filter_map(Turn::next).min().filter(|_| has_place);
        tokio::select! {
            event = events.next() => match event {
                Some((source, event)) => agents.take(source, event),
                None => return,
            },
            Some(done) = under_way.join_next() => match done {
                Ok(Done { cluster, work, result }) => {
                    work.done(result.is_err());
                    if let Some(turn) = turns.get_mut(&cluster) {
                        turn.done(result.is_err());
                    }
                    failures.note(&cluster, result);
                    if !agents.knows(&cluster) {
                        turns.remove(&cluster);
                    }
                }
                // A controller that ends is restarted with a new state.
                Err(error) => return warn!(error = %error, "a sync of an agent's RBAC failed"),
            },
            () = sleep_until(next.unwrap_or_else(|| Instant::now() + LONG)) => {}
        }
        for cluster in agents.changed() {
            turns.entry(cluster).or_insert_with(Turn::now).restart();
        }
        // Until everything is read, Clusters and objects seem to be missing.
        if !agents.is_read() {
            continue;
        }
        let now = Instant::now();
        for (cluster, turn) in turns.iter_mut().filter(|(_, turn)| turn.is_due(now)) {
            if under_way.len() >= MAX_UNDER_WAY {
                break;
            }
            let (host, cluster, steps) = (context.host.clone(), cluster.clone(), agents.steps(cluster));
            let queued = turn.begin(LONG, &queue);
            under_way.spawn(async move {
                let work = queued.begin();
                let result = host::carry_out(&host, steps).await;
                Done { cluster, work, result }
            });
        }
    }
}

/// A finished sync of one cluster: the number of writes, or why the agent's RBAC is not correct.
struct Done {
    cluster: String,
    work: Working,
    result: Result<usize, Failure>,
}

/// The last failure of each cluster, so that it is logged only once.
#[derive(Default)]
struct Failures(BTreeMap<String, String>);

impl Failures {
    fn note(&mut self, cluster: &str, result: Result<usize, Failure>) {
        match result {
            Ok(writes) => {
                if self.0.remove(cluster).is_some() || writes > 0 {
                    info!(cluster, writes, "RBAC of the agent written");
                }
            }
            // Karmada creates the namespace of the Works after the Cluster.
            Err(Failure { message, is_absent: true }) => {
                debug!(cluster, error = message, "RBAC of the agent waits for a namespace");
            }
            Err(Failure { message, .. }) => {
                if self.0.get(cluster) != Some(&message) {
                    warn!(cluster, error = message, "cannot write the RBAC of the agent");
                    self.0.insert(cluster.to_owned(), message);
                }
            }
        }
    }
}

/// With 1,000 Clusters, this takes some seconds.
const MAX_UNDER_WAY: usize = 8;
/// The interval of syncs without a change; the watches report changes.
const LONG: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;
