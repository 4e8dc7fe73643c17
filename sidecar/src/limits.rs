//! How much may be under way at once (apiserver: `filters/maxinflight.go`, and the fairness of
//! `util/flowcontrol`): reads and writes apart, in all and per member. What is admitted in all is
//! many times what one member may hold, so that a few members that hang leave room for the others;
//! and of each bound one caller gets a share, so that one who floods leaves room for the others.
//! Of long-running requests, which upstream does not count, tunnels have a bound of their own; watches
//! and logs are bounded by the connections and streams that the listener admits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::RandomState;
use tokio::time::{self, timeout_at};

mod queue;

pub use queue::Permit;
use queue::{Place, Queue};

/// The limits of this process.
#[derive(Debug)]
pub struct Limits {
    reads: Bound,
    writes: Bound,
    tunnels: Bound,
    callers: RandomState,
}

/// A caller, as limits tell them apart. Two who are taken for one share a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller(u64);

/// How large a bound is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many may be under way at once; 0 is no limit.
    pub places: usize,
    /// How many requests of one caller may wait for a place.
    pub queued_per_caller: usize,
}

/// One number that may not be passed; `None` is no limit.
#[derive(Clone, Debug)]
pub struct Bound(Option<Arc<Queue>>);

impl Limits {
    pub fn new(reads: Size, writes: Size, tunnels: usize) -> Self {
        // A tunnel may last for hours: nobody waits for its place.
        let tunnels = Size { places: tunnels, queued_per_caller: 0 };
        let [reads, writes, tunnels] = [reads, writes, tunnels].map(Bound::new);
        Self { reads, writes, tunnels, callers: RandomState::new() }
    }

    /// Who a user is to every bound.
    pub fn caller(&self, user: &str) -> Caller {
        Caller(self.callers.hash_one(user))
    }

    /// Admits a request that is not long-running, as soon as there is room for its caller.
    pub async fn admit(&self, is_read: bool, caller: Caller, due: Instant) -> Result<Permit, Error> {
        let bound = if is_read { &self.reads } else { &self.writes };
        bound.admit(caller, due).await.ok_or(Error::InAll)
    }

    /// Admits a request that asks to switch protocols, or refuses it at once.
    pub fn admit_tunnel(&self, caller: Caller) -> Result<Permit, Error> {
        self.tunnels.admit_now(caller).ok_or(Error::Tunnels)
    }
}

impl Bound {
    pub fn new(size: Size) -> Self {
        Self((size.places > 0).then(|| Arc::new(Queue::new(size))))
    }

    /// Admits one more at once, or says that there is no room.
    fn admit_now(&self, caller: Caller) -> Option<Permit> {
        let Some(queue) = &self.0 else { return Some(Permit::unlimited()) };
        match queue.place(caller)? {
            Place::Free(permit) => Some(permit),
            Place::Queued(_) => None,
        }
    }

    /// Admits one more, at once or after a while, or says that there is no room. Who waits does not
    /// wait until the request is `due`: an answer would no longer be in time.
    pub async fn admit(&self, caller: Caller, due: Instant) -> Option<Permit> {
        let Some(queue) = &self.0 else { return Some(Permit::unlimited()) };
        match queue.place(caller)? {
            Place::Free(permit) => Some(permit),
            Place::Queued(turn) => {
                let (now, due) = (time::Instant::now(), time::Instant::from_std(due));
                let wait = (due.saturating_duration_since(now) / 4).min(LONGEST_WAIT);
                timeout_at(now + wait, turn).await.ok().flatten()
            }
        }
    }
}

/// A quarter of the time that a request has is the wait that upstream grants it; that of a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// Why a request must come again later.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("too many requests are under way, try again later")]
    InAll,
    #[error("too many tunnels are open, try again later")]
    Tunnels,
    #[error("too many requests to member {0} are under way, try again later")]
    ForMember(String),
}

#[cfg(test)]
mod tests;
