//! The backoff between attempts to watch on the host. kube's own backoff grows to 30 s. A member or
//! right that was deleted during an outage would then stay valid for up to 30 s after it.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use tokio::time::Instant;

use crate::base::retry;

#[derive(Debug)]
pub(crate) struct WatchBackoff {
    pause: Duration,
    last: Option<Instant>,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        Self { pause: FIRST_PAUSE, last: None }
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.last.is_none_or(|last| now.saturating_duration_since(last) > QUIET) {
            self.pause = FIRST_PAUSE;
        }
        self.last = Some(now);
        let pause = self.pause;
        self.pause = (pause * 2).min(LAST_PAUSE);
        Some(retry::jittered(pause))
    }
}

impl Backoff for WatchBackoff {
    /// A single success does not reset it: if lists succeed but their watches fail, the list would
    /// be repeated without a pause.
    fn reset(&mut self) {}
}

const FIRST_PAUSE: Duration = Duration::from_millis(800);
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// After this time without a failure, the pauses start small again.
const QUIET: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_stay_short_and_reset_after_a_quiet_time() {
        let mut backoff = WatchBackoff::default();
        for seconds in [0.8, 1.6, 3.2, 5.0, 5.0] {
            backoff.reset();
            let pause = backoff.next().unwrap().as_secs_f64();
            assert!((seconds..=seconds * 1.21).contains(&pause), "{pause}");
        }
        tokio::time::advance(QUIET * 2).await;
        assert!(backoff.next().unwrap() < Duration::from_secs(1));
    }
}
