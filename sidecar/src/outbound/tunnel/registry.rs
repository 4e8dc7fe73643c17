//! Registers the agents' tunnels that end at this replica, by cluster, and opens connections to members
//! through them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use h2::client::SendRequest;
use http::uri::Authority;
use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use super::agent_tunnel::{AgentInfo, AgentTunnel};
use super::peers::Peers;
use super::protocol::DIAL_TIMEOUT;
use super::purpose::Purpose;
use super::stream::TunnelStream;
use super::unread::{Unread, UnreadLimit};
use crate::base::locked::Locked;
use crate::observe::metrics::own;

mod attempts;
pub(super) mod dial;
mod enroll;

use attempts::Attempts;
pub use dial::{DialError, Reason};

/// The tunnels that end here.
#[derive(Debug)]
pub struct AgentTunnels {
    replica: Arc<str>,
    began: Timestamp,
    clusters: Locked<HashMap<ClusterName, Agents>>,
    open: Gauge,
    peers: Arc<Peers>,
    unread: Arc<UnreadLimit>,
}

/// A connection to a member through its agent.
#[derive(Debug)]
pub enum Opened {
    Here(TunnelStream),
    /// Through a tunnel at another replica.
    AtPeer(Box<TlsStream<TcpStream>>),
}

/// The agents of one cluster.
#[derive(Debug)]
struct Agents {
    tunnels: Vec<Arc<AgentTunnel>>,
    /// Instances of agents whose tunnel is being set up.
    expected: Vec<Arc<str>>,
    attempts: Attempts,
    /// Since when there has been no tunnel here.
    gone_since: Timestamp,
}

/// The right of one agent to set up one tunnel.
#[derive(Debug)]
pub struct Reservation {
    tunnels: Arc<AgentTunnels>,
    cluster: ClusterName,
    agent: AgentInfo,
}

/// A tunnel in the registry, removed on drop.
#[derive(Debug)]
pub(crate) struct Registered {
    tunnels: Arc<AgentTunnels>,
    tunnel: Arc<AgentTunnel>,
}

/// Why an agent gets no tunnel here.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("this agent has a tunnel to this replica already")]
    Held(String),
    #[error("cluster {0} has {MAX_TUNNELS} tunnels to this replica already, try again later")]
    Full(ClusterName),
    #[error("the agents of cluster {0} ask for tunnels too often, try again later")]
    TooOften(ClusterName),
}

impl AgentTunnels {
    pub fn new(replica: &str, peers: Arc<Peers>, registry: &mut Registry) -> Arc<Self> {
        let open = Gauge::default();
        own(registry).register("agent_tunnels", "Open tunnels of members' agents", open.clone());
        let unread = UnreadLimit::of_replica();
        unread.register(registry);
        let (began, clusters) = (Timestamp::now(), Default::default());
        Arc::new(Self { replica: replica.into(), began, clusters, open, peers, unread: Arc::new(unread) })
    }

    /// The name of this replica, with which agents distinguish replicas.
    pub fn replica(&self) -> &str {
        &self.replica
    }

    /// Lets an agent set up a tunnel, if it has none here.
    pub fn reserve(
        self: &Arc<Self>,
        cluster: &ClusterName,
        agent: AgentInfo,
    ) -> Result<Reservation, Refused> {
        self.clusters.with(|clusters| {
            let agents = clusters.entry(cluster.clone()).or_insert_with(|| Agents::new(self.began));
            if !agents.attempts.take() {
                return Err(Refused::TooOften(cluster.clone()));
            }
            agents.tunnels.retain(|tunnel| !tunnel.end.is_cancelled());
            let is_held = |instance: &Arc<str>| *instance == agent.instance;
            if agents.expected.iter().any(is_held)
                || agents.tunnels.iter().any(|tunnel| is_held(&tunnel.agent.instance))
            {
                return Err(Refused::Held(self.peers.introduce(&self.replica)));
            }
            if agents.tunnels.len() + agents.expected.len() >= MAX_TUNNELS {
                return Err(Refused::Full(cluster.clone()));
            }
            agents.expected.push(agent.instance.clone());
            Ok(Reservation { tunnels: self.clone(), cluster: cluster.clone(), agent })
        })
    }

