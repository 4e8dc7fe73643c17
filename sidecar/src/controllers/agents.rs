//! Reports condition `Connected` for members whose Secret has `via: agent`: whether their agent has a tunnel
//! to any replica.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use tokio::time::{Instant, interval};

use super::conditions::{Aspect, Finding};
use super::context::Context;
use crate::outbound::tunnel::peers::Elsewhere;
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::outbound::upstream::sidecar_client::NO_AGENT;

/// Checks the tunnels of all members in a loop.
pub(super) async fn run(context: Context) {
    let mut every = interval(INTERVAL);
    let mut told: HashMap<ClusterName, Finding> = HashMap::new();
    let mut seen: HashMap<ClusterName, Timestamp> = HashMap::new();
    let (mut elsewhere, mut ask_at) = (HashMap::new(), Instant::now());
    loop {
        every.tick().await;
        if Instant::now() >= ask_at {
            elsewhere = context.tunnels.peers().tunnels().await;
            ask_at = Instant::now() + PEERS_INTERVAL;
        }
        let fleet = context.fleet.borrow().clone();
        told.retain(|cluster, _| fleet.contains_key(cluster));
        seen.retain(|cluster, _| fleet.contains_key(cluster));
        for (cluster, registered) in fleet.iter() {
            if !registered.is_via_agent() {
                told.remove(cluster);
                continue;
            }
            let connected = connected(&context.tunnels, cluster, elsewhere.get(cluster));
            if connected.is_some() {
                seen.insert(cluster.clone(), Timestamp::now());
            }
            let finding = connected.or_else(|| {
                let last = seen.get(cluster).copied();
                disconnected(context.tunnels.gone_since(cluster).max(last.unwrap_or(Timestamp::MIN)))
            });
            let Some(finding) = finding else { continue };
            if told.get(cluster) != Some(&finding) {
                context.conditions.set(cluster, Aspect::Connected, finding.clone());
                told.insert(cluster.clone(), finding);
            }
        }
    }
}

/// The finding for a connected agent, on this replica or on another one.
fn connected(
    tunnels: &AgentTunnels,
    cluster: &ClusterName,
    elsewhere: Option<&Elsewhere>,
) -> Option<Finding> {
    let oldest = tunnels.oldest(cluster);
    let (version, replica) = match (&oldest, elsewhere) {
        (Some(tunnel), _) => (&*tunnel.agent.version, tunnels.replica()),
        (None, Some(elsewhere)) => (&*elsewhere.version, &*elsewhere.replica),
        (None, None) => return None,
    };
    Some(Finding::yes("AgentConnected", format!("agent {version} is connected to replica {replica}")))
}

/// The finding for a disconnected agent; `None` while the agent may be reconnecting.
fn disconnected(since: Timestamp) -> Option<Finding> {
    let is_over = Timestamp::now().duration_since(since).unsigned_abs() >= RECONNECTS_WITHIN;
    is_over.then(|| Finding::no(NO_AGENT, format!("no agent has been connected since {since:.0}")))
}

const INTERVAL: Duration = Duration::from_secs(1);
const PEERS_INTERVAL: Duration = Duration::from_secs(3);
/// The time in which an agent reconnects after its replica ended.
const RECONNECTS_WITHIN: Duration = Duration::from_secs(5);
