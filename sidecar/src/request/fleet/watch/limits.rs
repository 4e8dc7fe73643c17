//! Bounds merged watches by their callers: how many watches at members they hold, and how many bytes of unfinished events.
//! When a bound is reached, what ends is the largest holder's: the newest watch of the largest caller, or the member
//! connection with the most bytes.

use std::sync::Arc;

use ahash::HashMap;
use tokio_util::sync::CancellationToken;

use crate::base::locked::Locked;
use crate::limits::in_flight::Caller;

/// The holders of one shared bound.
#[derive(Debug)]
pub(super) struct Shared {
    all: usize,
    by_caller: usize,
    held: Locked<Held>,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    /// By the order in which they came.
    parts: std::collections::BTreeMap<u64, Part>,
    callers: HashMap<Caller, usize>,
    total: usize,
}

#[derive(Debug)]
struct Part {
    caller: Caller,
    size: usize,
    over: CancellationToken,
}

/// A part of what a bound counts. It counts until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    shared: Arc<Shared>,
    id: u64,
    caller: Caller,
    over: CancellationToken,
}

/// There is no room for this holder, who holds most.
#[derive(Debug)]
pub(super) struct Full;

/// What ends first of the largest holder's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    Newest,
    Largest,
}

impl Shared {
    pub(super) fn new(all: usize, by_caller: usize) -> Arc<Self> {
        Arc::new(Self { all, by_caller, held: Locked::default() })
    }

    /// Counts a new part.
    pub(super) fn hold(self: &Arc<Self>, caller: Caller, size: usize, first: First) -> Result<Share, Full> {
        let over = CancellationToken::new();
        let id = self.held.with(|held| {
            held.next += 1;
            let id = held.next;
            held.parts.insert(id, Part { caller, size: 0, over: over.clone() });
            id
        });
        let share = Share { shared: self.clone(), id, caller, over };
        share.resize(size, first)?;
        Ok(share)
    }
}

impl Held {
    fn add(&mut self, id: u64, size: usize) -> Option<Caller> {
        let part = self.parts.get_mut(&id)?;
        let caller = part.caller;
        let of_caller = self.callers.entry(caller).or_default();
        *of_caller = *of_caller - part.size + size;
        if *of_caller == 0 {
            self.callers.remove(&caller);
        }
        self.total = self.total - part.size + size;
        part.size = size;
        Some(caller)
    }

    /// The part of a caller that must end first.
    fn first(&self, caller: Caller, first: First) -> Option<u64> {
        let parts = self.parts.iter().filter(|(_, part)| part.caller == caller && part.size > 0);
        match first {
            First::Newest => parts.map(|(id, _)| *id).next_back(),
            First::Largest => parts.max_by_key(|(_, part)| part.size).map(|(id, _)| *id),
        }
    }
}

impl Share {
    /// Changes the size. If that exceeds a bound, parts of the largest holder end, and this one is refused if it is one
    /// of them.
    pub(super) fn resize(&self, size: usize, first: First) -> Result<(), Full> {
        let Shared { all, by_caller, held } = &*self.shared;
        held.with(|held| {
            let Some(caller) = held.add(self.id, size) else { return Err(Full) };
            loop {
                let largest = held.callers.iter().max_by_key(|(_, size)| **size).map(|(caller, _)| *caller);
                let of_caller = held.callers.get(&caller).copied().unwrap_or_default();
                let exceeding = match largest {
                    _ if of_caller > *by_caller => caller,
                    Some(largest) if held.total > *all => largest,
                    _ => return Ok(()),
                };
                let Some(id) = held.first(exceeding, first) else { return Err(Full) };
                // What ends gives its place back at once, although it takes a moment to end.
                held.add(id, 0);
                let Some(part) = held.parts.remove(&id) else { return Err(Full) };
                part.over.cancel();
                if id == self.id {
                    return Err(Full);
                }
            }
        })
    }

    /// An empty share of the same holder, after this one had to end.
    pub(super) fn renewed(&self) -> Result<Self, Full> {
        self.shared.hold(self.caller, 0, First::Largest)
    }

    /// Ends with this share's place.
    pub(super) fn over(&self) -> &CancellationToken {
        &self.over
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shared.held.with(|held| {
            held.add(self.id, 0);
            held.parts.remove(&self.id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JANE: Caller = Caller::of_hash(1);
    const MALLORY: Caller = Caller::of_hash(2);

    #[test]
    fn caller_is_refused_above_the_own_share() {
        let shared = Shared::new(100, 10);
        let held = shared.hold(MALLORY, 10, First::Newest).unwrap();
        let jane = shared.hold(JANE, 1, First::Newest).unwrap();
        assert!(shared.hold(MALLORY, 1, First::Newest).is_err());
        assert!(!held.over().is_cancelled() && !jane.over().is_cancelled());
        drop(held);
        shared.hold(MALLORY, 10, First::Newest).unwrap();
    }

    #[test]
    fn newest_watch_of_the_largest_caller_ends() {
        let shared = Shared::new(10, 10);
        let mallory = [4, 4].map(|size| shared.hold(MALLORY, size, First::Newest).unwrap());
        let jane = shared.hold(JANE, 3, First::Newest).unwrap();
        assert_eq!(mallory.each_ref().map(|share| share.over().is_cancelled()), [false, true]);
        assert!(!jane.over().is_cancelled());
        drop(mallory);
        shared.hold(JANE, 7, First::Newest).unwrap();
        assert_eq!(shared.held.with(|held| (held.total, held.callers.len())), (3, 1));
    }

    #[test]
    fn largest_event_of_the_largest_caller_ends() {
        let shared = Shared::new(100, 100);
        let [small, large] = [10, 60].map(|size| shared.hold(MALLORY, size, First::Largest).unwrap());
        let jane = shared.hold(JANE, 20, First::Largest).unwrap();
        jane.resize(35, First::Largest).unwrap();
        assert!(large.over().is_cancelled() && !small.over().is_cancelled());
        assert!(large.resize(1, First::Largest).is_err(), "it must end");
        assert!(small.resize(95, First::Largest).is_err(), "it is the largest now");
    }
}
