//! Applies the timeout of one member. For a command that ends, it covers all requests together, without the
//! time in the queue; for a stream, it covers the beginning of each response.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::multi::fault::Fault;

/// The timeout of one member.
#[derive(Clone, Debug)]
pub(super) struct MemberDeadline {
    time: Duration,
    /// The time that was already used; `None` if each response has the whole timeout.
    used: Option<Arc<watch::Sender<Used>>>,
}

#[derive(Debug)]
struct Used {
    before: Duration,
    /// Overlapping requests count once.
    running: usize,
    since: Instant,
}

impl MemberDeadline {
    /// One timeout for all requests together.
    pub(super) fn whole(time: Duration) -> Self {
        let used = Used { before: Duration::ZERO, running: 0, since: Instant::now() };
        Self { time, used: Some(Arc::new(watch::Sender::new(used))) }
    }

    /// A timeout for each response.
    pub(super) fn each(time: Duration) -> Self {
        Self { time, used: None }
    }

    /// The time that is left for the next request.
    pub(super) fn left(&self) -> Duration {
        self.time.saturating_sub(self.used.as_deref().map_or(Duration::ZERO, |used| used.borrow().so_far()))
    }

    /// Runs a future within the remaining time.
    pub(super) async fn limit<T>(&self, what: impl Future<Output = T>) -> Result<T, Fault> {
        let running = self.used.as_deref().map(Running::begin);
        let left = self.time.saturating_sub(running.as_ref().map_or(Duration::ZERO, Running::used));
        tokio::time::timeout(left, what).await.map_err(|_| Fault::TimedOut(self.time))
    }
}

impl Used {
    fn so_far(&self) -> Duration {
        let running = if self.running > 0 { self.since.elapsed() } else { Duration::ZERO };
        self.before + running
    }
}

/// A running request, whose time counts.
struct Running<'a>(&'a watch::Sender<Used>);

impl<'a> Running<'a> {
    fn begin(used: &'a watch::Sender<Used>) -> Self {
        used.send_modify(|used| {
            if used.running == 0 {
                used.since = Instant::now();
            }
            used.running += 1;
        });
        Self(used)
    }

    fn used(&self) -> Duration {
        self.0.borrow().so_far()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|used| {
            used.running -= 1;
            if used.running == 0 {
                used.before += used.since.elapsed();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn whole_deadline_covers_all_answers() {
        let deadline = MemberDeadline::whole(SECOND * 10);
        let begun = Instant::now();
        assert_eq!(deadline.limit(sleep(SECOND * 4)).await, Ok(()));
        // Time between requests does not count.
        sleep(SECOND * 100).await;
        let both = tokio::join!(deadline.limit(sleep(SECOND * 4)), deadline.limit(sleep(SECOND * 3)));
        assert_eq!(both, (Ok(()), Ok(())));
        assert_eq!(deadline.limit(sleep(SECOND * 4)).await, Err(Fault::TimedOut(SECOND * 10)));
        assert_eq!(begun.elapsed(), SECOND * 110);
    }

    #[tokio::test(start_paused = true)]
    async fn stream_deadline_counts_per_answer() {
        let deadline = MemberDeadline::each(SECOND);
        for _ in 0..3 {
            assert_eq!(deadline.limit(sleep(SECOND / 2)).await, Ok(()));
        }
        assert_eq!(deadline.limit(sleep(SECOND * 2)).await, Err(Fault::TimedOut(SECOND)));
    }
}
