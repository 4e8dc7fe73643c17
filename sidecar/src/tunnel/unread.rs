//! Bounds the unread bytes of all connections through agents. Each connection has a window of its own, and
//! the windows of one caller's connections together can be most of a replica's memory. A caller can leave
//! them unread forever, so above the bound connections are reset, whatever their readers do.
//!
//! A connection is late if bytes that had arrived at one sweep are unread at the next one. Only late
//! connections are reset, so one whose reader keeps up is safe, and a reader of a byte a second is not. The
//! small frames of late connections are gathered, because h2 limits those of a whole tunnel.

use std::cmp::Reverse;
use std::mem;
use std::sync::{Arc, Weak};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use super::stream::{Directions, TunnelStream};
use crate::locked::Locked;
use crate::metrics::own;

/// The open connections, and how many bytes of all of them may be unread.
#[derive(Debug)]
pub(crate) struct UnreadLimit {
    most: usize,
    watched: Locked<Vec<Watched>>,
    resets: Counter,
}

/// A connection, as the last sweep saw it.
#[derive(Debug)]
struct Watched {
    directions: Weak<Directions>,
    unread: usize,
    /// How many bytes its reader must have read in order not to be late.
    due: u64,
    /// For how many sweeps it has been late.
    late: u32,
}

impl Default for UnreadLimit {
    fn default() -> Self {
        Self::new(MAX_UNREAD)
    }
}

impl UnreadLimit {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, watched: Locked::default(), resets: Counter::default() }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Connections through agents that were reset because too many bytes were unread";
        own(registry).register("unread_connections_reset", help, self.resets.clone());
    }

    /// Counts a connection until it is dropped.
    pub(crate) fn watch(&self, stream: &TunnelStream) {
        let directions = Arc::downgrade(stream.directions());
        self.watched.with(|watched| watched.push(Watched { directions, unread: 0, due: 0, late: 0 }));
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

    /// Resets late connections if too many bytes are unread, the longest late first. Those that hold less
    /// than half the mean are spared: to reset them would give little memory back.
    pub(crate) fn sweep(&self) {
        let mut watched = self.watched.with(mem::take);
        watched.retain_mut(Watched::look);
        let before: usize = watched.iter().map(|one| one.unread).sum();
        if before > self.most {
            let (mut left, mut resets) = (before, 0);
            let mean = before / watched.iter().filter(|one| one.unread > 0).count();
            let is_candidate = |one: &&Watched| one.late > 0 && one.unread >= mean / 2;
            let mut late: Vec<_> = watched.iter().filter(is_candidate).collect();
            late.sort_unstable_by_key(|one| Reverse((one.late, one.unread)));
            for one in late {
                if left <= self.most / 4 * 3 {
                    break;
                }
                one.reset();
                (left, resets) = (left - one.unread, resets + 1);
            }
            self.resets.inc_by(resets);
            debug!(before, left, resets, "too many bytes of connections through agents are unread");
        }
        self.watched.with(|new| {
            watched.append(new);
            *new = watched;
        });
    }
}

impl Watched {
    /// Looks at the connection's progress, and returns whether it is open.
    fn look(&mut self) -> bool {
        let Some(directions) = self.directions.upgrade() else { return false };
        let Some((read, unread)) = directions.progress() else { return false };
        self.unread = unread;
        if read >= self.due {
            (self.due, self.late) = (read + unread as u64, 0);
        } else {
            self.late = self.late.saturating_add(1);
            directions.gather();
        }
        true
    }

    fn reset(&self) {
        if let Some(directions) = self.directions.upgrade() {
            directions.reset();
        }
    }
}

/// Half of an agent's memory, and a quarter of a replica's, by the limits of their deployments.
const MAX_UNREAD: usize = 256 * 1024 * 1024;
/// The bound can be exceeded by as much as arrives in two intervals.
const INTERVAL: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
