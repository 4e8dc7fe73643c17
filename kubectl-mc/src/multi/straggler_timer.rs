//! The time that a silent cluster may delay the clusters after it. Output is in the order of the clusters, and a
//! straggler comes last.

use std::time::Duration;

use tokio::time::Instant;

/// Since when nothing new has come.
#[derive(Debug)]
pub(crate) struct StragglerTimer {
    begun: Instant,
    last: Instant,
    grace: Duration,
}

impl StragglerTimer {
    /// Begins now.
    pub(crate) fn new(grace: Duration) -> Self {
        let begun = Instant::now();
        Self { begun, last: begun, grace }
    }

    /// A cluster that had said nothing before has something to say.
    pub(crate) fn moved(&mut self) {
        self.last = Instant::now();
    }

    /// When a silent cluster loses its place: after the grace, or after as long again as the others took.
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
