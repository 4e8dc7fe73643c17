//! Exports a trace of the command by OTLP, with `KUBECTL_MC_TRACE=otlp`: a span for the command,
//! and a child span for each request of the plugin, which sends it to the host in `traceparent`
//! (W3C Trace Context). kubectl does not send its own trace; [`crate::kubectl::trace_proxy`] adds
//! it to the requests of its processes.
//!
//! Without the variable nothing is set up. With it, spans are kept until the end of the command, and exported
//! once.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use kubectl_mc_api::path::CLUSTERS_PATH;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{
    Span as _, SpanContext, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracer, SdkTracerProvider, Span, SpanData, SpanExporter as _, SpanProcessor,
};

use crate::env::{self, Env};
use crate::error::{Failure, chain};
use crate::exit::ExitStatus;
use crate::log::without_credential;
use crate::printer::Printer;

/// The trace of this process, if one was started.
static TRACE: OnceLock<Trace> = OnceLock::new();

/// The trace of a running command.
#[derive(Debug)]
pub(crate) struct Trace {
    tracer: SdkTracer,
    resource: Resource,
    endpoint: String,
    context: SpanContext,
    #[expect(clippy::disallowed_types, reason = "held for a change, and never over an await")]
    command: std::sync::Mutex<Option<Span>>,
    ended: Ended,
}

/// Starts the trace of a command, if the environment enables it.
pub(crate) fn begin(verb: Option<&OsStr>, env: &Env) -> Result<(), Failure> {
    match env.var(env::TRACE) {
        None => return Ok(()),
        Some(exporter) if exporter == OTLP => {}
        Some(other) => {
            let other = other.to_string_lossy();
            return Err(Failure::usage(format!("{} is {other:?}, not {OTLP:?}", env::TRACE)));
        }
    }
    let trace = Trace::new(verb, env);
    // Cannot fail, because a process runs one command.
    let _ = TRACE.set(trace);
    Ok(())
}

/// The trace of the current command.
pub(crate) fn current() -> Option<&'static Trace> {
    TRACE.get()
}

/// Ends the trace and exports it. `status` is unknown if kubectl replaces this process.
pub(crate) fn end(status: Option<ExitStatus>, printer: &Printer) {
    let Some(trace) = current() else { return };
    let Some(mut command) = trace.command().take() else { return };
    if let Some(status) = status {
        command.set_attribute(KeyValue::new("process.exit.code", i64::from(status.code())));
        if status != ExitStatus::Success {
            command.set_status(Status::error(""));
        }
    }
    drop(command);
    if let Err(reason) = trace.export() {
        let endpoint = without_credential(&trace.endpoint);
        printer.note_line(&format!("warning: the trace was not exported to {endpoint}: {reason}"));
    }
}

