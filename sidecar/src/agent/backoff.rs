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

    /// The replica that was found has a tunnel of this agent already. After a few of these there is no other one.
    pub(super) fn is_held(&mut self) {
        self.times_held += 1;
        self.longest = if self.times_held < TRIES { FIRST } else { ONE_REPLICA };
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
const ONE_REPLICA: Duration = Duration::from_secs(15);

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
    fn the_only_replica_is_not_asked_without_end() {
        let mut backoff = Backoff::default();
        (1..TRIES).for_each(|_| backoff.is_held());
        assert_eq!(backoff.longest, FIRST);
        backoff.is_held();
        assert_eq!(backoff.longest, ONE_REPLICA);
    }
}
