//! Limits how often the agents of a cluster may ask for a tunnel, with a token bucket.

use tokio::time::Instant;

/// How many more tunnels the agents of a cluster may ask for now.
#[derive(Debug)]
pub(super) struct Attempts {
    left: f64,
    refilled: Instant,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { left: MAX_ATTEMPTS, refilled: Instant::now() }
    }
}

impl Attempts {
    pub(super) fn take(&mut self) -> bool {
        let now = Instant::now();
        let refill = now.duration_since(self.refilled).as_secs_f64() * ATTEMPTS_PER_SECOND;
        (self.left, self.refilled) = ((self.left + refill).min(MAX_ATTEMPTS), now);
        let is_left = self.left >= 1.0;
        if is_left {
            self.left -= 1.0;
        }
        is_left
    }
}

/// Two agents that dial two replicas each, and a few attempts that reach the same replica twice.
pub(super) const MAX_ATTEMPTS: f64 = 20.0;
const ATTEMPTS_PER_SECOND: f64 = 1.0;
