//! Exports the queued spans in batches, and counts them.

use std::sync::Arc;

use opentelemetry_sdk::trace::SpanExporter;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::queue::Ended;
use crate::metrics::own;

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

    pub(super) fn dropped(&self, reason: &'static str) -> Counter {
        self.dropped.get_or_create_owned(&Reason { reason })
    }
}

/// Exports spans until `stop`, and then those that are queued.
pub(super) async fn run(
    ended: Arc<Ended>,
    exporter: impl SpanExporter,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let failed = metrics.dropped("export failed");
    let mut is_failing = false;
    loop {
        // Cancel-safe: nothing is taken before.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = ended.filled() => {}
        }
        let batch = ended.take();
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
                // Once in an outage.
                if !std::mem::replace(&mut is_failing, true) {
                    warn!(error = %error, "cannot export spans");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
    use tokio::time::Instant;

    use super::super::queue::{MAX_BATCH, MAX_WAIT, Queue, SIZE};
    use super::*;

    /// Passes on the sizes of batches, or fails.
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

    /// Ends so many spans.
    fn ended(spans: usize) -> (SdkTracerProvider, Arc<Ended>) {
        let (queue, ended) = Queue::new(SIZE, Counter::default());
        let provider = SdkTracerProvider::builder().with_span_processor(queue).build();
        for _ in 0..spans {
            drop(provider.tracer("").start("span"));
        }
        (provider, ended)
    }

    #[tokio::test(start_paused = true)]
    async fn spans_are_exported_together_after_a_while() {
        let metrics = Metrics::default();
        let (_provider, ended) = ended(MAX_BATCH + 3);
        let (sender, mut sizes) = unbounded_channel();
        let begin = Instant::now();
        tokio::spawn(run(ended, Batches(Some(sender)), metrics.clone(), CancellationToken::new()));
        assert_eq!((sizes.recv().await, begin.elapsed()), (Some(MAX_BATCH), Duration::ZERO));
        assert_eq!((sizes.recv().await, begin.elapsed()), (Some(3), MAX_WAIT));
        tokio::task::yield_now().await;
        assert_eq!(metrics.exported.get(), MAX_BATCH as u64 + 3);
    }

    #[tokio::test(start_paused = true)]
    async fn queued_spans_are_exported_at_the_end() {
        let metrics = Metrics::default();
        let (_provider, ended) = ended(MAX_BATCH + 1);
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
        let (_provider, ended) = ended(4);
        let stop = CancellationToken::new();
        stop.cancel();
        run(ended, Batches(None), metrics.clone(), stop).await;
        assert_eq!((metrics.dropped("export failed").get(), metrics.exported.get()), (4, 0));
    }
}
