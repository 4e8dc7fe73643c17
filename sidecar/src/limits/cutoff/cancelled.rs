//! Delays the return of permits of cancelled requests. The member may still process a request that its client
//! cancelled before there was an answer. So once a caller has cancelled more than [`FREE`] requests within a
//! second, the permits of further cancelled requests are held for [`KEPT`]. A client that cancels
//! every request gets no more than a caller's share. A client that exits with requests in flight
//! can start again at once.

use std::time::{Duration, Instant};

use ahash::{HashMap, HashMapExt};

use crate::base::locked::Locked;
use crate::limits::in_flight::{Caller, Permit};

#[derive(Debug)]
pub(super) struct Cancelled(Locked<State>);

/// The permits of one request: one of the sidecar's bound, and one of its member's bound.
pub(super) type Permits = [Option<Permit>; 2];

#[derive(Debug)]
struct State {
    /// Each with the time of its return.
    kept: Vec<(Instant, Permits)>,
    /// The start of the current period, and how many requests each caller has cancelled since then.
    recent: HashMap<Caller, (Instant, usize)>,
}

impl Default for Cancelled {
    fn default() -> Self {
        Self(Locked::new(State { kept: Vec::new(), recent: HashMap::new() }))
    }
}

impl Cancelled {
    /// Returns the permits now, or keeps them until [`Self::expired`] takes them.
    pub(super) fn keep(&self, permits: Permits, now: Instant) {
        let Some(caller) = permits.iter().flatten().find_map(Permit::caller) else { return };
        let free = self.0.with(|state| {
            let (since, count) = state.recent.entry(caller).or_insert((now, 0));
            if *since + PERIOD <= now {
                (*since, *count) = (now, 0);
            }
            *count += 1;
            if *count <= FREE {
                return Some(permits);
            }
            state.kept.push((now + KEPT, permits));
            None
        });
        // Dropped outside the lock, because a returned permit wakes the next request in the queue.
        drop(free);
    }

    /// Takes the permits whose time is over.
    pub(super) fn expired(&self, now: Instant) -> Vec<(Instant, Permits)> {
        self.0.with(|state| {
            state.recent.retain(|_, (since, _)| *since + PERIOD > now);
            state.kept.extract_if(.., |(until, _)| *until <= now).collect()
        })
    }
}

/// Requests that a caller may cancel within [`PERIOD`] with their permits returned at once.
const FREE: usize = 100;
const PERIOD: Duration = Duration::from_secs(1);
/// How long the permits of further requests are held.
const KEPT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::in_flight::{Bound, Size};

    const JANE: Caller = Caller::of_hash(1);

    fn cancel(cancelled: &Cancelled, bound: &Bound, count: usize, now: Instant) {
        for _ in 0..count {
            cancelled.keep([bound.admit_now(JANE), None], now);
        }
    }

    #[test]
    fn first_cancelled_requests_return_their_permits() {
        let (cancelled, bound) = (Cancelled::default(), Bound::new(Size::without_queue(1)));
        cancel(&cancelled, &bound, FREE, Instant::now());
        assert!(bound.admit_now(JANE).is_some());
    }

    #[test]
    fn further_cancelled_requests_keep_their_permits() {
        let (cancelled, bound) = (Cancelled::default(), Bound::new(Size::without_queue(1)));
        let now = Instant::now();
        cancel(&cancelled, &bound, FREE + 1, now);
        drop(cancelled.expired(now + KEPT - Duration::from_millis(1)));
        assert!(bound.admit_now(JANE).is_none());
        drop(cancelled.expired(now + KEPT));
        assert!(bound.admit_now(JANE).is_some());
    }

    #[test]
    fn next_second_resets_count_and_returns_all_permits() {
        let (cancelled, bound) = (Cancelled::default(), Bound::new(Size::without_queue(1)));
        let now = Instant::now();
        cancel(&cancelled, &bound, FREE, now);
        cancel(&cancelled, &bound, FREE, now + PERIOD);
        assert!(bound.admit_now(JANE).is_some());
        drop(cancelled.expired(now + 2 * PERIOD));
        assert!(cancelled.0.with(|state| state.recent.is_empty() && state.kept.is_empty()));
    }

    #[test]
    fn count_lasts_for_its_second() {
        let (cancelled, bound) = (Cancelled::default(), Bound::new(Size::without_queue(1)));
        let now = Instant::now();
        cancel(&cancelled, &bound, FREE, now);
        drop(cancelled.expired(now + PERIOD / 2));
        cancel(&cancelled, &bound, 1, now + PERIOD / 2);
        assert!(bound.admit_now(JANE).is_none());
    }

    #[test]
    fn cancelled_requests_count_per_caller() {
        let (cancelled, bound) = (Cancelled::default(), Bound::new(Size::without_queue(4).with_share(1)));
        let (joe, now) = (Caller::of_hash(2), Instant::now());
        cancel(&cancelled, &bound, FREE + 1, now);
        cancelled.keep([bound.admit_now(joe), None], now);
        assert!(bound.admit_now(JANE).is_none() && bound.admit_now(joe).is_some());
    }
}
