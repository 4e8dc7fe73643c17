//! Permits of requests that their client cancelled before there was an answer. The member may still be at work on
//! such a request, so a caller's permits stay taken for [`KEPT`] once the caller has cancelled more than [`FREE`]
//! within a second: a client that cancels everything gets no more than a caller's share, and one that ends with its
//! requests under way can begin again at once.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use ahash::{HashMap, HashMapExt};

use crate::request::limits::{Caller, Permit};

#[derive(Debug)]
#[expect(
    clippy::disallowed_types,
    reason = "held for a few steps on a map and a list, and never over an await"
)]
pub(super) struct Cancelled(std::sync::Mutex<State>);

/// What one request held: its permit of all, and its member's.
pub(super) type Permits = [Option<Permit>; 2];

#[derive(Debug)]
struct State {
    /// With the moment at which they are given back.
    kept: Vec<(Instant, Permits)>,
    /// How many requests each caller has cancelled since the moment.
    recent: HashMap<Caller, (Instant, usize)>,
}

impl Default for Cancelled {
    fn default() -> Self {
        Self(State { kept: Vec::new(), recent: HashMap::new() }.into())
    }
}

impl Cancelled {
    /// Gives the permits back, or keeps them until [`Self::expired`].
    pub(super) fn keep(&self, permits: Permits, now: Instant) {
        let Some(caller) = permits.iter().flatten().find_map(Permit::caller) else { return };
        let free = self.with(|state| {
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
        // Outside of the lock: a permit that is given back wakes the next request in the queue.
        drop(free);
    }

    /// The permits whose time is over.
    pub(super) fn expired(&self, now: Instant) -> Vec<(Instant, Permits)> {
        self.with(|state| {
            state.recent.retain(|_, (since, _)| *since + PERIOD > now);
            state.kept.extract_if(.., |(until, _)| *until <= now).collect()
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Requests that a caller may cancel within [`PERIOD`] without a consequence.
const FREE: usize = 100;
const PERIOD: Duration = Duration::from_secs(1);
/// How long the permits of further ones stay taken.
const KEPT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::limits::{Bound, Size};

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
    fn next_second_is_free_again_and_nothing_is_left() {
        let (cancelled, bound) = (Cancelled::default(), Bound::new(Size::without_queue(1)));
        let now = Instant::now();
        cancel(&cancelled, &bound, FREE, now);
        cancel(&cancelled, &bound, FREE, now + PERIOD);
        assert!(bound.admit_now(JANE).is_some());
        drop(cancelled.expired(now + 2 * PERIOD));
        assert!(cancelled.with(|state| state.recent.is_empty() && state.kept.is_empty()));
    }

    #[test]
    fn callers_do_not_pay_for_each_other() {
        let (cancelled, bound) = (Cancelled::default(), Bound::new(Size::without_queue(4).with_share(1)));
        let (joe, now) = (Caller::of_hash(2), Instant::now());
        cancel(&cancelled, &bound, FREE + 1, now);
        cancelled.keep([bound.admit_now(joe), None], now);
        assert!(bound.admit_now(JANE).is_none() && bound.admit_now(joe).is_some());
    }
}
