//! Limits the number of logs that are followed in parallel on one cluster.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};

/// Slots for logs.
pub(super) struct Slots {
    free: Mutex<mpsc::UnboundedReceiver<usize>>,
    back: mpsc::UnboundedSender<usize>,
    /// Whether the note about a waiting log was printed.
    is_told: AtomicBool,
}

impl Slots {
    pub(super) fn new(most: usize) -> Self {
        let (back, free) = mpsc::unbounded_channel();
        for place in 0..most {
            // The receiver exists.
            let _ = back.send(place);
        }
        Self { free: Mutex::new(free), back, is_told: AtomicBool::new(false) }
    }

    /// Takes a slot as soon as one is free. Calls `waits` for the first log that waits for a long
    /// time.
    pub(super) async fn take<F: Future<Output = ()>>(&self, waits: impl FnOnce() -> F) -> Slot {
        let place = async { self.free.lock().await.recv().await };
        tokio::pin!(place);
        let place = match tokio::time::timeout(LONG, &mut place).await {
            Ok(place) => place,
            Err(_) => {
                if !self.is_told.swap(true, Ordering::Relaxed) {
                    waits().await;
                }
                place.await
            }
        };
        // The channel never closes, because this value holds a sender.
        Slot { place: place.unwrap_or_default(), back: self.back.clone() }
    }
}

/// One slot; dropping it frees the slot.
pub(super) struct Slot {
    pub(super) place: usize,
    back: mpsc::UnboundedSender<usize>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let _ = self.back.send(self.place);
    }
}

/// Logs that have ended free their slots sooner than this.
const LONG: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn log_above_the_limit_waits_and_is_reported_once() {
        let slots = Slots::new(2);
        let told = AtomicBool::new(false);
        let tell = || async { assert!(!told.swap(true, Ordering::Relaxed)) };
        let (first, second) = (slots.take(tell).await, slots.take(tell).await);
        assert_eq!((first.place, second.place), (0, 1));
        assert!(!told.load(Ordering::Relaxed));
        let third = slots.take(tell);
        tokio::pin!(third);
        assert!(tokio::time::timeout(LONG * 2, &mut third).await.is_err());
        assert!(told.load(Ordering::Relaxed));
        drop(second);
        assert_eq!(third.await.place, 1);
        // Another waiting log prints nothing.
        let fourth = slots.take(tell);
        assert!(tokio::time::timeout(LONG * 2, fourth).await.is_ok());
    }
}
