//! Queues ended spans and exports them in batches. The queue is bounded: a span without room is dropped and
//! counted, so that no request waits for the collector.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::observe::metrics::own;

#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    exported: Counter,
    dropped: Family<Reason, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

impl Metrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let (metrics, registry) = (Self::default(), own(registry));
        registry.register("spans_exported", "Spans that the collector received", metrics.exported.clone());
        registry.register(
            "spans_dropped",
            "Spans that were not exported: the queue was full, or the export failed",
            metrics.dropped.clone(),
        );
        metrics
    }

    fn dropped(&self, reason: &'static str) -> Counter {
        self.dropped.get_or_create_owned(&Reason { reason })
    }
}

/// Sends ended spans to the export.
#[derive(Debug)]
pub(super) struct Queue {
    spans: Sender<SpanData>,
    full_batch: Arc<Notify>,
    dropped: Counter,
}

/// Receives ended spans. A span wakes it only as the first or the last of a batch: a wake-up for each span
/// would cost more than the span.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) spans: Receiver<SpanData>,
    full_batch: Arc<Notify>,
}

impl Queue {
    pub(super) fn new(size: usize, metrics: &Metrics) -> (Self, Ended) {
        let (spans, ended) = channel(size);
        let full_batch = Arc::new(Notify::new());
        let queue = Self { spans, full_batch: full_batch.clone(), dropped: metrics.dropped("queue full") };
        (queue, Ended { spans: ended, full_batch })
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.dropped.inc();
            return;
        }
        // The first span of the batch has left the queue.
        if self.spans.max_capacity() - self.spans.capacity() + 1 >= MAX_BATCH {
            self.full_batch.notify_one();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Exports spans until `stop`, and then the queued ones.
pub(super) async fn run(
    mut ended: Ended,
    exporter: impl SpanExporter,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let failed = metrics.dropped("export failed");
    let mut is_failing = false;
    loop {
        let mut batch = Vec::with_capacity(MAX_BATCH);
        // Cancel-safe: received spans are already in the batch.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = ended.fill(&mut batch) => {}
        }
        while batch.len() < MAX_BATCH
            && let Ok(span) = ended.spans.try_recv()
        {
            batch.push(span);
        }
        if batch.is_empty() {
            return;
        }
        let count = batch.len() as u64;
        match exporter.export(batch).await {
            Ok(()) => {
                metrics.exported.inc_by(count);
                if std::mem::take(&mut is_failing) {
                    info!("spans are exported again");
                }
            }
            Err(error) => {
                failed.inc_by(count);
                // Logged once in an outage.
                if !std::mem::replace(&mut is_failing, true) {
                    warn!(error = %error, "cannot export spans");
                }
            }
        }
    }
}

impl Ended {
    /// Waits for a span, and then until the batch is full or `MAX_WAIT` has passed. Cancel-safe: only the
    /// first span leaves the queue here.
    async fn fill(&mut self, batch: &mut Vec<SpanData>) {
        let Some(first) = self.spans.recv().await else { return };
        batch.push(first);
        let full = async {
            while batch.len() + self.spans.len() < MAX_BATCH {
                self.full_batch.notified().await;
            }
        };
        let _ = timeout(MAX_WAIT, full).await;
    }
}

/// Maximum number of queued spans, the default of OpenTelemetry's SDKs: about 2 MiB.
pub(super) const QUEUE_SIZE: usize = 2048;
/// Spans in one export, the default of the SDKs.
const MAX_BATCH: usize = 512;
/// How long a span waits for others, the default of the SDKs.
const MAX_WAIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::error::OTelSdkError;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
    use tokio::time::Instant;

    use super::*;

    /// Sends the sizes of batches to the test, or fails.
    #[derive(Debug)]
    struct Batches(Option<UnboundedSender<usize>>);

    impl SpanExporter for Batches {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            let missing = || OTelSdkError::InternalFailure("no collector".to_owned());
            let sizes = self.0.as_ref().ok_or_else(missing)?;
            let _ = sizes.send(batch.len());
            Ok(())
        }
    }

    /// Ends this many spans in a queue of this size.
    fn ended(spans: usize, size: usize, metrics: &Metrics) -> (SdkTracerProvider, Ended) {
        let (queue, ended) = Queue::new(size, metrics);
        let provider = SdkTracerProvider::builder().with_span_processor(queue).build();
        for _ in 0..spans {
            drop(provider.tracer("").start("span"));
        }
        (provider, ended)
    }

    #[tokio::test(start_paused = true)]
    async fn spans_are_exported_in_a_batch_after_max_wait() {
        let metrics = Metrics::default();
        let (_provider, ended) = ended(MAX_BATCH + 3, QUEUE_SIZE, &metrics);
        let (sender, mut sizes) = unbounded_channel();
        let begin = Instant::now();
        tokio::spawn(run(ended, Batches(Some(sender)), metrics.clone(), CancellationToken::new()));
        assert_eq!((sizes.recv().await, begin.elapsed()), (Some(MAX_BATCH), Duration::ZERO));
        assert_eq!((sizes.recv().await, begin.elapsed()), (Some(3), MAX_WAIT));
        tokio::task::yield_now().await;
        assert_eq!(metrics.exported.get(), MAX_BATCH as u64 + 3);
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_first_and_last_span_of_a_batch_wake_the_export() {
        let (provider, mut ended) = ended(0, QUEUE_SIZE, &Metrics::default());
        let wakes = Arc::new(Wakes::default());
        let waker = wakes.clone().into();
        let mut task = Context::from_waker(&waker);
        let mut batch = Vec::new();
        {
            let mut fill = pin!(ended.fill(&mut batch));
            let mut end_spans = |count, expected| {
                let is_pending = fill.as_mut().poll(&mut task).is_pending();
                (0..count).for_each(|_| drop(provider.tracer("").start("span")));
                assert_eq!((is_pending, wakes.0.load(Ordering::Relaxed)), (true, expected));
            };
            end_spans(1, 1);
            end_spans(MAX_BATCH - 2, 1);
            end_spans(1, 2);
            assert!(fill.as_mut().poll(&mut task).is_ready());
        }
        assert_eq!(batch.len() + ended.spans.len(), MAX_BATCH);
    }

    #[tokio::test(start_paused = true)]
    async fn span_without_room_is_dropped_and_counted() {
        let metrics = Metrics::default();
        let (_provider, mut ended) = ended(5, 2, &metrics);
        assert_eq!(metrics.dropped("queue full").get(), 3);
        let ended = &mut ended.spans;
        assert!(ended.try_recv().is_ok() && ended.try_recv().is_ok() && ended.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn queued_spans_are_exported_at_shutdown() {
        let metrics = Metrics::default();
        let (_provider, ended) = ended(MAX_BATCH + 1, QUEUE_SIZE, &metrics);
        let (sender, mut sizes) = unbounded_channel();
        let stop = CancellationToken::new();
        stop.cancel();
        let begin = Instant::now();
        run(ended, Batches(Some(sender)), metrics, stop).await;
        assert_eq!((sizes.recv().await, sizes.recv().await), (Some(MAX_BATCH), Some(1)));
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_export_is_counted() {
        let metrics = Metrics::default();
        let (_provider, ended) = ended(4, QUEUE_SIZE, &metrics);
        let stop = CancellationToken::new();
        stop.cancel();
        run(ended, Batches(None), metrics.clone(), stop).await;
        assert_eq!((metrics.dropped("export failed").get(), metrics.exported.get()), (4, 0));
    }
}