    /// The other replicas.
    pub fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }

    /// Limits the unread bytes of all connections through tunnels that end here.
    pub(crate) fn unread(&self) -> &Arc<UnreadLimit> {
        &self.unread
    }

    /// Opens a connection to `target` through an agent of the cluster, at whichever replica its tunnel ends.
    pub(crate) async fn open(
        &self,
        cluster: &ClusterName,
        target: &Authority,
        purpose: Purpose,
    ) -> Result<Opened, DialError> {
        match self.open_here(cluster, target, purpose).await {
            Ok(stream) => Ok(Opened::Here(stream)),
            Err(error) if error.is_of_the_tunnel() => match self.peers.open(cluster, target).await {
                Some(opened) => opened.map(Opened::AtPeer),
                None => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// A line for each cluster with a tunnel at this replica: its name, this replica's name, and
    /// the agent's version.
    pub(super) fn names(&self) -> String {
        let line = |(cluster, agents): (&ClusterName, &Agents)| {
            let tunnel = agents.tunnels.iter().find(|tunnel| !tunnel.end.is_cancelled())?;
            Some(format!("{cluster} {} {}\n", self.replica, tunnel.agent.version))
        };
        self.clusters.with(|clusters| clusters.iter().filter_map(line).collect())
    }

    /// The same through a tunnel at this replica.
    pub(crate) async fn open_here(
        &self,
        cluster: &ClusterName,
        target: &Authority,
        purpose: Purpose,
    ) -> Result<TunnelStream, DialError> {
        let tunnels = self.by_preference(cluster)?;
        let mut failed = DialError::Full;
        let end = Instant::now() + OPEN_TIMEOUT;
        for (at, tunnel) in tunnels.iter().enumerate() {
            if Instant::now() >= end {
                break;
            }
            let Some(place) = tunnel.place() else { continue };
            let opening = dial::open(tunnel.sender.clone(), target, purpose, place);
            let attempt_end = match at + 1 < tunnels.len() {
                true => end.min(Instant::now() + ATTEMPT_TIMEOUT),
                false => end,
            };
            match timeout_at(attempt_end, opening).await.unwrap_or(Err(DialError::Silent)) {
                Ok(stream) => {
                    tunnel.unread.watch(stream.directions());
                    return Ok(stream);
                }
                Err(error) => {
                    if matches!(error, DialError::Silent) {
                        // Other tunnels are preferred until its agent answers a ping.
                        tunnel.is_late.store(true, Ordering::Relaxed);
                    }
                    // An agent's report about the member is more useful than the failure of a tunnel.
                    if !failed.is_of_the_member() {
                        failed = error;
                    }
                }
            }
        }
        Err(failed)
    }

    /// The tunnels of a cluster, best first: those that are not shutting down, whose agent answers,
    /// and that have few connections.
    pub(crate) fn by_preference(&self, cluster: &ClusterName) -> Result<Vec<Arc<AgentTunnel>>, DialError> {
        let (mut open, since) = self.clusters.with(|clusters| {
            let agents = clusters.get(cluster);
            let open =
                agents.iter().flat_map(|agents| &agents.tunnels).filter(|tunnel| !tunnel.end.is_cancelled());
            (open.cloned().collect::<Vec<_>>(), agents.map_or(self.began, |agents| agents.gone_since))
        });
        if open.is_empty() {
            return Err(DialError::NoAgent { since });
        }
        // The sort is stable, and the newest tunnel is the most likely to work.
        open.reverse();
        open.sort_by_cached_key(|tunnel| {
            let is_late = tunnel.is_late.load(Ordering::Relaxed);
            (tunnel.is_leaving(), is_late, tunnel.streams.load(Ordering::Relaxed))
        });
        Ok(open)
    }

    /// The oldest tunnel of a cluster here.
    pub fn oldest(&self, cluster: &ClusterName) -> Option<Arc<AgentTunnel>> {
        self.clusters.with(|clusters| {
            let open = clusters.get(cluster)?.tunnels.iter().filter(|tunnel| !tunnel.end.is_cancelled());
            open.min_by_key(|tunnel| tunnel.since).cloned()
        })
    }

    /// Since when a cluster without a tunnel here has had none.
    pub fn gone_since(&self, cluster: &ClusterName) -> Timestamp {
        let since = |agents: &Agents| agents.gone_since;
        self.clusters.with(|clusters| clusters.get(cluster).map_or(self.began, since))
    }

    /// Ends the tunnels of clusters that are not `wanted`.
    pub fn retain(&self, wanted: impl Fn(&ClusterName) -> bool) {
        self.clusters.with(|clusters| {
            clusters.extract_if(|cluster, _| !wanted(cluster)).for_each(|(_, agents)| agents.end());
        });
    }

    /// Ends the tunnels of one cluster.
    pub fn end(&self, cluster: &ClusterName) {
        self.clusters.with(|clusters| clusters.get(cluster).map(Agents::end));
    }

    /// Announces this replica's shutdown to every agent.
    pub async fn drain(&self) {
        let tunnels = |agents: &Agents| agents.tunnels.clone();
        let all: Vec<_> = self.clusters.with(|clusters| clusters.values().flat_map(tunnels).collect());
        all.iter().for_each(|tunnel| tunnel.is_leaving.store(true, Ordering::Relaxed));
        join_all(all.iter().map(|tunnel| tunnel.drain())).await;
    }
}

impl Agents {
    fn new(gone_since: Timestamp) -> Self {
        Self { tunnels: Vec::new(), expected: Vec::new(), attempts: Attempts::default(), gone_since }
    }

    fn end(&self) {
        self.tunnels.iter().for_each(|tunnel| tunnel.end.cancel());
    }
}

impl Reservation {
    /// Bounds the unread bytes of the tunnel's connections.
    pub(crate) fn unread(&self) -> Arc<Unread> {
        self.tunnels.unread.tunnel(Some(self.cluster.clone()))
    }

    /// Registers the connection as a tunnel of the cluster.
    pub(crate) fn establish(self, sender: SendRequest<Bytes>, unread: Arc<Unread>) -> Registered {
        let tunnel = Arc::new(AgentTunnel {
            cluster: self.cluster.clone(),
            agent: self.agent.clone(),
            since: Timestamp::now(),
            sender,
            streams: AtomicUsize::new(0),
            unread,
            is_late: AtomicBool::new(true),
            is_leaving: AtomicBool::new(false),
            end: CancellationToken::new(),
        });
        let registered = Registered { tunnels: self.tunnels.clone(), tunnel: tunnel.clone() };
        self.tunnels.open.inc();
        self.tunnels.clusters.with(|clusters| match clusters.get_mut(&self.cluster) {
            Some(agents) => agents.tunnels.push(tunnel),
            // The member was deleted in the meantime.
            None => tunnel.end.cancel(),
        });
        registered
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.tunnels.clusters.with(|clusters| {
            if let Some(agents) = clusters.get_mut(&self.cluster)
                && let Some(at) = agents.expected.iter().position(|instance| *instance == self.agent.instance)
            {
                agents.expected.swap_remove(at);
            }
        });
    }
}

impl Registered {
    pub(crate) fn tunnel(&self) -> &Arc<AgentTunnel> {
        &self.tunnel
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.tunnels.open.dec();
        // Holders of the tunnel must not open anything more.
        self.tunnel.end.cancel();
        self.tunnels.clusters.with(|clusters| {
            if let Some(agents) = clusters.get_mut(&self.tunnel.cluster) {
                agents.tunnels.retain(|tunnel| !Arc::ptr_eq(tunnel, &self.tunnel));
                agents.gone_since = Timestamp::now();
            }
        });
        info!(cluster = %self.tunnel.cluster, instance = %self.tunnel.agent.instance, "agent disconnected");
    }
}

/// Maximum number of tunnels of one cluster to this replica: two agents, two more during a rollout, and dead
/// tunnels that are not detected yet.
const MAX_TUNNELS: usize = 8;
/// How long a tunnel may take to open a connection while there is another one to try.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of all tunnels of this replica together: an agent's own timeout and a round trip, so that time is
/// left to ask the other replicas.
const OPEN_TIMEOUT: Duration = DIAL_TIMEOUT.saturating_add(Duration::from_secs(1));

#[cfg(test)]
mod tests;
