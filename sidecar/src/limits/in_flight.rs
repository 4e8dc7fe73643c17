//! Limits concurrent requests (apiserver: `filters/maxinflight.go`, and the fairness of `util/flowcontrol`).
//! Reads and writes have separate bounds, in total and per member. The total is many times the bound of one
//! member, so a few members that hang leave room for the others. Each bound keeps places for each priority
//! level ([`Level`]), so a flood in one level leaves room for the others. Within a level each caller has a
//! share, so a flood of one caller leaves room for the others there. Long-running requests, which upstream
//! does not count, have separate bounds: tunnels in total, and everything else (watches, followed logs) in
//! total and per member. These have no levels.
//!
//! The same bounds limit connections and requests by address before a caller is known
//! ([`crate::server::listener`]) and the reviews at the host. Any key can identify a holder.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ahash::RandomState;
use serde::Serialize;
use tokio::time::{self, timeout};

mod counts;
pub mod largest;
mod level;
mod member;
mod metrics;
mod queue;
mod seats;

pub use level::{InvalidShares, Level, Shares};
pub use member::{MemberBounds, MemberLimits, MemberSize};
pub use queue::Permit;
use queue::{Place, Queue, Snapshot, Turn};

/// The limits of this process.
#[derive(Debug)]
pub struct Limits {
    reads: Bound,
    writes: Bound,
    tunnels: WithRefusals,
    watches: WithRefusals,
    agents: WithRefusals,
    callers: RandomState,
}

/// A holder of places, as limits distinguish them: a user, the accounts of a namespace, or an address. Two
/// holders with the same hash have one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    key: u64,
    level: Level,
}

/// The size of a bound.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Maximum number in flight at once; 0 means no limit.
    pub places: usize,
    /// How many of them one caller may hold while no other caller holds any.
    pub share: usize,
    /// How many requests of one caller may wait for a place.
    pub queued_per_caller: usize,
    /// The shares of the priority levels. Without them all callers are equal.
    pub levels: Option<Shares>,
}

impl Size {
    /// A quarter of the places is left to other callers, except where a quarter is less than one place.
    pub const fn new(places: usize, queued_per_caller: usize) -> Self {
        Self { places, share: places - places / 4, queued_per_caller, levels: None }
    }

    /// Places without a queue, because they may be held for hours.
    pub const fn without_queue(places: usize) -> Self {
        Self::new(places, 0)
    }

    /// Sets another share for each caller.
    pub const fn with_share(self, share: usize) -> Self {
        Self { share, ..self }
    }

    /// Adds places for each priority level.
    pub const fn with_levels(self, shares: Shares) -> Self {
        Self { levels: Some(shares), ..self }
    }
}

/// The used part of a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub in_use: usize,
    pub waiting: usize,
    /// The size of the bound; 0 means no limit.
    pub limit: usize,
}

/// A limit on concurrent holders.
#[derive(Clone, Debug)]
pub struct Bound(Arc<Queue>);

/// A bound that counts what it refuses.
#[derive(Debug)]
struct WithRefusals {
    bound: Bound,
    refused: AtomicU64,
}

impl Limits {
    pub fn new(reads: Size, writes: Size, tunnels: usize, watches: usize, agents: usize) -> Self {
        let [reads, writes] = [reads, writes].map(|size| Bound(Arc::new(Queue::of_all(size))));
        let [tunnels, watches, agents] = [tunnels, watches, agents].map(Size::without_queue).map(|size| {
            let refused = AtomicU64::new(0);
            WithRefusals { bound: Bound::new(size), refused }
        });
        Self { reads, writes, tunnels, watches, agents, callers: RandomState::new() }
    }

    /// The usage of each bound: reads, writes, tunnels, watches and agents.
    pub fn usage(&self) -> [Usage; 5] {
        let [tunnels, watches, agents] =
            [&self.tunnels, &self.watches, &self.agents].map(|bound| &bound.bound);
        [&self.reads, &self.writes, tunnels, watches, agents].map(Bound::usage)
    }

    /// The holder with this key, in every bound.
    pub fn caller(&self, level: Level, key: impl Hash) -> Caller {
        Caller { key: self.callers.hash_one(key), level }
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

    /// Admits the tunnel of a member's agent, or refuses it at once.
    pub fn admit_agent(&self, caller: Caller) -> Result<Permit, Error> {
        self.agents.admit_now(caller).ok_or(Error::Agents)
    }

    /// Admits a long-running request that keeps its protocol, or refuses it at once.
    pub fn admit_watch(&self, caller: Caller) -> Result<Permit, Error> {
        self.watches.admit_now(caller).ok_or(Error::Watches)
    }
}

impl Caller {
    /// A holder other than a user, by the hash of its key.
    pub const fn of_hash(key: u64) -> Self {
        Self { key, level: Level::Interactive }
    }
}

impl Bound {
    pub fn new(size: Size) -> Self {
        Self(Arc::new(Queue::new(size)))
    }

    /// The usage of this bound.
    pub fn usage(&self) -> Usage {
        let Snapshot { places, held, waiting, .. } = self.0.snapshot();
        Usage { in_use: held.into_iter().sum(), waiting: waiting.into_iter().sum(), limit: places }
    }

    /// Admits one more at once, or says that there is no room.
    pub fn admit_now(&self, caller: Caller) -> Option<Permit> {
        match self.0.place(caller)? {
            Place::Free(permit) => Some(permit),
            Place::Queued(_) => None,
        }
    }

    /// Admits one more, at once or after a while, or says that there is no room. Who waits does not
    /// wait until the request is `due`: an answer would no longer be in time.
    pub async fn admit(&self, caller: Caller, due: Instant) -> Option<Permit> {
        match self.0.place(caller)? {
            Place::Free(permit) => Some(permit),
            Place::Queued(turn) => {
                let left = time::Instant::from_std(due).saturating_duration_since(time::Instant::now());
                in_turn(turn, (left / 4).min(LONGEST_WAIT)).await
            }
        }
    }

    /// Admits one more, at once or after at most `wait`, or says that there is no room.
    pub async fn admit_within(&self, caller: Caller, wait: Duration) -> Option<Permit> {
        match self.0.place(caller)? {
            Place::Free(permit) => Some(permit),
            Place::Queued(turn) => in_turn(turn, wait).await,
        }
    }
}

impl WithRefusals {
    fn admit_now(&self, caller: Caller) -> Option<Permit> {
        let permit = self.bound.admit_now(caller);
        if permit.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        permit
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

/// Why a request must be retried later.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("too many requests are in progress, try again later")]
    InAll,
    #[error("too many tunnels are open, try again later")]
    Tunnels,
    #[error("too many tunnels of members' agents are open, try again later")]
    Agents,
    #[error("too many watches and other long-running requests of this user are open, try again later")]
    Watches,
    #[error("too many watches and other long-running requests to member {0} are open, try again later")]
    WatchesOfMember(String),
    #[error("too many requests from this address wait for a login, try again later")]
    Strangers,
    #[error("too many requests to member {0} are in progress, try again later")]
    ForMember(String),
}

#[cfg(test)]
mod tests;
