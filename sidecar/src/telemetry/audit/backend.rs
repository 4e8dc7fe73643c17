//! One destination of events, with its queue and the modes of a kube-apiserver (apiserver:
//! `plugin/pkg/audit/buffered`, `server/options/audit.go`).
//!
//! - `batch`: no request waits. If the queue is full, an event is lost and counted.
//! - `blocking`: a request continues once its first event is stored, or storing it has failed. Its
//!   later events are never lost for lack of room, because no request starts while there is no
//!   room. The event of a request that was refused earlier, such as a failed login, is lost and
//!   counted if there is no room: unauthenticated clients must not fill the memory.
//! - `blocking-strict`: the same, but a request is refused if its first event cannot be stored.

use std::sync::Arc;

use bytes::Bytes;
use clap::ValueEnum;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::event::{Format, Rendered};
use super::queue::{Pace, Queue, Share};

/// How requests depend on the storing of their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Batch,
    Blocking,
    BlockingStrict,
}

/// The state of a backend at the start of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    /// There is room for the later events of the request.
    pub(super) has_room: bool,
    pub(super) is_stored: bool,
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
    /// A backend with room for `size` events, and its queue.
    pub(super) fn new(
        mode: Mode,
        format: Format,
        size: usize,
        pace: Pace,
        errors: Counter,
    ) -> (Self, Arc<Queue>) {
        let queue = Arc::new(Queue::new(size, pace));
        (Self { mode, format, queue: queue.clone(), errors }, queue)
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn is_legacy(&self) -> bool {
        self.format == Format::Legacy
    }

    /// Stores the first event of a request before the request continues, if the mode requires it; without an
    /// event, only waits for room. Waits no longer than `until`.
    pub(super) async fn begin(&self, event: Option<&Rendered>, until: Instant) -> Begun {
        if self.mode == Mode::Batch {
            if let Some(event) = event {
                self.queue(event, Share::All);
            }
            return Begun { has_room: true, is_stored: true };
        }
        let has_room = timeout_at(until, self.queue.room()).await.is_ok();
        let Some(event) = event else { return Begun { has_room, is_stored: has_room } };
        let (sender, stored) = oneshot::channel();
        if !has_room || !self.queue.add(self.form(event), Some(sender), Share::All) {
            self.errors.inc();
            return Begun { has_room: false, is_stored: false };
        }
        let is_stored = timeout_at(until, stored).await.is_ok_and(|stored| stored == Ok(true));
        Begun { has_room, is_stored }
    }

    /// Queues an event without waiting.
    pub(super) fn queue(&self, event: &Rendered, share: Share) {
        let share = if self.mode == Mode::Batch && share == Share::Begun { Share::All } else { share };
        if !self.queue.add(self.form(event), None, share) {
            self.errors.inc();
        }
    }

    /// Waits until all queued events are stored or lost.
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

    use super::*;

    fn event(text: &'static str) -> Rendered {
        Rendered { json: Bytes::from_static(text.as_bytes()), legacy: None }
    }

    fn backend(mode: Mode) -> (Backend, Arc<Queue>, Counter) {
        let errors = Counter::default();
        let pace = Pace { max_size: 100, max_wait: Duration::from_secs(1) };
        let (backend, queue) = Backend::new(mode, Format::Json, 20, pace, errors.clone());
        (backend, queue, errors)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[tokio::test(start_paused = true)]
    async fn batch_mode_loses_and_counts_events_without_room() {
        let (backend, queue, errors) = backend(Mode::Batch);
        for _ in 0..30 {
            assert!(backend.begin(Some(&event("a")), soon()).await.is_stored);
        }
        backend.queue(&event("b"), Share::Begun);
        assert_eq!(errors.get(), 11);
        assert!(backend.begin(None, soon()).await.has_room);
        assert_eq!(queue.take().await.events.len(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn blocking_mode_waits_for_the_store_and_loses_nothing() {
        let (backend, queue, errors) = backend(Mode::Blocking);
        for _ in 0..30 {
            backend.queue(&event("a"), Share::Begun);
        }
        let taken = tokio::spawn(async move {
            let first = queue.take().await;
            let mut count = first.events.len();
            first.ended(true);
            let second = queue.take().await;
            count += second.events.len();
            second.ended(false);
            count
        });
        assert_eq!(
            backend.begin(Some(&event("e")), soon()).await,
            Begun { has_room: true, is_stored: false }
        );
        assert_eq!((taken.await.unwrap(), errors.get()), (31, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn refused_requests_use_a_tenth_of_the_queue_in_any_mode() {
        for mode in [Mode::Batch, Mode::Blocking, Mode::BlockingStrict] {
            let (backend, queue, errors) = backend(mode);
            (0..1000).for_each(|_| backend.queue(&event("x"), Share::Refused));
            assert_eq!(errors.get(), 998);
            assert_eq!(queue.take().await.events.len(), 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn event_without_room_is_lost_and_counted_after_its_timeout() {
        let (backend, queue, errors) = backend(Mode::Blocking);
        (0..20).for_each(|_| backend.queue(&event("x"), Share::Begun));
        let lost = Begun { has_room: false, is_stored: false };
        assert_eq!(backend.begin(Some(&event("a")), soon()).await, lost);
        assert_eq!(errors.get(), 1);
        assert_eq!(backend.begin(None, soon()).await, lost);
        assert_eq!(queue.take().await.events.len(), 20);
        assert!(backend.begin(None, soon()).await.has_room);
    }
}
