//! A queue of events before what stores them, with the modes of a kube-apiserver (apiserver: `plugin/pkg/audit/buffered`,
//! `server/options/audit.go`).
//!
//! - `batch`: no request waits. An event for which the queue has no room is lost and counted.
//! - `blocking`: a request begins when its first event is stored, or when that has failed, and no later event is lost for
//!   want of room: while there is none, no request begins.
//! - `blocking-strict`: the same, and a request whose first event is not stored is refused.

use bytes::Bytes;
use clap::ValueEnum;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};

use super::event::{Format, Rendered};

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
    queue: mpsc::Sender<Item>,
    errors: Counter,
}

/// What a queue holds.
#[derive(Debug)]
pub(super) enum Item {
    Event {
        event: Bytes,
        /// Learns whether the event is stored.
        stored: Option<oneshot::Sender<bool>>,
    },
    /// Answered when everything before it is stored or lost.
    Flush(oneshot::Sender<()>),
}

impl Backend {
    /// A backend of `size` events, and what it holds.
    pub(super) fn new(
        mode: Mode,
        format: Format,
        size: usize,
        errors: Counter,
    ) -> (Self, mpsc::Receiver<Item>) {
        let (queue, items) = mpsc::channel(size.max(1));
        (Self { mode, format, queue, errors }, items)
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
            self.queue(event);
            return true;
        }
        let (sender, stored) = oneshot::channel();
        let item = Item::Event { event: self.form(event), stored: Some(sender) };
        self.queue.send(item).await.is_ok() && stored.await.unwrap_or(false)
    }

    /// Waits for room, if the mode says so.
    pub(super) async fn room(&self) {
        if self.mode != Mode::Batch {
            // An error means that nothing takes events any more, and then none waits for room.
            let _ = self.queue.reserve().await;
        }
    }

    /// Queues an event of a request that has begun.
    pub(super) fn queue(&self, event: &Rendered) {
        let item = Item::Event { event: self.form(event), stored: None };
        match (self.queue.try_send(item), tokio::runtime::Handle::try_current()) {
            (Ok(()), _) => {}
            // Not more of these than requests that had begun: others wait for room.
            (Err(mpsc::error::TrySendError::Full(item)), Ok(runtime)) if self.mode != Mode::Batch => {
                let (queue, errors) = (self.queue.clone(), self.errors.clone());
                runtime.spawn(async move {
                    if queue.send(item).await.is_err() {
                        errors.inc();
                    }
                });
            }
            (Err(_), _) => drop(self.errors.inc()),
        }
    }

    /// Waits until everything that was queued is stored or lost.
    pub(super) async fn flush(&self) {
        let (sender, flushed) = oneshot::channel();
        if self.queue.send(Item::Flush(sender)).await.is_ok() {
            let _ = flushed.await;
        }
    }

    fn form(&self, event: &Rendered) -> Bytes {
        match (&event.legacy, self.format) {
            (Some(legacy), Format::Legacy) => legacy.clone(),
            _ => event.json.clone(),
        }
    }
}

/// Events that are stored together, and what learns of it.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Bytes>,
    stored: Vec<oneshot::Sender<bool>>,
    flushed: Vec<oneshot::Sender<()>>,
}

impl Batch {
    pub(super) fn add(&mut self, item: Item) {
        match item {
            Item::Event { event, stored } => {
                self.events.push(event);
                self.stored.extend(stored);
            }
            Item::Flush(flushed) => self.flushed.push(flushed),
        }
    }

    /// Whether it must not wait for more.
    pub(super) fn is_urgent(&self) -> bool {
        !self.stored.is_empty() || !self.flushed.is_empty()
    }

    /// Whether everything before it is waited for too.
    pub(super) fn is_flush(&self) -> bool {
        !self.flushed.is_empty()
    }

    /// Says what became of the events.
    pub(super) fn ended(self, is_stored: bool) {
        // The receivers are gone when their requests are.
        for stored in self.stored {
            let _ = stored.send(is_stored);
        }
        for flushed in self.flushed {
            let _ = flushed.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &'static str) -> Rendered {
        Rendered { json: Bytes::from_static(text.as_bytes()), legacy: None }
    }

    fn backend(mode: Mode) -> (Backend, mpsc::Receiver<Item>, Counter) {
        let errors = Counter::default();
        let (backend, items) = Backend::new(mode, Format::Json, 2, errors.clone());
        (backend, items, errors)
    }

    #[tokio::test]
    async fn batch_loses_and_counts_what_has_no_room() {
        let (backend, mut items, errors) = backend(Mode::Batch);
        for text in ["a", "b", "c", "d"] {
            assert!(backend.store(&event(text)).await);
        }
        assert_eq!(errors.get(), 2);
        backend.room().await;
        let mut batch = Batch::default();
        while let Ok(item) = items.try_recv() {
            batch.add(item);
        }
        assert_eq!(batch.events, ["a", "b"]);
    }

    #[tokio::test]
    async fn blocking_waits_for_the_store_and_loses_nothing() {
        let (backend, mut items, errors) = backend(Mode::Blocking);
        for text in ["a", "b", "c", "d"] {
            backend.queue(&event(text));
        }
        let taken = tokio::spawn(async move {
            let mut batch = Batch::default();
            while batch.events.len() < 5 {
                batch.add(items.recv().await.unwrap());
            }
            let events = batch.events.clone();
            batch.ended(false);
            events
        });
        assert!(!backend.store(&event("e")).await, "it was not stored");
        let mut taken = taken.await.unwrap();
        taken.sort();
        assert_eq!(taken, ["a", "b", "c", "d", "e"]);
        assert_eq!(errors.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn blocking_lets_no_request_begin_without_room() {
        let (backend, mut items, _) = backend(Mode::BlockingStrict);
        backend.queue(&event("a"));
        backend.queue(&event("b"));
        let waits = tokio::time::timeout(std::time::Duration::from_secs(60), backend.room());
        assert!(waits.await.is_err());
        items.recv().await.unwrap();
        backend.room().await;
    }
}
