//! Computes the pause before an agent dials again, with full jitter, so that thousands of agents that lost
//! the same replica do not reconnect at the same time.

use std::time::Duration;

use crate::base::random;

/// The pause before the next attempt, from the results of earlier ones.
#[derive(Debug)]
pub(super) struct Backoff {
    longest: Duration,
    times_held: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { longest: FIRST, times_held: 0 }
    }
}

impl Backoff {
    /// The host was unreachable or refused; a `lasting` refusal needs a change on the host or of the
    /// credential.
    pub(super) fn has_failed(&mut self, lasting: bool) {
        self.times_held = 0;
        self.longest = (self.longest * 2).min(if lasting { LONGEST_REFUSED } else { LONGEST });
    }

    /// The dialed replica already has a tunnel of this agent. `has_other` says whether there is another
    /// replica, if that is known. Otherwise the agent searches less often after a few such attempts.
    pub(super) fn is_held(&mut self, has_other: Option<bool>) {
        self.times_held += 1;
        self.longest = match has_other {
            Some(false) => NO_OTHER,
            None if self.times_held >= TRIES => SEARCH,
            // A load balancer may always select the same replica.
            Some(true) if self.times_held > MANY_TRIES => (self.longest * 2).min(SEARCH),
            _ => FIRST,
        };
    }

    pub(super) fn pause(&self) -> Duration {
        LEAST + self.longest.mul_f64(random::fraction())
    }
}

const LEAST: Duration = Duration::from_millis(500);
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
const LONGEST_REFUSED: Duration = Duration::from_secs(300);
/// A load balancer that selects one of two replicas at random misses the other one six times in a row in one
/// of 64 cases.
const TRIES: u32 = 6;
/// Ten times in a row, in one of 1,024 cases: this affects a few of thousands of agents that lost a
/// replica.
const MANY_TRIES: u32 = 10;
const SEARCH: Duration = Duration::from_secs(15);
/// Longest time until the agent has a tunnel to a replica that starts later.
const NO_OTHER: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let mut backoff = Backoff::default();
        assert!(backoff.pause() >= LEAST && backoff.pause() <= LEAST + FIRST);
        (0..20).for_each(|_| backoff.has_failed(false));
        assert_eq!(backoff.longest, LONGEST);
        (0..20).for_each(|_| backoff.has_failed(true));
        assert_eq!(backoff.longest, LONGEST_REFUSED);
    }

    #[test]
    fn search_for_another_replica_slows_down() {
        let mut backoff = Backoff::default();
        (1..TRIES).for_each(|_| backoff.is_held(None));
        assert_eq!(backoff.longest, FIRST);
        backoff.is_held(None);
        assert_eq!(backoff.longest, SEARCH);
    }

    #[test]
    fn known_other_replica_is_searched_with_short_pauses() {
        let mut backoff = Backoff::default();
        (0..MANY_TRIES).for_each(|_| backoff.is_held(Some(true)));
        assert_eq!(backoff.longest, FIRST);
        backoff.is_held(Some(true));
        assert_eq!(backoff.longest, 2 * FIRST);
        (0..20).for_each(|_| backoff.is_held(Some(true)));
        assert_eq!(backoff.longest, SEARCH);
    }

    #[test]
    fn only_replica_is_dialed_rarely() {
        let mut backoff = Backoff::default();
        backoff.is_held(Some(false));
        assert_eq!(backoff.longest, NO_OTHER);
        backoff.is_held(Some(true));
        assert_eq!(backoff.longest, FIRST);
    }
}
