//! Limits concurrent requests (apiserver: `filters/maxinflight.go`, and the fairness of `util/flowcontrol`).
//! Reads and writes have separate bounds, in total and per member. The total is many times the bound of one
//! member, so a few members that hang leave room for the others. Each limit reserves seats for each priority level
//! ([`Level`]), so a flood in one level leaves room for the others. Within a level each caller has a share, so a flood
//! of one caller leaves room for the others there. Long-running requests, which upstream does not count, have separate
//! bounds: tunnels in total, and everything else (watches, followed logs) in total and per member. These have no
//! levels.
//!
//! The same kind of bound limits connections and requests by address before a caller is known
//! ([`crate::server::listener`]), and the reviews at the host. Any key can identify a holder.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ahash::RandomState;

mod bound;
mod caller;
mod counts;
mod error;
pub mod largest;
mod level;
mod member;
mod metrics;
mod queue;
mod seats;
mod size;

pub use bound::Bound;
pub use caller::Caller;
pub use error::Error;
pub use level::{InvalidShares, Level, Shares};
pub use member::{MemberBounds, MemberLimits, MemberSize};
pub use queue::Permit;
pub use size::{Size, Usage};

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

/// A bound that counts what it refuses.
#[derive(Debug)]
struct WithRefusals {
    bound: Bound,
    refused: AtomicU64,
}

impl Limits {
    pub fn new(reads: Size, writes: Size, tunnels: usize, watches: usize, agents: usize) -> Self {
        let [reads, writes] = [reads, writes].map(Bound::of_all);
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

impl WithRefusals {
    fn admit_now(&self, caller: Caller) -> Option<Permit> {
        let permit = self.bound.admit_now(caller);
        if permit.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        permit
    }
}

#[cfg(test)]
mod tests;
