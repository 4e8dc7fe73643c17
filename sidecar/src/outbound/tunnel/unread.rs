//! Bounds the unread bytes of all connections through agents. Each connection has its own window,
//! and the windows of one caller's connections together can exceed a replica's memory. A caller can
//! leave them unread forever, so above the bound, connections are reset regardless of their
//! readers: those of the caller and of the cluster that hold the most ([`Bounds`]).
//!
//! A connection is late if bytes that had arrived at one sweep are unread at the next one. Only late
//! connections are reset, so a connection with a fast reader is never reset, and one whose reader takes a byte a second
//! can be.
//!
//! The windows limit the bytes, but each frame takes additional memory in h2, which is never
//! released for other uses. So small frames are merged when a few hundred have arrived, and all
//! frames of late connections are merged too.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kubectl_mc_api::ClusterName;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use super::stream::directions::Directions;
use crate::base::locked::Locked;
use crate::limits::in_flight::Caller;
use crate::limits::in_flight::largest::{Bounds, Part};
use crate::observe::metrics::own;

/// The open tunnels, and how many bytes of all their connections may be unread.
#[derive(Debug)]
pub(crate) struct UnreadLimit {
    bounds: Bounds,
    tunnels: Locked<Vec<Weak<Unread>>>,
    resets: Counter,
}

/// The connections of one tunnel.
#[derive(Debug)]
pub(crate) struct Unread {
    /// `None` at an agent, which has one.
    cluster: Option<ClusterName>,
    watched: Locked<Vec<Watched>>,
    /// Small frames that have arrived since they were last merged.
    small_frames: AtomicUsize,
}

/// The state of a connection at the last sweep.
#[derive(Debug)]
struct Watched {
    directions: Weak<Directions>,
    unread: usize,
    caller: Option<Caller>,
    /// How many bytes its reader must have read so that it is not late.
    due: u64,
    /// The number of sweeps for which it has been late.
    late: u64,
}

impl UnreadLimit {
    /// The limit of a sidecar, whose callers have shares.
    pub(crate) fn of_replica() -> Self {
        Self::new(Bounds::shared(MAX_UNREAD))
    }

    /// The limit of an agent, which does not know callers.
    pub(crate) fn of_agent() -> Self {
        Self::new(Bounds::undivided(MAX_UNREAD))
    }

    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, tunnels: Locked::default(), resets: Counter::default() }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Connections through agents that were reset because too many bytes were unread";
        own(registry).register("unread_connections_reset", help, self.resets.clone());
    }

    /// Counts the connections of another tunnel, until it is dropped.
    pub(crate) fn tunnel(&self, cluster: Option<ClusterName>) -> Arc<Unread> {
        let tunnel =
            Arc::new(Unread { cluster, watched: Locked::default(), small_frames: AtomicUsize::new(0) });
        self.tunnels.with(|tunnels| tunnels.push(Arc::downgrade(&tunnel)));
        tunnel
    }

    /// Sweeps for as long as the program runs.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut every = interval(INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            self.sweep();
        }
    }

    /// Resets late connections if too many bytes are unread.
    pub(crate) fn sweep(&self) {
        let tunnels: Vec<_> = self.tunnels.with(|tunnels| {
            tunnels.retain(|tunnel| tunnel.strong_count() > 0);
            tunnels.iter().filter_map(Weak::upgrade).collect()
        });
        let (mut connections, mut parts) = (Vec::new(), Vec::new());
        for tunnel in &tunnels {
            tunnel.watched.with(|watched| {
                watched.retain_mut(Watched::look);
                for one in watched.iter().filter(|one| one.unread > 0) {
                    let (cluster, stalled) =
                        (tunnel.cluster.as_ref(), Some(one.late).filter(|late| *late > 0));
                    parts.push(Part { caller: one.caller, cluster, size: one.unread, stalled });
                    connections.push(one.directions.clone());
                }
            });
        }
        let surplus = self.bounds.surplus(&parts);
        for directions in surplus.iter().filter_map(|at| connections[*at].upgrade()) {
            directions.reset();
        }
        if !surplus.is_empty() {
            self.resets.inc_by(surplus.len() as u64);
            let unread: usize = parts.iter().map(|part| part.size).sum();
            debug!(unread, resets = surplus.len(), "too many bytes of connections through agents are unread");
        }
    }
}

impl Unread {
    /// Counts a connection until it is dropped.
    pub(crate) fn watch(&self, directions: &Arc<Directions>) {
        let directions = Arc::downgrade(directions);
        let watched = Watched { directions, unread: 0, caller: None, due: 0, late: 0 };
        self.watched.with(|all| all.push(watched));
    }

    /// Drives the future that reads the tunnel, and merges small frames whenever many have arrived.
    pub(crate) async fn gathering<T>(&self, reading: impl Future<Output = T>) -> T {
        let mut reading = pin!(reading);
        poll_fn(|cx| {
            let polled = reading.as_mut().poll(cx);
            if polled.is_pending() && self.has_many_small_frames() {
                self.gather();
                cx.waker().wake_by_ref();
            }
            polled
        })
        .await
    }

    pub(super) fn small_frame_arrived(&self) {
        self.small_frames.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether reading must wait until the small frames are merged.
    pub(super) fn has_many_small_frames(&self) -> bool {
        self.small_frames.load(Ordering::Relaxed) >= MAX_SMALL_FRAMES
    }

    fn gather(&self) {
        self.small_frames.store(0, Ordering::Relaxed);
        self.watched.with(|watched| {
            watched.iter().filter_map(|one| one.directions.upgrade()).for_each(|one| one.gather());
        });
    }
}

impl Watched {
    /// Updates the connection's progress, and returns whether it is open.
    fn look(&mut self) -> bool {
        let Some(directions) = self.directions.upgrade() else { return false };
        let Some(progress) = directions.progress() else { return false };
        (self.unread, self.caller) = (progress.unread, progress.caller);
        if progress.read >= self.due {
            (self.due, self.late) = (progress.read + progress.unread as u64, 0);
        } else {
            self.late = self.late.saturating_add(1);
            directions.gather();
        }
        true
    }
}

/// Half of an agent's memory, and a quarter of a replica's, by the limits of their deployments.
const MAX_UNREAD: usize = 256 * 1024 * 1024;
/// The bound can be exceeded by the bytes that arrive in two intervals.
const INTERVAL: Duration = Duration::from_millis(250);
/// A read of the tunnel can add up to 3,000 more, each of which takes about 256 bytes in h2: 1 MiB
/// for a tunnel.
const MAX_SMALL_FRAMES: usize = 512;

#[cfg(test)]
mod tests;
