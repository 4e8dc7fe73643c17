//! How long an agent waits before it dials again: full jitter, so that thousands that lost the same replica do not come
//! back together.

use std::time::Duration;

use crate::random;

/// The pause before the next attempt, by what became of those before.
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
    /// The host could not be reached, or refused; a `lasting` refusal needs a change on the host or of the credential.
    pub(super) fn has_failed(&mut self, lasting: bool) {
        self.times_held = 0;
        self.longest = (self.longest * 2).min(if lasting { LONGEST_REFUSED } else { LONGEST });
    }

    /// The replica that was found has a tunnel of this agent already. Whether there is another one may be known; if not,
    /// there is none after a few of these.
    pub(super) fn is_held(&mut self, has_other: Option<bool>) {
        self.times_held += 1;
        self.longest = match has_other {
            Some(false) => NO_OTHER,
            None if self.times_held >= TRIES => SEARCH,
            // A balancer may always pick the same one.
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
/// A load balancer that picks one of two misses the other six times in a row in one of 64 cases.
const TRIES: u32 = 6;
/// The same in one case of 1,024: of thousands of agents that lost a replica, a few.
const MANY_TRIES: u32 = 10;
const SEARCH: Duration = Duration::from_secs(15);
/// When a further replica starts, the agent has its tunnel to it so much later.
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
    fn known_replica_is_found_within_seconds() {
        let mut backoff = Backoff::default();
        (0..MANY_TRIES).for_each(|_| backoff.is_held(Some(true)));
        assert_eq!(backoff.longest, FIRST);
        backoff.is_held(Some(true));
        assert_eq!(backoff.longest, 2 * FIRST);
        (0..20).for_each(|_| backoff.is_held(Some(true)));
        assert_eq!(backoff.longest, SEARCH);
    }

    #[test]
    fn only_replica_is_rarely_asked() {
        let mut backoff = Backoff::default();
        backoff.is_held(Some(false));
        assert_eq!(backoff.longest, NO_OTHER);
        backoff.is_held(Some(true));
        assert_eq!(backoff.longest, FIRST);
    }
}
