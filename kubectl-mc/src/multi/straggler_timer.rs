//! Times how long a silent cluster may delay the clusters after it. Output is in the order of the clusters,
//! and a straggler comes last.

use std::time::Duration;

use tokio::time::Instant;

/// Tracks the time since the last progress.
#[derive(Debug)]
pub(crate) struct StragglerTimer {
    begun: Instant,
    last: Instant,
    grace: Duration,
}

impl StragglerTimer {
    /// Starts the timer.
    pub(crate) fn new(grace: Duration) -> Self {
        let begun = Instant::now();
        Self { begun, last: begun, grace }
    }

    /// Records that a cluster has responded for the first time.
    pub(crate) fn moved(&mut self) {
        self.last = Instant::now();
    }

    /// When a silent cluster loses its place: after the grace period, or after the time that the others took,
    /// if that is longer.
    pub(crate) fn over(&self) -> Instant {
        self.last + self.grace.max(self.last - self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn straggler_gets_the_grace_or_the_time_of_the_others() {
        let grace = Duration::from_secs(1);
        let mut quiet = StragglerTimer::new(grace);
        let begun = Instant::now();
        assert_eq!(quiet.over(), begun + grace);
        tokio::time::advance(grace / 2).await;
        quiet.moved();
        assert_eq!(quiet.over(), begun + grace / 2 + grace);
        tokio::time::advance(grace * 3).await;
        quiet.moved();
        assert_eq!(quiet.over(), begun + grace * 7);
    }
}
