//! Limits the concurrent requests to each member.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use kubectl_mc_api::ClusterName;

use super::bound::Bound;
use super::caller::Caller;
use super::error::Error;
use super::queue::{Permit, Queue};
use super::size::{Size, Usage};
use crate::base::locked::Locked;

/// The sizes of one member's bounds.
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
    refused: Arc<Refused>,
}

/// Refusals, counted over the bounds of all members.
#[derive(Debug, Default)]
pub(super) struct Refused {
    pub(super) in_flight: AtomicU64,
    pub(super) watches: AtomicU64,
}

/// Creates the bounds of each member, and keeps counts over all of them.
#[derive(Debug)]
pub struct MemberLimits {
    pub(super) size: MemberSize,
    pub(super) refused: Arc<Refused>,
    members: Locked<Vec<Member>>,
}

/// The bounds of a member, unless it was removed.
#[derive(Debug)]
struct Member {
    in_flight: Weak<Queue>,
    watches: Weak<Queue>,
}

impl MemberLimits {
    pub fn new(size: MemberSize) -> Arc<Self> {
        Arc::new(Self { size, refused: Arc::default(), members: Locked::default() })
    }

    /// Creates the bounds of another member.
    pub fn bounds(&self) -> MemberBounds {
        let bounds = MemberBounds { refused: self.refused.clone(), ..MemberBounds::new(self.size) };
        let member = Member {
            in_flight: Arc::downgrade(&bounds.in_flight.0),
            watches: Arc::downgrade(&bounds.watches.0),
        };
        self.members.with(|members| {
            members.retain(|member| member.in_flight.strong_count() > 0);
            members.push(member);
        });
        bounds
    }

    /// How many requests and watches are in flight to all members.
    pub(super) fn in_use(&self) -> (usize, usize) {
        let in_use = |queue: &Weak<Queue>| {
            queue.upgrade().map_or(0, |queue| queue.snapshot().held.into_iter().sum::<usize>())
        };
        self.members.with(|members| {
            let sum = |of: fn(&Member) -> &Weak<Queue>| members.iter().map(|member| in_use(of(member))).sum();
            (sum(|member| &member.in_flight), sum(|member| &member.watches))
        })
    }

    /// The number of members with bounds.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.members.with(|members| members.len())
    }
}

impl MemberBounds {
    pub fn new(size: MemberSize) -> Self {
        let (in_flight, watches) = (Bound::new(size.in_flight), Bound::new(size.watches));
        Self { in_flight, watches, refused: Arc::default() }
    }

    /// Admits a request to `member`, as soon as there is room for its caller. A request without `due` is
    /// long-running, and is admitted or refused at once.
    pub async fn admit(
        &self,
        member: &ClusterName,
        caller: Caller,
        due: Option<Instant>,
    ) -> Result<Permit, Error> {
        match due {
            Some(due) => self.in_flight.admit(caller, due).await.ok_or_else(|| {
                self.refused.in_flight.fetch_add(1, Ordering::Relaxed);
                Error::ForMember(member.to_string())
            }),
            None => self.watches.admit_now(caller).ok_or_else(|| {
                self.refused.watches.fetch_add(1, Ordering::Relaxed);
                Error::WatchesOfMember(member.to_string())
            }),
        }
    }

    /// The usage of the bound of requests, and of the bound of watches.
    pub fn usage(&self) -> [Usage; 2] {
        [self.in_flight.usage(), self.watches.usage()]
    }
}
