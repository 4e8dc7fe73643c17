//! Creates the spans of one request, with the names and times of a kube-apiserver (apiserver:
//! `endpoints/filters/traces.go`): one from its head to its last byte, and a child for each exchange with the
//! member.
//!
//! An unauthenticated request has none, so that unauthenticated clients cannot cause exports. The
//! caller's trace continues only if the caller may decide about sampling: the host, or a user in
//! one of two groups, as upstream. Any other request starts its own trace with a link to the
//! caller's, and the sampling rate decides about it.

use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use kubectl_mc_api::{ClusterName, Hop};
use opentelemetry::trace::{
    Link, Span as _, SpanContext, SpanKind, Status, TraceContextExt, TraceId, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};

use super::{Tracer, propagation};
use crate::head::request_info::{RequestInfo, Route};
use crate::identity::{Identity, MASTERS};

/// The tracing state of one request, from its head to its end.
#[derive(Debug)]
pub struct RequestSpan {
    tracer: Arc<Tracer>,
    received: SystemTime,
    method: Method,
    uri: Uri,
    user_agent: Option<HeaderValue>,
    caller: Option<SpanContext>,
    /// Whether the headers contain a trace, valid or not.
    has_traceparent: bool,
    /// Whether the host replaced the caller's trace with its own.
    is_of_host: bool,
    name: String,
    cluster: Option<ClusterName>,
    upgrade: Option<&'static str>,
    /// Set once the login is known.
    span: Option<Span>,
}

