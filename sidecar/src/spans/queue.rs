//! The bounded queue of spans that are over. A span without room is dropped and counted, so that no request waits for the
//! collector. The export wakes up once for many spans: a wake-up for each costs more than the span.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Where a span goes when it is over.
#[derive(Debug)]
pub(super) struct Queue {
    ended: Arc<Ended>,
    dropped: Counter,
}

/// Spans that wait for their export.
#[derive(Debug)]
pub(crate) struct Ended {
    size: usize,
    #[expect(clippy::disallowed_types, reason = "held for an append or a swap, and never over an await")]
    spans: std::sync::Mutex<VecDeque<SpanData>>,
    /// Wakes the export.
    wake: Notify,
}

impl Queue {
    pub(super) fn new(size: usize, dropped: Counter) -> (Self, Arc<Ended>) {
        let ended = Arc::new(Ended { size, spans: Default::default(), wake: Notify::new() });
        (Self { ended: ended.clone(), dropped }, ended)
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !self.ended.add(span) {
            self.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl Ended {
    /// Adds a span if there is room, and returns whether there is.
    fn add(&self, span: SpanData) -> bool {
        let count = {
            let mut spans = self.lock();
            if spans.len() >= self.size {
                return false;
            }
            spans.push_back(span);
            spans.len()
        };
        if count == 1 || count == MAX_BATCH {
            self.wake.notify_one();
        }
        true
    }

    /// Waits for a span, and then for a full batch or for a while. Cancel-safe: nothing is taken.
    pub(super) async fn filled(&self) {
        while self.lock().is_empty() {
            self.wake.notified().await;
        }
        let due = Instant::now() + MAX_WAIT;
        while self.lock().len() < MAX_BATCH {
            if timeout_at(due, self.wake.notified()).await.is_err() {
                return;
            }
        }
    }

    /// Takes the first batch.
    pub(super) fn take(&self) -> Vec<SpanData> {
        let mut spans = self.lock();
        let count = spans.len().min(MAX_BATCH);
        spans.drain(..count).collect()
    }

    #[cfg(test)]
    pub(crate) fn pop(&self) -> Option<SpanData> {
        self.lock().pop_front()
    }

    #[cfg(test)]
    pub(crate) async fn first(&self) -> SpanData {
        loop {
            if let Some(span) = self.pop() {
                return span;
            }
            self.wake.notified().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<SpanData>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spans that wait for their export, the default of OpenTelemetry's SDKs: about 2 MiB.
pub(super) const SIZE: usize = 2048;
/// Spans in one export, the default of the SDKs.
pub(super) const MAX_BATCH: usize = 512;
/// How long a span waits for others, the default of the SDKs.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn spans_between_the_first_and_the_last_wake_nothing() {
        let (queue, ended) = Queue::new(SIZE, Counter::default());
        let provider = SdkTracerProvider::builder().with_span_processor(queue).build();
        let tracer = provider.tracer("");
        let mut wakes = 0;
        for _ in 0..MAX_BATCH {
            drop(tracer.start("span"));
            let woken = tokio::time::timeout(Duration::ZERO, ended.wake.notified()).await;
            wakes += usize::from(woken.is_ok());
        }
        assert_eq!(wakes, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn span_without_room_is_dropped_and_counted() {
        let dropped = Counter::default();
        let (queue, ended) = Queue::new(2, dropped.clone());
        let provider = SdkTracerProvider::builder().with_span_processor(queue).build();
        (0..5).for_each(|_| drop(provider.tracer("").start("span")));
        assert_eq!((dropped.get(), ended.take().len(), ended.take().len()), (3, 2, 0));
    }
}
