//! Queues events before a backend, with limits on number and bytes. The backend is woken once for many
//! events, and at once for an event that a request waits for: a wake-up for each event would cost more than
//! the event.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::base::locked::Locked;

/// The events of one backend.
#[derive(Debug)]
pub(super) struct Queue {
    size: usize,
    pace: Pace,
    batch: Locked<Batch>,
    /// Wakes the backend.
    wake: Notify,
    /// Wakes requests that wait for room.
    taken: Notify,
}

/// Which part of a queue an event may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// For a request that has begun: its events are never refused, because other requests wait for room
    /// instead.
    Begun,
    All,
    /// For a refused request, which any client can send: a tenth.
    Refused,
}

/// Events that are stored together, and the requests that wait for them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Bytes>,
    bytes: usize,
    stored: Vec<oneshot::Sender<bool>>,
    flushed: Vec<oneshot::Sender<()>>,
}

/// When queued events are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) max_size: usize,
    pub(super) max_wait: Duration,
}

impl Queue {
    pub(super) fn new(size: usize, pace: Pace) -> Self {
        let (batch, size) = (Default::default(), size.max(1));
        Self { size, pace, batch, wake: Notify::new(), taken: Notify::new() }
    }

    /// Adds an event if its share has room, and returns whether it was added.
    pub(super) fn add(&self, event: Bytes, stored: Option<oneshot::Sender<bool>>, share: Share) -> bool {
        let wakes = self.batch.with(|batch| {
            if !self.has_room(batch, share) {
                return None;
            }
            let wakes =
                batch.events.is_empty() || stored.is_some() || batch.events.len() + 1 == self.pace.max_size;
            batch.bytes += event.len();
            batch.events.push(event);
            batch.stored.extend(stored);
            Some(wakes)
        });
        if wakes == Some(true) {
            self.wake.notify_one();
        }
        wakes.is_some()
    }

    fn has_room(&self, batch: &Batch, share: Share) -> bool {
        let size = match share {
            Share::Begun => return true,
            Share::All => self.size,
            Share::Refused => self.size.div_ceil(10),
        };
        batch.events.len() < size && batch.bytes < size.saturating_mul(EVENT_BYTES)
    }

    /// Waits until there is room.
    pub(super) async fn room(&self) {
        loop {
            let taken = self.taken.notified();
            if self.batch.with(|batch| self.has_room(batch, Share::All)) {
                return;
            }
            taken.await;
        }
    }

    /// Waits until all earlier events are stored or lost.
    pub(super) async fn flush(&self) {
        let (sender, flushed) = oneshot::channel();
        self.batch.with(|batch| batch.flushed.push(sender));
        self.wake.notify_one();
        let _ = flushed.await;
    }

    /// Waits for the next batch.
    pub(super) async fn take(&self) -> Batch {
        let pace = self.pace;
        let mut due = None;
        loop {
            let next = self.batch.with(|batch| {
                let is_due = due.is_some_and(|due| due <= Instant::now());
                if batch.is_urgent() || is_due || batch.events.len() >= pace.max_size {
                    return Some(batch.split(pace.max_size));
                }
                if due.is_none() && !batch.events.is_empty() {
                    due = Some(Instant::now() + pace.max_wait);
                }
                None
            });
            if let Some(next) = next {
                self.taken.notify_waiters();
                return next;
            }
            match due {
                Some(due) => drop(timeout_at(due, self.wake.notified()).await),
                None => self.wake.notified().await,
            }
        }
    }
}

impl Batch {
    fn is_urgent(&self) -> bool {
        !self.stored.is_empty() || self.is_flush()
    }

    /// Whether a flush waits for this batch and all earlier ones.
    pub(super) fn is_flush(&self) -> bool {
        !self.flushed.is_empty()
    }

    /// Takes the first events. A request that waits for any of them waits until all are stored.
    fn split(&mut self, most: usize) -> Self {
        if self.events.len() <= most {
            return std::mem::take(self);
        }
        let rest = self.events.split_off(most);
        let events = std::mem::replace(&mut self.events, rest);
        let bytes = events.iter().map(Bytes::len).sum();
        self.bytes -= bytes;
        Self { events, bytes, ..Self::default() }
    }

    /// Reports whether the events were stored.
    pub(super) fn ended(self, is_stored: bool) {
        // A receiver is gone if its request is.
        for stored in self.stored {
            let _ = stored.send(is_stored);
        }
        for flushed in self.flushed {
            let _ = flushed.send(());
        }
    }
}

/// The memory that an event counts for, in bytes. Most events are smaller.
const EVENT_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { max_size: 3, max_wait: Duration::from_secs(5) };

    fn add(queue: &Queue, event: &'static str) -> bool {
        queue.add(Bytes::from_static(event.as_bytes()), None, Share::All)
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_batched_after_max_wait() {
        let queue = Queue::new(10, PACE);
        let begin = Instant::now();
        add(&queue, "a");
        add(&queue, "b");
        assert_eq!(queue.take().await.events, ["a", "b"]);
        assert_eq!(begin.elapsed(), PACE.max_wait);
    }

    #[tokio::test(start_paused = true)]
    async fn event_with_a_waiting_request_is_taken_at_once() {
        let queue = Queue::new(10, PACE);
        let begin = Instant::now();
        add(&queue, "a");
        let (sender, stored) = oneshot::channel();
        queue.add(Bytes::from_static(b"b"), Some(sender), Share::All);
        let batch = queue.take().await;
        assert_eq!(batch.events, ["a", "b"]);
        batch.ended(false);
        assert!(!stored.await.unwrap());
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn full_batch_is_taken_at_once() {
        let queue = Queue::new(10, PACE);
        let begin = Instant::now();
        for event in ["a", "b", "c", "d"] {
            add(&queue, event);
        }
        assert_eq!(queue.take().await.events, ["a", "b", "c"]);
        assert_eq!(begin.elapsed(), Duration::ZERO);
        assert_eq!(queue.take().await.events, ["d"]);
    }

    #[tokio::test(start_paused = true)]
    async fn full_batch_wakes_its_backend() {
        let queue = std::sync::Arc::new(Queue::new(10, PACE));
        let (begin, taking) = (Instant::now(), queue.clone());
        let taken = tokio::spawn(async move { taking.take().await.events.len() });
        for event in ["a", "b", "c"] {
            tokio::task::yield_now().await;
            add(&queue, event);
        }
        assert_eq!(taken.await.unwrap(), 3);
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }

    #[test]
    fn large_events_fill_the_queue_by_bytes() {
        let queue = Queue::new(10, PACE);
        let large = || Bytes::from(vec![b'x'; 3 * EVENT_BYTES]);
        let added = |share| (0..100).filter(|_| queue.add(large(), None, share)).count();
        assert_eq!(added(Share::Refused), 1);
        assert_eq!(added(Share::All), 3);
        assert_eq!(added(Share::Begun), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn flush_waits_for_all_batches() {
        let queue = std::sync::Arc::new(Queue::new(10, PACE));
        for event in ["a", "b", "c", "d"] {
            add(&queue, event);
        }
        let flushing = queue.clone();
        let flush = tokio::spawn(async move { flushing.flush().await });
        tokio::task::yield_now().await;
        queue.take().await.ended(true);
        tokio::task::yield_now().await;
        assert!(!flush.is_finished());
        queue.take().await.ended(true);
        flush.await.unwrap();
    }
}