impl RequestSpan {
    /// Starts before authentication. `is_forwarded` means that the peer is the host.
    pub fn begin<B>(tracer: Arc<Tracer>, request: &Request<B>, is_forwarded: bool) -> Self {
        Self {
            tracer,
            received: SystemTime::now(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            user_agent: request.headers().get(header::USER_AGENT).cloned(),
            caller: propagation::extract(request.headers()),
            has_traceparent: request.headers().contains_key(propagation::TRACEPARENT),
            is_of_host: is_forwarded,
            name: request.method().to_string(),
            cluster: None,
            upgrade: None,
            span: None,
        }
    }

    /// Adds route, cluster and upgrade. The host forwards the headers of an upgrade unchanged, so their trace
    /// is the caller's (kube-aggregator: `handler_proxy.go`).
    pub fn understood(&mut self, info: &RequestInfo) {
        self.upgrade = info.upgrade.map(|protocol| protocol.as_str());
        self.is_of_host &= info.upgrade.is_none();
        let (rest, cluster) = match &info.route {
            Route::Clusters(None) => ("", None),
            Route::Clusters(Some(_)) => ("/{:name}", None),
            Route::HubObjects(objects) if objects.object.name.is_empty() => ("", None),
            Route::HubObjects(_) => ("/{:name}", None),
            Route::Proxy(_, cluster, _) => ("/{:name}/proxy", Some(cluster)),
            Route::Attach(cluster) => ("/{:name}/attach", Some(cluster)),
            Route::Discovery(_) | Route::Health(_) | Route::Metrics | Route::Debug(_) => return,
        };
        self.name = format!("{} {}{rest}", self.method, info.group().collection());
        self.cluster = cluster.cloned();
    }

    /// Adds the authenticated user, and decides whether the request is sampled.
    pub fn logged_in(&mut self, login: &Identity) {
        let is_trusted =
            self.is_of_host || login.groups.iter().any(|group| DECIDING_GROUPS.contains(&group.as_str()));
        let tracer = &self.tracer.tracer;
        let span = tracer.span_builder(self.name.clone());
        let span = span.with_kind(SpanKind::Server).with_start_time(self.received);
        let mut span = match &self.caller {
            Some(caller) if is_trusted => {
                span.start_with_context(tracer, &Context::new().with_remote_span_context(caller.clone()))
            }
            Some(caller) => {
                let link = Link::new(caller.clone(), Vec::new(), 0);
                span.with_links(vec![link]).start_with_context(tracer, &Context::new())
            }
            None => span.start_with_context(tracer, &Context::new()),
        };
        if span.is_recording() {
            span.set_attributes(self.attributes());
            span.add_event("authenticated", Vec::new());
        }
        self.span = Some(span);
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let mut attributes = vec![
            KeyValue::new("http.request.method", self.method.to_string()),
            // Without the query, which may contain a credential.
            KeyValue::new("url.path", truncated(self.uri.path())),
        ];
        if let Some(user_agent) = &self.user_agent {
            let text = String::from_utf8_lossy(user_agent.as_bytes());
            attributes.push(KeyValue::new("user_agent.original", truncated(&text)));
        }
        if let Some(cluster) = &self.cluster {
            attributes.push(KeyValue::new(CLUSTER, cluster.to_string()));
        }
        if let Some(upgrade) = self.upgrade {
            attributes.push(KeyValue::new("kubectl-mc.dev/upgrade", upgrade));
        }
        attributes
    }

    /// Adds the host's decision.
    pub fn authorized(&mut self) {
        self.event("authorized");
    }

    /// Adds the head of the answer.
    pub fn answered(&mut self) {
        self.event("answered");
    }

    fn event(&mut self, name: &'static str) {
        if let Some(span) = self.recording() {
            span.add_event(name, Vec::new());
        }
    }

    /// Adds the end of an upgraded connection.
    pub fn tunnel_ended(&mut self, to_member: u64, to_caller: u64, reason: &'static str) {
        let bytes = |count| i64::try_from(count).unwrap_or(i64::MAX);
        if let Some(span) = self.recording() {
            span.set_attributes([
                KeyValue::new("kubectl-mc.dev/bytes-to-member", bytes(to_member)),
                KeyValue::new("kubectl-mc.dev/bytes-to-caller", bytes(to_caller)),
                KeyValue::new("kubectl-mc.dev/end", reason),
            ]);
        }
    }

    /// Ends the span of the request.
    pub fn ended(&mut self, audit_id: &dyn ToString, code: Option<StatusCode>, hop: Option<Hop>) {
        let Some(span) = self.recording() else { return };
        span.set_attribute(KeyValue::new("audit-id", audit_id.to_string()));
        if let Some(hop) = hop {
            span.set_attribute(KeyValue::new("kubectl-mc.dev/hop", hop.as_str()));
        }
        if let Some(code) = code {
            span.set_attribute(KeyValue::new(STATUS_CODE, i64::from(code.as_u16())));
        }
        if code.is_none_or(|code| code.is_server_error()) {
            span.set_status(Status::error(""));
        }
        span.end();
    }

    /// The trace of a sampled request.
    pub fn trace_id(&self) -> Option<TraceId> {
        let context = self.span.as_ref()?.span_context();
        context.is_sampled().then(|| context.trace_id())
    }

    /// The trace context for exchanges with a member.
    pub fn to_member(&self) -> Option<ToMember> {
        let context = self.span.as_ref()?.span_context().clone();
        // Without a trace in the headers, the member decides about sampling.
        if !self.has_traceparent && !context.is_sampled() {
            return None;
        }
        let (tracer, cluster) = (self.tracer.tracer.clone(), self.cluster.clone());
        Some(ToMember { tracer, context, cluster, span: None })
    }

    fn recording(&mut self) -> Option<&mut Span> {
        self.span.as_mut().filter(|span| span.is_recording())
    }
}

/// The spans of a request's exchanges with a member; there can be several.
#[derive(Debug)]
pub struct ToMember {
    tracer: SdkTracer,
    context: SpanContext,
    cluster: Option<ClusterName>,
    /// The span of the last exchange, until its end.
    span: Option<Span>,
}

impl ToMember {
    /// Starts an exchange: the connection, the request, and the wait for the head of the answer. The member
    /// gets the exchange's span in place of the caller's, or the request's span if that is not sampled, so
    /// that an ordinary caller cannot decide about sampling at the member.
    pub fn begin(&mut self, method: &Method, headers: &mut HeaderMap) {
        if !self.context.is_sampled() {
            return propagation::inject(&self.context, headers);
        }
        let parent = Context::new().with_remote_span_context(self.context.clone());
        let span = self.tracer.span_builder(format!("HTTP {method}")).with_kind(SpanKind::Client);
        let mut span = span.start_with_context(&self.tracer, &parent);
        span.set_attribute(KeyValue::new("http.request.method", method.to_string()));
        if let Some(cluster) = &self.cluster {
            span.set_attribute(KeyValue::new(CLUSTER, cluster.to_string()));
        }
        propagation::inject(span.span_context(), headers);
        self.span = Some(span);
    }

    /// Ends it with the status of the answer, or without a status if the caller got no answer.
    pub fn ended(&mut self, code: Option<StatusCode>) {
        let Some(mut span) = self.span.take() else { return };
        if let Some(code) = code {
            span.set_attribute(KeyValue::new(STATUS_CODE, i64::from(code.as_u16())));
        }
        // For a client span, a refusal is also an error.
        if code.is_none_or(|code| code.is_client_error() || code.is_server_error()) {
            span.set_status(Status::error(""));
        }
    }
}

/// Truncates a text, because the queue bounds only the number of spans.
fn truncated(text: &str) -> String {
    match text.char_indices().nth(MAX_LETTERS) {
        Some((end, _)) => format!("{}...TRUNCATED", &text[..end]),
        None => text.to_owned(),
    }
}

/// Groups that may decide about sampling (apiserver: `authentication/user`).
const DECIDING_GROUPS: [&str; 2] = [MASTERS, "system:monitoring"];
const CLUSTER: &str = "kubectl-mc.dev/cluster";
const STATUS_CODE: &str = "http.response.status_code";
/// Longer than any path of the Kubernetes API.
const MAX_LETTERS: usize = 1024;

#[cfg(test)]
mod tests;
