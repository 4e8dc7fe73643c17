//! Distributed tracing: creates a span for each authenticated request, and one for each request to a member,
//! and exports them with OTLP like a kube-apiserver (apiserver: `server/options/tracing.go`,
//! `endpoints/filters/traces.go`).
//!
//! - [`config`]: the file of `--tracing-config-file`
//! - [`request`]: the spans of one request, and their trace
//! - [`propagation`]: the trace in the headers of a request (W3C Trace Context)
//! - [`export`]: the bounded queue of ended spans, and their export

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanExporter as _, SpanProcessor};
use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

mod config;
mod export;
mod propagation;
mod request;

pub use config::{Config, Error as ConfigError};
pub use request::{RequestSpan, ToMember};

use export::{Metrics, Queue};

/// Creates the spans of requests. It exists only if tracing is configured.
#[derive(Debug)]
pub struct Tracer {
    tracer: SdkTracer,
    /// Ends the export, after the queued spans.
    stop: CancellationToken,
    export: TaskTracker,
}

impl Tracer {
    /// Starts the export. The collector may start later.
    ///
    /// # Errors
    ///
    /// The endpoint is not a valid address.
    pub fn start(config: &Config, replica: &str, registry: &mut Registry) -> anyhow::Result<Arc<Self>> {
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(config.endpoint.as_str());
        let exporter = exporter.with_timeout(EXPORT_TIMEOUT).build();
        let mut exporter = exporter.context("tracing-config-file: the endpoint cannot be used")?;
        let resource = Resource::builder_empty()
            .with_attributes([
                KeyValue::new("service.name", SERVICE),
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("service.instance.id", replica.to_owned()),
            ])
            .build();
        exporter.set_resource(&resource);
        let metrics = Metrics::register(registry);
        let (queue, ended) = Queue::new(export::QUEUE_SIZE, &metrics);
        let (stop, export) = (CancellationToken::new(), TaskTracker::new());
        export.spawn(export::run(ended, exporter, metrics, stop.clone()));
        export.close();
        Ok(Arc::new(Self { tracer: tracer(config, queue), stop, export }))
    }

    /// Exports the queued spans, and ends the export.
    pub async fn flush(&self, limit: Duration) {
        self.stop.cancel();
        if timeout(limit, self.export.wait()).await.is_err() {
            warn!("spans were not exported before the shutdown");
        }
    }
}

/// A parent span decides about its children, and the sampling rate about all other requests, as upstream.
fn tracer(config: &Config, spans: impl SpanProcessor + 'static) -> SdkTracer {
    let root = match config.sampling_rate {
        0.0 => Sampler::AlwaysOff,
        rate => Sampler::TraceIdRatioBased(rate),
    };
    let provider = SdkTracerProvider::builder().with_span_processor(spans);
    let provider = provider.with_sampler(Sampler::ParentBased(Box::new(root)));
    provider.build().tracer(SERVICE)
}

/// A tracer that sends its spans to a test.
#[cfg(test)]
pub(crate) fn recorded(
    sampling_rate: f64,
) -> (Arc<Tracer>, tokio::sync::mpsc::Receiver<opentelemetry_sdk::trace::SpanData>) {
    let (queue, ended) = Queue::new(10, &Metrics::register(&mut Registry::default()));
    let config = Config { endpoint: String::new(), sampling_rate };
    let (stop, export) = (CancellationToken::new(), TaskTracker::new());
    (Arc::new(Tracer { tracer: tracer(&config, queue), stop, export }), ended.spans)
}

/// The name of this program in traces.
const SERVICE: &str = "mc-sidecar";
/// Timeout of one export, OTLP's default.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