impl Trace {
    fn new(verb: Option<&OsStr>, env: &Env) -> Self {
        let ended = Ended::default();
        let provider = SdkTracerProvider::builder().with_span_processor(ended.clone());
        let tracer = provider.with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn))).build();
        let tracer = tracer.tracer(SERVICE);
        let verb = verb.and_then(OsStr::to_str).filter(|verb| is_plain(verb)).unwrap_or_default();
        let span = tracer.span_builder(format!("kubectl mc {verb}").trim_end().to_owned());
        let mut command = span
            .with_kind(SpanKind::Internal)
            .start_with_context(&tracer, &parent(env.var(env::TRACEPARENT)));
        command.set_attribute(KeyValue::new("kubectl-mc.dev/verb", verb.to_owned()));
        let endpoint = [env::OTLP_TRACES_ENDPOINT, env::OTLP_ENDPOINT].into_iter();
        let endpoint = endpoint.filter_map(|name| env.var(name)?.to_str().map(str::to_owned)).next();
        Self {
            tracer,
            resource: Resource::builder_empty()
                .with_attributes([
                    KeyValue::new("service.name", SERVICE),
                    KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                ])
                .build(),
            endpoint: endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned()),
            context: command.span_context().clone(),
            command: Some(command).into(),
            ended,
        }
    }

    /// Adds the number of the command's clusters.
    pub(crate) fn clusters(&self, count: usize) {
        if let Some(command) = &mut *self.command() {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            command.set_attribute(KeyValue::new("kubectl-mc.dev/clusters", count));
        }
    }

    /// Starts the span of a request, and adds it to the request's headers.
    pub(crate) fn request(&self, method: &Method, path: &str, headers: &mut HeaderMap) -> RequestSpan {
        let parent = Context::new().with_remote_span_context(self.context.clone());
        let span = self.tracer.span_builder(format!("HTTP {method}")).with_kind(SpanKind::Client);
        let mut span = span.start_with_context(&self.tracer, &parent);
        span.set_attributes([
            KeyValue::new("http.request.method", method.to_string()),
            KeyValue::new("url.path", path.to_owned()),
        ]);
        if let Some(cluster) = cluster(path) {
            span.set_attribute(KeyValue::new("kubectl-mc.dev/cluster", cluster.to_owned()));
        }
        for (name, value) in carried(span.span_context()) {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::try_from(value)) {
                headers.insert(name, value);
            }
        }
        RequestSpan(span)
    }

    /// The value of `TRACEPARENT` for a child.
    pub(crate) fn parent_of_child(&self) -> Option<String> {
        carried(&self.context).remove(TRACEPARENT)
    }

    fn command(&self) -> std::sync::MutexGuard<'_, Option<Span>> {
        self.command.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn export(&self) -> Result<(), String> {
        let spans = self.ended.take();
        if spans.is_empty() {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| error.to_string())?.block_on(async {
            let exporter = SpanExporter::builder().with_tonic().with_endpoint(&self.endpoint);
            let mut exporter = exporter.with_timeout(TIMEOUT).build().map_err(|error| chain(&error))?;
            exporter.set_resource(&self.resource);
            match tokio::time::timeout(TIMEOUT, exporter.export(spans)).await {
                Ok(exported) => exported.map_err(|error| chain(&error)),
                Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
            }
        })
    }
}

/// A request of the plugin, until the header of its response.
#[derive(Debug)]
pub(crate) struct RequestSpan(Span);

impl RequestSpan {
    /// Ends the span with the status of the response, or without a response.
    pub(crate) fn ended(mut self, code: Option<StatusCode>) {
        if let Some(code) = code {
            self.0.set_attribute(KeyValue::new("http.response.status_code", i64::from(code.as_u16())));
        }
        if code.is_none_or(|code| code.is_client_error() || code.is_server_error()) {
            self.0.set_status(Status::error(""));
        }
    }
}

/// Finished spans. Further ones are dropped, so that a command that follows logs for days does not grow.
#[derive(Clone, Debug, Default)]
struct Ended(
    #[expect(clippy::disallowed_types, reason = "held for an append, and never over an await")]
    Arc<std::sync::Mutex<Vec<SpanData>>>,
);

