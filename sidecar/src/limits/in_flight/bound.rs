//! Limits concurrent holders.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{self, timeout};

use super::caller::Caller;
use super::queue::{Permit, Place, Queue, Snapshot, Turn};
use super::size::{Size, Usage};

/// A limit on concurrent holders.
#[derive(Clone, Debug)]
pub struct Bound(pub(super) Arc<Queue>);

impl Bound {
    pub fn new(size: Size) -> Self {
        Self(Arc::new(Queue::new(size)))
    }

    /// A bound of all requests: exempt callers bypass it, and requests are counted by level.
    pub(super) fn of_all(size: Size) -> Self {
        Self(Arc::new(Queue::of_all(size)))
    }

    /// The usage of this bound.
    pub fn usage(&self) -> Usage {
        let Snapshot { places, held, waiting, .. } = self.0.snapshot();
        Usage { in_use: held.into_iter().sum(), waiting: waiting.into_iter().sum(), limit: places }
    }

    /// Admits one more holder at once, or reports that there is no room.
    pub fn admit_now(&self, caller: Caller) -> Option<Permit> {
        match self.0.place(caller)? {
            Place::Free(permit) => Some(permit),
            Place::Queued(_) => None,
        }
    }

    /// Admits one more holder, at once or after a wait, or reports that there is no room. The wait
    /// is shorter than until the request is `due`, because an answer would then be too late.
    pub async fn admit(&self, caller: Caller, due: Instant) -> Option<Permit> {
        match self.0.place(caller)? {
            Place::Free(permit) => Some(permit),
            Place::Queued(turn) => {
                let left = time::Instant::from_std(due).saturating_duration_since(time::Instant::now());
                in_turn(turn, (left / 4).min(LONGEST_WAIT)).await
            }
        }
    }

    /// Admits one more holder, at once or after at most `wait`, or reports that there is no room.
    pub async fn admit_within(&self, caller: Caller, wait: Duration) -> Option<Permit> {
        match self.0.place(caller)? {
            Place::Free(permit) => Some(permit),
            Place::Queued(turn) => in_turn(turn, wait).await,
        }
    }
}

async fn in_turn(mut turn: Turn, wait: Duration) -> Option<Permit> {
    let admitted = timeout(wait, &mut turn).await;
    if admitted.is_err() {
        turn.set_late();
    }
    admitted.ok().flatten()
}

/// Upstream also grants a quarter of a request's time for waiting; this is a quarter of a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(15);
