//! Limits the resources that callers hold in the fleet view: watches at members, and buffered bytes of objects.
//! When a limit is reached, the newest watch or the largest response of the caller that holds the most ends.

use std::sync::Arc;

use ahash::HashMap;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::base::locked::Locked;
use crate::limits::cutoff::Cutoff;
use crate::limits::in_flight::Caller;

/// The holders of one shared bound.
#[derive(Debug)]
pub struct Shared {
    all: usize,
    by_caller: usize,
    held: Locked<Held>,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    /// In the order of their creation.
    parts: std::collections::BTreeMap<u64, Part>,
    callers: HashMap<Caller, usize>,
    total: usize,
}

#[derive(Debug)]
struct Part {
    caller: Caller,
    size: usize,
    over: CancellationToken,
    /// Ends the answer that holds it, if its client reads nothing.
    cutoff: Option<Arc<Cutoff>>,
}

/// A part of what a bound counts. It counts until it is dropped.
#[derive(Debug)]
pub struct Share {
    shared: Arc<Shared>,
    id: u64,
    caller: Caller,
    over: CancellationToken,
}

/// The bound is exceeded, and this caller holds the most.
#[derive(Debug)]
pub struct Full;

/// Which part of the caller that holds the most ends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    Newest,
    Largest,
}

impl Shared {
    pub fn new(all: usize, by_caller: usize) -> Arc<Self> {
        Arc::new(Self { all, by_caller, held: Locked::default() })
    }

    /// Counts a new part.
    pub fn hold(self: &Arc<Self>, caller: Caller, size: usize, first: First) -> Result<Share, Full> {
        self.hold_of(caller, size, first, CancellationToken::new(), None)
    }

    /// Counts what an answer holds, which ends with this part.
    pub fn hold_of_answer(self: &Arc<Self>, caller: Caller, cutoff: &Arc<Cutoff>) -> Result<Share, Full> {
        self.hold_of(caller, 0, First::Largest, CancellationToken::new(), Some(cutoff.clone()))
    }

    /// Counts a new part of something that ends with it.
    fn hold_of(
        self: &Arc<Self>,
        caller: Caller,
        size: usize,
        first: First,
        over: CancellationToken,
        cutoff: Option<Arc<Cutoff>>,
    ) -> Result<Share, Full> {
        let id = self.held.with(|held| {
            held.next += 1;
            let id = held.next;
            held.parts.insert(id, Part { caller, size: 0, over: over.clone(), cutoff });
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

    /// The caller that holds most.
    fn largest(&self) -> Option<Caller> {
        self.callers.iter().max_by_key(|(_, size)| **size).map(|(caller, _)| *caller)
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
    /// Changes the size. If that exceeds a bound, parts of the caller that holds the most end, and this call fails if
    /// this part is one of them.
    pub fn resize(&self, size: usize, first: First) -> Result<(), Full> {
        let Shared { all, by_caller, held } = &*self.shared;
        held.with(|held| {
            let Some(caller) = held.add(self.id, size) else { return Err(Full) };
            loop {
                let of_caller = held.callers.get(&caller).copied().unwrap_or_default();
                let exceeding = match () {
                    () if of_caller > *by_caller => caller,
                    () if held.total > *all => held.largest().unwrap_or(caller),
                    () => return Ok(()),
                };
                let Some(id) = held.first(exceeding, first) else { return Err(Full) };
                // What ends gives its place back at once, although it takes a moment to end.
                held.add(id, 0);
                let Some(part) = held.parts.remove(&id) else { return Err(Full) };
                part.over.cancel();
                if let Some(cutoff) = part.cutoff {
                    cutoff.cut();
                }
                if id == self.id {
                    return Err(Full);
                }
            }
        })
    }

    /// An empty share of the same holder, after this one had to end.
    pub fn renewed(&self) -> Result<Self, Full> {
        self.shared.hold(self.caller, 0, First::Largest)
    }

    /// Bytes of the same holder. If they must end, that is over.
    pub fn count(&self, bytes: Vec<u8>, over: &CancellationToken) -> Result<Bytes, Full> {
        if bytes.len() < SMALL {
            return Ok(bytes.into());
        }
        let share = self.shared.hold_of(self.caller, bytes.len(), First::Largest, over.clone(), None)?;
        Ok(Bytes::from_owner(Counted { bytes, _share: share }))
    }

    /// Ends with this share's place.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }
}

/// Bytes that count until they are sent.
struct Counted {
    bytes: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
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

/// Few of these are held at once.
const SMALL: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

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

    #[test]
    fn answer_that_must_end_is_cut_without_its_client() {
        let shared = Shared::new(100, 100);
        let cutoff = Arc::default();
        let answer = shared.hold_of_answer(MALLORY, &cutoff).unwrap();
        answer.resize(60, First::Largest).unwrap();
        let cx = Context::from_waker(Waker::noop());
        assert_eq!(cutoff.poll_cut(&cx), Poll::Pending);
        shared.hold(JANE, 50, First::Largest).unwrap();
        assert_eq!(cutoff.poll_cut(&cx), Poll::Ready(()));
    }

    #[test]
    fn sent_bytes_count_until_they_are_dropped() {
        let shared = Shared::new(100_000, 100_000);
        let share = shared.hold(JANE, 0, First::Largest).unwrap();
        let over = CancellationToken::new();
        let first = share.count(vec![0; 60_000], &over).unwrap();
        let clone = first.clone();
        drop(first);
        assert!(share.count(vec![0; 60_000], &over).is_err() || over.is_cancelled());
        drop(clone);
        share.count(vec![0; 90_000], &CancellationToken::new()).unwrap();
    }
}
