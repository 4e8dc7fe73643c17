//! Implements the backoff between attempts.

use std::time::Duration;

/// Grows with each failed attempt.
#[derive(Debug, Default)]
pub(super) struct Pause(u32);

impl Pause {
    pub(super) async fn wait(&mut self) {
        let time = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.0)).min(LONGEST_PAUSE);
        self.0 += 1;
        tokio::time::sleep(time).await;
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
