//! A queue of events before what stores them, with the modes of a kube-apiserver (apiserver: `plugin/pkg/audit/buffered`,
//! `server/options/audit.go`).
//!
//! - `batch`: no request waits. An event for which the queue has no room is lost and counted.
//! - `blocking`: a request begins when its first event is stored, or when that has failed, and no later event is lost for
//!   want of room: while there is none, no request begins. The event of a request that was refused before, such as a failed
//!   login, is lost and counted without room: strangers must not fill the memory.
//! - `blocking-strict`: the same, and a request whose first event is not stored is refused.

use std::sync::Arc;

use bytes::Bytes;
use clap::ValueEnum;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::oneshot;

use super::event::{Format, Rendered};
use super::queue::Queue;

/// What becomes of a request while its events are not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Batch,
    Blocking,
    BlockingStrict,
}

/// A queue and its mode.
#[derive(Debug)]
pub(super) struct Backend {
    mode: Mode,
    format: Format,
    queue: Arc<Queue>,
    errors: Counter,
}

impl Backend {
    /// A backend of `size` events, and the queue that holds them.
    pub(super) fn new(mode: Mode, format: Format, size: usize, errors: Counter) -> (Self, Arc<Queue>) {
        let queue = Arc::new(Queue::new(size));
        (Self { mode, format, queue: queue.clone(), errors }, queue)
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn is_legacy(&self) -> bool {
        self.format == Format::Legacy
    }

    /// Queues an event, and waits until it is stored if the mode says so; whether a request may begin by that.
    pub(super) async fn store(&self, event: &Rendered) -> bool {
        if self.mode == Mode::Batch {
            self.queue(event, true);
            return true;
        }
        self.queue.room().await;
        let (sender, stored) = oneshot::channel();
        self.queue.add(self.form(event), Some(sender), true);
        stored.await.unwrap_or(false)
    }

    /// Waits for room, if the mode says so.
    pub(super) async fn room(&self) {
        if self.mode != Mode::Batch {
            self.queue.room().await;
        }
    }

    /// Queues an event that no request waits for. Those of requests that have begun are few, since others wait for room;
    /// a refused request never waited.
    pub(super) fn queue(&self, event: &Rendered, has_begun: bool) {
        let forced = has_begun && self.mode != Mode::Batch;
        if !self.queue.add(self.form(event), None, forced) {
            self.errors.inc();
        }
    }

    /// Waits until everything that was queued is stored or lost.
    pub(super) async fn flush(&self) {
        self.queue.flush().await;
    }

    fn form(&self, event: &Rendered) -> Bytes {
        match (&event.legacy, self.format) {
            (Some(legacy), Format::Legacy) => legacy.clone(),
            _ => event.json.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::queue::Pace;
    use super::*;

    fn event(text: &'static str) -> Rendered {
        Rendered { json: Bytes::from_static(text.as_bytes()), legacy: None }
    }

    fn backend(mode: Mode) -> (Backend, Arc<Queue>, Counter) {
        let errors = Counter::default();
        let (backend, queue) = Backend::new(mode, Format::Json, 2, errors.clone());
        (backend, queue, errors)
    }

    const ALL: Pace = Pace { max_size: 100, max_wait: Duration::from_secs(1) };

    #[tokio::test(start_paused = true)]
    async fn batch_loses_and_counts_what_has_no_room() {
        let (backend, queue, errors) = backend(Mode::Batch);
        for text in ["a", "b", "c", "d"] {
            assert!(backend.store(&event(text)).await);
        }
        assert_eq!(errors.get(), 2);
        backend.room().await;
        assert_eq!(queue.take(ALL).await.events, ["a", "b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn blocking_waits_for_the_store_and_loses_nothing() {
        let (backend, queue, errors) = backend(Mode::Blocking);
        for text in ["a", "b", "c", "d"] {
            backend.queue(&event(text), true);
        }
        let taken = tokio::spawn(async move {
            let first = queue.take(ALL).await;
            let mut events = first.events.clone();
            first.ended(true);
            let second = queue.take(ALL).await;
            events.extend(second.events.clone());
            second.ended(false);
            events
        });
        assert!(!backend.store(&event("e")).await, "it was not stored");
        assert_eq!(taken.await.unwrap(), ["a", "b", "c", "d", "e"]);
        assert_eq!(errors.get(), 0);
    }

    #[tokio::test]
    async fn refused_requests_fill_no_memory_in_any_mode() {
        for mode in [Mode::Batch, Mode::Blocking, Mode::BlockingStrict] {
            let (backend, queue, errors) = backend(mode);
            (0..1000).for_each(|_| backend.queue(&event("x"), false));
            assert_eq!(errors.get(), 998);
            assert_eq!(queue.take(ALL).await.events.len(), 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn blocking_lets_no_request_begin_without_room() {
        let (backend, queue, _) = backend(Mode::BlockingStrict);
        backend.queue(&event("a"), true);
        backend.queue(&event("b"), true);
        let waits = tokio::time::timeout(Duration::from_secs(60), backend.room());
        assert!(waits.await.is_err());
        queue.take(ALL).await.ended(true);
        backend.room().await;
    }
}