impl Ended {
    fn take(&self) -> Vec<SpanData> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SpanProcessor for Ended {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The span of the command comes last and is always kept.
        if ended.len() < MAX_SPANS || span.span_kind == SpanKind::Internal {
            ended.push(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The parent trace from the environment, or a new trace.
fn parent(traceparent: Option<&OsStr>) -> Context {
    let Some(traceparent) = traceparent.and_then(OsStr::to_str) else { return Context::new() };
    let carrier = HashMap::from([(TRACEPARENT.to_owned(), traceparent.to_owned())]);
    TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier)
}

/// A span as headers.
fn carried(span: &SpanContext) -> HashMap<String, String> {
    let mut carrier = HashMap::new();
    let context = Context::new().with_remote_span_context(span.clone());
    TraceContextPropagator::new().inject_context(&context, &mut carrier);
    carrier.retain(|_, value| !value.is_empty());
    carrier
}

/// The cluster in the path of a request to a member, which may start with the host's path prefix.
fn cluster(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once(CLUSTERS_PATH)?;
    rest.strip_prefix('/')?.split('/').next().filter(|name| !name.is_empty())
}

/// Whether this is the name of a verb and not a value.
fn is_plain(verb: &str) -> bool {
    verb.len() <= 24 && verb.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

const OTLP: &str = "otlp";
const SERVICE: &str = "kubectl-mc";
/// OTLP's default for gRPC.
const DEFAULT_ENDPOINT: &str = "http://localhost:4317";
const TRACEPARENT: &str = "traceparent";
/// How long the end of a command waits for the collector.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Enough for a few requests to each of a thousand clusters.
const MAX_SPANS: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn trace(verb: &str, variables: &[(&str, &str)]) -> Trace {
        Trace::new(Some(OsStr::new(verb)), &variables.iter().copied().collect())
    }

    #[test]
    fn request_joins_the_command_and_the_trace_of_the_caller() {
        let trace = trace("get", &[(env::TRACEPARENT, PARENT)]);
        trace.clusters(3);
        let mut headers = HeaderMap::new();
        let path = format!("/prefix{CLUSTERS_PATH}/m1/proxy/api/v1/pods");
        trace.request(&Method::GET, &path, &mut headers).ended(Some(StatusCode::OK));
        drop(trace.command().take());
        let spans = trace.ended.take();
        let [request, command] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(command.parent_span_id.to_string(), "b7ad6b7169203331");
        assert_eq!(request.parent_span_id, command.span_context.span_id());
        let (id, span) = (request.span_context.trace_id(), request.span_context.span_id());
        assert_eq!(id.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(headers["traceparent"], format!("00-{id}-{span}-01"));
        let shown = |span: &SpanData| {
            span.attributes
                .iter()
                .map(|KeyValue { key, value, .. }| format!("{key}={value}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (&*command.name, shown(command).join(" ")),
            ("kubectl mc get", "kubectl-mc.dev/verb=get kubectl-mc.dev/clusters=3".to_owned())
        );
        assert!(shown(request).contains(&"kubectl-mc.dev/cluster=m1".to_owned()), "{request:?}");
    }

    #[test]
    fn unsampled_trace_is_propagated_and_not_exported() {
        let trace = trace("get", &[(env::TRACEPARENT, &PARENT.replace("-01", "-00"))]);
        let mut headers = HeaderMap::new();
        trace.request(&Method::GET, "/version", &mut headers).ended(None);
        drop(trace.command().take());
        assert!(trace.ended.take().is_empty());
        let sent = headers["traceparent"].to_str().unwrap();
        assert!(sent.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && sent.ends_with("-00"), "{sent}");
    }

    #[test]
    fn traces_endpoint_overrides_the_general_endpoint() {
        let all = (env::OTLP_ENDPOINT, "http://all:4317");
        let own = (env::OTLP_TRACES_ENDPOINT, "http://traces:4317");
        assert_eq!(trace("get", &[all, own]).endpoint, "http://traces:4317");
        assert_eq!(trace("get", &[all]).endpoint, "http://all:4317");
        assert_eq!(trace("get", &[]).endpoint, DEFAULT_ENDPOINT);
    }

    #[test]
    fn unknown_verb_is_not_in_the_trace() {
        for word in ["s3cret", "PASSWORD", "a=b", &"x".repeat(25)] {
            assert!(!format!("{:?}", trace(word, &[]).command()).contains(word), "{word}");
        }
    }

    #[test]
    fn unknown_exporter_is_an_error() {
        let env: Env = [(env::TRACE, "jaeger")].into_iter().collect();
        let error = begin(None, &env).unwrap_err().to_string();
        assert_eq!(error, r#"KUBECTL_MC_TRACE is "jaeger", not "otlp""#);
        begin(None, &Env::default()).unwrap();
        assert!(current().is_none());
    }
}
