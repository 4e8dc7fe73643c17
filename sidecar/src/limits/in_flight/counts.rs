//! Counts requests by priority level in a bound of all requests, with the names of a kube-apiserver
//! (apiserver: `util/flowcontrol/metrics`). A bound updates the counts under the lock that it holds anyway.

use std::time::Duration;

use super::seats::ByLevel;

/// The counts of one bound, or the sum of several.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(pub(super) ByLevel<LevelCounts>);

#[derive(Clone, Debug, Default)]
pub(super) struct LevelCounts {
    pub(super) dispatched: u64,
    pub(super) rejected: [u64; Reason::ALL.len()],
    /// Waits of requests that were executed.
    pub(super) executed: Waits,
    /// Waits of requests that were not executed.
    pub(super) given_up: Waits,
}

/// Histogram of waiting times.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    buckets: [u64; BUCKETS.len() + 1],
    sum: Duration,
}

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// There is no queue.
    ConcurrencyLimit,
    QueueFull,
    TimeOut,
    Cancelled,
}

impl Reason {
    pub(super) const ALL: [Self; 4] =
        [Self::ConcurrencyLimit, Self::QueueFull, Self::TimeOut, Self::Cancelled];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
            Self::Cancelled => "cancelled",
        }
    }
}

impl LevelCounts {
    /// Counts a request that got its seat, with its wait if the bound limits it.
    pub(super) fn dispatched(&mut self, waited: Option<Duration>) {
        self.dispatched += 1;
        if let Some(waited) = waited {
            self.executed.observe(waited);
        }
    }

    /// Counts a request that got no seat, with its wait if it was queued.
    pub(super) fn rejected(&mut self, reason: Reason, waited: Option<Duration>) {
        self.rejected[reason as usize] += 1;
        if let Some(waited) = waited {
            self.given_up.observe(waited);
        }
    }

    fn add(&mut self, other: &Self) {
        self.dispatched += other.dispatched;
        self.rejected.iter_mut().zip(other.rejected).for_each(|(sum, more)| *sum += more);
        self.executed.add(&other.executed);
        self.given_up.add(&other.given_up);
    }
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| sum.add(more));
    }
}

impl Waits {
    fn observe(&mut self, waited: Duration) {
        let bucket = match waited.is_zero() {
            true => 0,
            false => BUCKETS.partition_point(|limit| *limit < waited.as_secs_f64()),
        };
        self.buckets[bucket] += 1;
        self.sum += waited;
    }

    fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, more)| *sum += more);
        self.sum += other.sum;
    }

    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum.as_secs_f64()
    }

    /// The upper bounds, each with the count of waits up to it and above the previous one.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        BUCKETS.into_iter().chain([f64::INFINITY]).zip(self.buckets).collect()
    }
}

/// Upstream's buckets, in seconds.
const BUCKETS: [f64; 13] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_in_upstreams_buckets() {
        let mut counts = LevelCounts::default();
        for milliseconds in [0, 0, 1, 5, 6, 60_000] {
            counts.dispatched(Some(Duration::from_millis(milliseconds)));
        }
        counts.rejected(Reason::TimeOut, Some(Duration::from_secs(15)));
        let filled = |waits: &Waits| -> Vec<_> {
            waits.buckets().into_iter().filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(filled(&counts.executed), [(0.0, 2), (0.005, 2), (0.02, 1), (f64::INFINITY, 1)]);
        assert_eq!(filled(&counts.given_up), [(15.0, 1)]);
        assert_eq!((counts.executed.count(), counts.executed.sum()), (6, 60.012));
        assert_eq!((counts.dispatched, counts.rejected), (6, [0, 0, 1, 0]));
    }
}
