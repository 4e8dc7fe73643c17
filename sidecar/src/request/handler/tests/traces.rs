//! The spans of requests: outcome and hop, and none without a login.

use opentelemetry_sdk::trace::SpanData;

use super::chain::{BOB, Flags, JANE, MALLORY, PODS, app, send_as, stranger};
use super::*;
use crate::identity::trust::tests::front_proxy;
use crate::telemetry::spans;

/// The answer to one request, and its span.
async fn traced(header: Option<(&'static str, &str)>) -> (StatusCode, Option<SpanData>) {
    let (tracer, mut ended) = spans::recorded(1.0);
    let mut services = Arc::into_inner(app(Flags::default(), &front_proxy()).0).unwrap();
    services.tracer = Some(tracer);
    let services = Arc::new(services);
    let (code, ..) = send_as(&services, &stranger(), Version::HTTP_11, Method::GET, PODS, header).await;
    // The span ends with the last byte of the answer, which the client has by now.
    let span = tokio::time::timeout(std::time::Duration::from_secs(1), ended.recv()).await;
    (code, span.ok().flatten())
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    span.attributes.iter().find(|pair| pair.key.as_str() == key).map(|pair| pair.value.to_string())
}

#[tokio::test]
async fn request_span_names_its_outcome_and_hop() {
    for (caller, expected, hop, events) in [
        (JANE, StatusCode::SERVICE_UNAVAILABLE, "sidecar", &["authenticated", "authorized", "answered"][..]),
        (BOB, StatusCode::FORBIDDEN, "host authorization", &["authenticated", "answered"]),
    ] {
        let (code, span) = traced(caller).await;
        let span = span.unwrap();
        assert_eq!(code, expected);
        assert_eq!(attribute(&span, "http.response.status_code"), Some(code.as_u16().to_string()));
        assert_eq!(attribute(&span, "kubectl-mc.dev/hop").as_deref(), Some(hop));
        assert_eq!(span.events.iter().map(|event| &*event.name).collect::<Vec<_>>(), events);
    }
}

#[tokio::test(start_paused = true)]
async fn request_with_a_failed_login_has_no_span() {
    let (code, span) = traced(MALLORY).await;
    assert_eq!((code, span), (StatusCode::UNAUTHORIZED, None));
}
