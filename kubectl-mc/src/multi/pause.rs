//! Implements the backoff between attempts.

use std::time::Duration;

/// Grows with each failed attempt.
#[derive(Debug, Default)]
pub(super) struct Pause(u32);

impl Pause {
    /// The time until the next attempt.
    pub(super) fn next(&mut self) -> Duration {
        let time = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.0)).min(LONGEST_PAUSE);
        self.0 += 1;
        time
    }

    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
