//! Reads and writes the trace in the headers of a request: `traceparent` and `tracestate` (W3C Trace
//! Context).

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// The caller's span. `None` if there is none, or it is invalid.
pub(super) fn extract(headers: &HeaderMap) -> Option<SpanContext> {
    // With two lines, either could be the right one.
    let mut lines = headers.get_all(TRACEPARENT).iter();
    if lines.next().is_none() || lines.next().is_some() {
        return None;
    }
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers));
    Some(context.span().span_context().clone()).filter(SpanContext::is_valid)
}

/// Writes a span into headers, in place of the caller's.
pub(super) fn inject(span: &SpanContext, headers: &mut HeaderMap) {
    headers.remove(TRACESTATE);
    let context = Context::new().with_remote_span_context(span.clone());
    TraceContextPropagator::new().inject_context(&context, &mut HeadersMut(headers));
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct HeadersMut<'a>(&'a mut HeaderMap);

impl Injector for HeadersMut<'_> {
    fn set(&mut self, key: &str, value: String) {
        if value.is_empty() {
            return;
        }
        if let (Ok(name), Ok(value)) = (key.parse::<HeaderName>(), HeaderValue::try_from(value)) {
            // This fails only for a map at its maximum size, and such a request is not served.
            let _ = self.0.try_insert(name, value);
        }
    }
}

pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let name = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(name).collect()
    }

    #[test]
    fn span_round_trips_through_headers_with_its_state() {
        let span = extract(&headers(&[("traceparent", PARENT), ("tracestate", "a=1,b=2")])).unwrap();
        let mut sent = headers(&[("traceparent", "old"), ("tracestate", "old=1")]);
        inject(&span, &mut sent);
        assert_eq!(
            (sent["traceparent"].as_bytes(), sent["tracestate"].as_bytes()),
            (PARENT.as_bytes(), &b"a=1,b=2"[..])
        );
        let span = extract(&headers(&[("traceparent", PARENT)])).unwrap();
        inject(&span, &mut sent);
        assert!(!sent.contains_key("tracestate"), "the state of another trace");
    }

    #[test]
    fn invalid_headers_are_ignored() {
        for lines in [
            &[][..],
            &[("traceparent", "")],
            &[("traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01")],
            &[("traceparent", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")],
            &[("traceparent", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01")],
        ] {
            assert!(extract(&headers(lines)).is_none(), "{lines:?}");
        }
        let mut two = headers(&[("traceparent", PARENT)]);
        two.append("traceparent", HeaderValue::from_static(PARENT));
        assert!(extract(&two).is_none());
    }
}
