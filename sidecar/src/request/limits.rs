//! How much may be under way at once (apiserver: `filters/maxinflight.go`, and the fairness of
//! `util/flowcontrol`): reads and writes apart, in all and per member. What is admitted in all is
//! many times what one member may hold, so that a few members that hang leave room for the others;
//! and of each bound one caller gets a share, so that one who floods leaves room for the others.
//! Long-running requests, which upstream does not count, have bounds of their own: tunnels in all, and
//! everything else (watches, followed logs) in all and per member.
//!
//! The same bounds serve what is shared by address before a caller is known ([`crate::server::listener`]) and the
//! reviews that the host is asked for: any key tells the holders apart.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::RandomState;
use kubectl_mc_api::ClusterName;
use tokio::time::{self, timeout};

mod queue;

pub use queue::{Permit, Usage};
use queue::{Place, Queue};

/// The limits of this process.
#[derive(Debug)]
pub struct Limits {
    reads: Bound,
    writes: Bound,
    tunnels: Bound,
    watches: Bound,
    agents: Bound,
    callers: RandomState,
}

/// A holder of places, as limits tell them apart: a user or an address. Two that hash alike share a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller(u64);

/// How large a bound is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many may be under way at once; 0 is no limit.
    pub places: usize,
    /// How many of them one caller may hold while no other caller holds any.
    pub share: usize,
    /// How many requests of one caller may wait for a place.
    pub queued_per_caller: usize,
}

impl Size {
    /// So many places, of which a quarter is left for the others, except where that is not even one.
    pub const fn new(places: usize, queued_per_caller: usize) -> Self {
        Self { places, share: places - places / 4, queued_per_caller }
    }

    /// Places for which no request waits, because they may be held for hours.
    pub const fn without_queue(places: usize) -> Self {
        Self::new(places, 0)
    }

    /// The same with another share for each caller.
    pub const fn with_share(self, share: usize) -> Self {
        Self { share, ..self }
    }
}

/// How much one member may hold.
#[derive(Clone, Copy, Debug)]
pub struct MemberSize {
    pub in_flight: Size,
    pub watches: Size,
}

/// The bounds of one member.
#[derive(Clone, Debug)]
pub struct MemberBounds {
    in_flight: Bound,
    watches: Bound,
}

/// One number that may not be passed; `None` is no limit.
#[derive(Clone, Debug)]
pub struct Bound(Option<Arc<Queue>>);

impl Limits {
    pub fn new(reads: Size, writes: Size, tunnels: usize, watches: usize, agents: usize) -> Self {
        let [tunnels, watches, agents] = [tunnels, watches, agents].map(Size::without_queue);
        let [reads, writes, tunnels, watches, agents] =
            [reads, writes, tunnels, watches, agents].map(Bound::new);
        Self { reads, writes, tunnels, watches, agents, callers: RandomState::new() }
    }

    /// The holder that a user is in every bound.
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

    /// Admits the tunnel of a member's agent, or refuses it at once.
    pub fn admit_agent(&self, caller: Caller) -> Result<Permit, Error> {
        self.agents.admit_now(caller).ok_or(Error::Agents)
    }

    /// Admits a long-running request that keeps its protocol, or refuses it at once.
    pub fn admit_watch(&self, caller: Caller) -> Result<Permit, Error> {
        self.watches.admit_now(caller).ok_or(Error::Watches)
    }
}

impl Limits {
    /// What is taken of each bound: reads, writes, tunnels, watches and agents.
    pub fn usage(&self) -> [Usage; 5] {
        [&self.reads, &self.writes, &self.tunnels, &self.watches, &self.agents].map(Bound::usage)
    }
}

impl Caller {
    /// A holder that is not a user, by the hash of what it is.
    pub const fn of_hash(hash: u64) -> Self {
        Self(hash)
    }
}

impl MemberBounds {
    pub fn new(size: MemberSize) -> Self {
        Self { in_flight: Bound::new(size.in_flight), watches: Bound::new(size.watches) }
    }

    /// Admits a request that is not long-running to `member`, as soon as there is room for its caller.
    pub async fn admit(&self, member: &ClusterName, caller: Caller, due: Instant) -> Result<Permit, Error> {
        self.in_flight.admit(caller, due).await.ok_or_else(|| Error::ForMember(member.to_string()))
    }

    /// What is taken of the bound of requests, and of that of watches.
    pub fn usage(&self) -> [Usage; 2] {
        [self.in_flight.usage(), self.watches.usage()]
    }

    /// Admits a long-running request to `member`, or refuses it at once.
    pub fn admit_watch(&self, member: &ClusterName, caller: Caller) -> Result<Permit, Error> {
        self.watches.admit_now(caller).ok_or_else(|| Error::WatchesOfMember(member.to_string()))
    }
}

impl Bound {
    pub fn new(size: Size) -> Self {
        Self((size.places > 0).then(|| Arc::new(Queue::new(size))))
    }

    /// What is taken of it.
    pub fn usage(&self) -> Usage {
        self.0.as_ref().map_or_else(Usage::default, |queue| queue.usage())
    }

    /// Admits one more at once, or says that there is no room.
    pub fn admit_now(&self, caller: Caller) -> Option<Permit> {
        let Some(queue) = &self.0 else { return Some(Permit::unlimited()) };
        match queue.place(caller)? {
            Place::Free(permit) => Some(permit),
            Place::Queued(_) => None,
        }
    }

    /// Admits one more, at once or after a while, or says that there is no room. Who waits does not
    /// wait until the request is `due`: an answer would no longer be in time.
    pub async fn admit(&self, caller: Caller, due: Instant) -> Option<Permit> {
        let now = time::Instant::now();
        let wait = (time::Instant::from_std(due).saturating_duration_since(now) / 4).min(LONGEST_WAIT);
        self.admit_within(caller, wait).await
    }

    /// Admits one more, at once or after at most `wait`, or says that there is no room.
    pub async fn admit_within(&self, caller: Caller, wait: Duration) -> Option<Permit> {
        let Some(queue) = &self.0 else { return Some(Permit::unlimited()) };
        match queue.place(caller)? {
            Place::Free(permit) => Some(permit),
            Place::Queued(turn) => timeout(wait, turn).await.ok().flatten(),
        }
    }
}

/// A quarter of the time that a request has is the wait that upstream grants it; that of a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// Why a request must come again later.
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
