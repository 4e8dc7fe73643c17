//! Distributed tracing: a span for each request with a login, and one for each request to a member, exported by OTLP as a
//! kube-apiserver does it (apiserver: `server/options/tracing.go`, `endpoints/filters/traces.go`).
//!
//! - [`config`]: the file of `--tracing-config-file`
//! - [`request`]: the spans of one request, and the trace that they belong to
//! - [`propagation`]: the trace in the headers of a request (W3C Trace Context)
//! - [`queue`]: the spans that are over, and [`export`]

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
mod queue;
mod request;

pub use config::{Config, Error as ConfigError};
pub use request::{RequestSpan, ToMember};

use export::Metrics;
use queue::Queue;

/// Makes the spans of requests. Without a configuration there is none.
#[derive(Debug)]
pub struct Tracer {
    tracer: SdkTracer,
    /// Ends the export, after all that is queued.
    stop: CancellationToken,
    export: TaskTracker,
}

impl Tracer {
    /// Starts the export. The collector need not be there yet.
    ///
    /// # Errors
    ///
    /// The endpoint is no address.
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
        let (queue, ended) = Queue::new(queue::SIZE, metrics.dropped("queue full"));
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

/// A parent decides about its children; the rate about the rest, as upstream has it.
fn tracer(config: &Config, spans: impl SpanProcessor + 'static) -> SdkTracer {
    let root = match config.sampling_rate {
        0.0 => Sampler::AlwaysOff,
        rate => Sampler::TraceIdRatioBased(rate),
    };
    let provider = SdkTracerProvider::builder().with_span_processor(spans);
    let provider = provider.with_sampler(Sampler::ParentBased(Box::new(root)));
    provider.build().tracer(SERVICE)
}

/// A tracer whose spans a test receives.
#[cfg(test)]
pub(crate) fn recorded(sampling_rate: f64) -> (Arc<Tracer>, Arc<queue::Ended>) {
    let (queue, ended) = Queue::new(10, Default::default());
    let config = Config { endpoint: String::new(), sampling_rate };
    let (stop, export) = (CancellationToken::new(), TaskTracker::new());
    (Arc::new(Tracer { tracer: tracer(&config, queue), stop, export }), ended)
}

/// The name of this program in traces.
const SERVICE: &str = "mc-sidecar";
/// Timeout of one export, OTLP's default.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
