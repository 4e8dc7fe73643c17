//! The start of a wait, as an atomic value.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A moment, or none.
#[derive(Debug)]
pub(super) struct Since {
    /// In milliseconds since `begun`, plus 1; 0 for none.
    at: AtomicU64,
    begun: Instant,
}

impl Default for Since {
    fn default() -> Self {
        Self { at: AtomicU64::new(0), begun: Instant::now() }
    }
}

impl Since {
    /// Starts counting from now.
    pub(super) fn restart(&self) {
        self.at.store(self.now(), Ordering::Relaxed);
    }

    /// Starts counting, unless it is already counting.
    pub(super) fn begin(&self) {
        if self.at.load(Ordering::Relaxed) == 0 {
            self.restart();
        }
    }

    pub(super) fn stop(&self) {
        // Most writes do not wait, and a load leaves the cache line shared.
        if self.at.load(Ordering::Relaxed) != 0 {
            self.at.store(0, Ordering::Relaxed);
        }
    }

    /// The time until `now`, if it is counting.
    pub(super) fn elapsed(&self, now: Instant) -> Option<Duration> {
        let at = self.at.load(Ordering::Relaxed).checked_sub(1)?;
        Some(now.saturating_duration_since(self.begun + Duration::from_millis(at)))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_from_the_last_restart() {
        let begun = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        let since = Since { begun, ..Since::default() };
        assert_eq!(since.elapsed(Instant::now()), None);
        since.restart();
        assert!(since.elapsed(Instant::now()) < Some(Duration::from_secs(60)));
        let later = Instant::now() + Duration::from_secs(3600);
        since.begin();
        assert!(since.elapsed(later) >= Some(Duration::from_secs(3600)));
        since.stop();
        assert_eq!(since.elapsed(later), None);
    }
}
