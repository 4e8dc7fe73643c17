//! Bounds the memory of small DATA frames that have arrived on the connections of direct callers and are not
//! read.
//!
//! h2 closes a connection with about 32,900 of them. They take 20 MiB, and 260 MiB if each retains
//! its own read buffer (because other frames arrive in between), and a caller can have thousands of
//! connections. So the frames of all connections are counted by caller. Above the bound, the
//! largest connections of the largest caller end.
//!
//! The streams of a direct connection are not distinguished, because it must not pause after each
//! head (see the listener's gate). A body that is dropped is read to its end. Frames that arrive
//! for it later count until the connection is quiet. A connection with too many frames takes no
//! more requests, so that it becomes quiet.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use super::frame_memory::FrameMemory;
use super::small_frames::{Data, Then, is_small};
use crate::base::locked::Locked;
use crate::limits::cutoff::Cutoff;
use crate::limits::in_flight::Caller;
use crate::limits::in_flight::largest::{Bounds, Part};

/// The connections of direct callers.
#[derive(Debug, Default)]
pub struct DirectUploads(Locked<Vec<Weak<ConnectionFrames>>>);

/// The small frames of one connection that have arrived and are not read.
#[derive(Debug)]
pub struct ConnectionFrames {
    state: Locked<State>,
    cutoff: Arc<Cutoff>,
}

#[derive(Debug)]
struct State {
    /// The caller of the last request; the address before the first login.
    holder: Caller,
    unread: FrameMemory,
    /// Bodies that have not been dropped.
    bodies: usize,
    /// Whether a frame has arrived or a body was open since the last sweep.
    is_active: bool,
}

/// The body of a request, counted until it is dropped.
#[derive(Debug)]
pub struct Counted(Arc<ConnectionFrames>);

impl DirectUploads {
    /// Counts the frames of another connection until it is dropped.
    pub fn connection(&self, holder: Caller) -> Arc<ConnectionFrames> {
        let state = State { holder, unread: FrameMemory::default(), bodies: 0, is_active: false };
        let frames = Arc::new(ConnectionFrames { state: Locked::new(state), cutoff: Arc::default() });
        self.0.with(|connections| connections.push(Arc::downgrade(&frames)));
        frames
    }

    /// Sweeps until this future is dropped.
    pub async fn run(self: Arc<Self>) {
        let mut every = interval(INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            self.sweep();
        }
    }

    /// Ends connections if too much is unread.
    fn sweep(&self) {
        let (mut connections, mut parts) = (Vec::new(), Vec::new());
        self.0.with(|all| {
            all.retain(|connection| connection.strong_count() > 0);
            for connection in all.iter().filter_map(Weak::upgrade) {
                if let Some((caller, size)) = connection.swept() {
                    parts.push(Part { caller: Some(caller), cluster: None, size, stalled: Some(0) });
                    connections.push(connection);
                }
            }
        });
        let surplus = BOUNDS.surplus(&parts);
        for at in &surplus {
            connections[*at].cutoff.cut();
        }
        if !surplus.is_empty() {
            let unread: usize = parts.iter().map(|part| part.size).sum();
            debug!(unread, ended = surplus.len(), "too many small frames of direct uploads are unread");
        }
    }
}

impl ConnectionFrames {
    /// Ends the connection.
    pub fn cutoff(&self) -> &Arc<Cutoff> {
        &self.cutoff
    }

    /// Notes that a frame has arrived.
    pub fn arrived(&self, data: Data) -> Then {
        if !is_small(data.length) {
            return Then::GoOn;
        }
        self.state.with(|state| {
            state.is_active = true;
            state.unread.add(data);
            match state.unread.total() {
                // More than a caller's share.
                unread if unread > BOUNDS.caller => Then::End,
                unread if unread > RETIRED_ABOVE => Then::Retire,
                _ => Then::GoOn,
            }
        })
    }

    pub(super) fn begin(self: &Arc<Self>) -> Counted {
        self.state.with(|state| state.bodies += 1);
        Counted(self.clone())
    }

    /// The holder and the memory, if there is any. On a quiet connection without a body, nothing is
    /// unread: hyper has accepted each request that has arrived.
    fn swept(&self) -> Option<(Caller, usize)> {
        self.state.with(|state| {
            if !std::mem::replace(&mut state.is_active, state.bodies > 0) && state.bodies == 0 {
                state.unread = FrameMemory::default();
            }
            Some((state.holder, state.unread.total())).filter(|(_, unread)| *unread > 0)
        })
    }
}

#[cfg(test)]
impl ConnectionFrames {
    /// The memory of the unread frames.
    pub(crate) fn unread(&self) -> usize {
        self.state.with(|state| state.unread.total())
    }
}

impl Counted {
    pub(super) fn charge(&self, caller: Caller) {
        self.0.state.with(|state| state.holder = caller);
    }

    pub(super) fn read(&self) {
        self.0.state.with(|state| state.unread.remove());
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.state.with(|state| state.bodies -= 1);
    }
}

/// The bounds of all direct callers: 32 MiB in total, 24 MiB for one. The process takes up to 1.8
/// times as much.
const BOUNDS: Bounds = Bounds::shared(32 * 1024 * 1024);
/// A connection that holds more takes no more requests.
const RETIRED_ABOVE: usize = 4 * 1024 * 1024;
/// The bound can be exceeded by the bytes that arrive within one interval.
const INTERVAL: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
