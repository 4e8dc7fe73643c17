use super::*;
use crate::telemetry::spans::recorded;

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOT_SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
const POD: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods?token=secret";

fn request(traceparent: &str) -> Request<()> {
    let request = Request::get(POD).header("user-agent", "kubectl").header("host", "x");
    let request = if traceparent.is_empty() { request } else { request.header("traceparent", traceparent) };
    request.body(()).unwrap()
}

fn login(groups: &[&str]) -> Identity {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Identity { user: "jane".to_owned(), groups, ..Identity::default() }
}

/// A request up to its login, and the headers that the member gets.
fn asked(
    tracer: &Arc<Tracer>,
    traceparent: &str,
    groups: &[&str],
    by_host: bool,
) -> (RequestSpan, HeaderMap) {
    let request = request(traceparent);
    let mut span = RequestSpan::begin(tracer.clone(), &request, by_host);
    span.understood(&RequestInfo::parse(&request).unwrap());
    span.logged_in(&login(groups));
    let mut headers = request.headers().clone();
    if let Some(mut member) = span.to_member() {
        member.begin(&Method::GET, &mut headers);
        member.ended(Some(StatusCode::OK));
    }
    (span, headers)
}

#[test]
fn parent_decides_sampling_for_privileged_groups() {
    let (tracer, _ended) = recorded(0.0);
    let sampled = |traceparent, groups: &[&str], by_host| {
        asked(&tracer, traceparent, groups, by_host).0.trace_id().map(|id| id.to_string())
    };
    let parents = Some("0af7651916cd43dd8448eb211c80319c".to_owned());
    assert_eq!(sampled(SAMPLED, &["system:masters"], false), parents);
    assert_eq!(sampled(SAMPLED, &["system:monitoring"], false), parents);
    assert_eq!(sampled(SAMPLED, &["dev"], true), parents, "the host's span");
    assert_eq!(sampled(SAMPLED, &["dev"], false), None);
    assert_eq!(sampled(NOT_SAMPLED, &["system:masters"], false), None);
    assert_eq!(sampled("", &["system:masters"], true), None);
}

#[test]
fn member_gets_no_invalid_trace_of_the_caller() {
    let (tracer, _ended) = recorded(0.0);
    let mut request = request(SAMPLED);
    request.headers_mut().append("traceparent", SAMPLED.parse().unwrap());
    let mut span = RequestSpan::begin(tracer, &request, false);
    span.understood(&RequestInfo::parse(&request).unwrap());
    span.logged_in(&login(&[]));
    let mut headers = request.headers().clone();
    span.to_member().unwrap().begin(&Method::GET, &mut headers);
    let sent: Vec<_> = headers.get_all("traceparent").iter().collect();
    assert!(sent.len() == 1 && sent[0].to_str().unwrap().ends_with("-00"), "{sent:?}");
}

#[test]
fn sampling_rate_decides_for_other_callers() {
    let (tracer, mut ended) = recorded(1.0);
    assert!(asked(&tracer, "", &[], false).0.trace_id().is_some());
    assert!(asked(&tracer, NOT_SAMPLED, &["system:masters"], false).0.trace_id().is_none());
    while ended.try_recv().is_ok() {}
    let (span, _) = asked(&tracer, SAMPLED, &["dev"], false);
    let id = span.trace_id().unwrap().to_string();
    assert_ne!(id, "0af7651916cd43dd8448eb211c80319c");
    ended.try_recv().unwrap();
    drop(span);
    let link = ended.try_recv().unwrap().links.iter().next().unwrap().span_context.clone();
    assert_eq!(link.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
}

#[test]
fn forwarded_upgrade_has_the_callers_trace() {
    let (tracer, _ended) = recorded(0.0);
    let mut upgrade = request(SAMPLED);
    for (name, value) in [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")] {
        upgrade.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let sampled = |groups: &[&str]| {
        let mut span = RequestSpan::begin(tracer.clone(), &upgrade, true);
        span.understood(&RequestInfo::parse(&upgrade).unwrap());
        span.logged_in(&login(groups));
        span.trace_id().is_some()
    };
    assert!(sampled(&["system:masters"]) && !sampled(&["dev"]));
}

#[test]
fn member_gets_the_span_of_its_exchange() {
    let (tracer, mut ended) = recorded(0.0);
    let (mut span, headers) = asked(&tracer, SAMPLED, &["system:masters"], false);
    let member = ended.try_recv().unwrap();
    let sent = headers["traceparent"].to_str().unwrap().to_owned();
    let (trace, id) = (member.span_context.trace_id(), member.span_context.span_id());
    assert_eq!(sent, format!("00-{trace}-{id}-01"));
    span.ended(&"id", Some(StatusCode::OK), None);
    let request = ended.try_recv().unwrap();
    assert_eq!(member.parent_span_id, request.span_context.span_id());
    assert_eq!(request.parent_span_id.to_string(), "b7ad6b7169203331");
    assert!(member.start_time >= request.start_time && member.end_time <= request.end_time);
}

#[test]
fn member_gets_no_sampling_decision_of_an_ordinary_caller() {
    let (tracer, mut ended) = recorded(0.0);
    let (span, headers) = asked(&tracer, SAMPLED, &["dev"], false);
    let sent = headers["traceparent"].to_str().unwrap();
    assert!(sent.ends_with("-00") && !sent.contains("0af7651916cd43dd8448eb211c80319c"), "{sent}");
    drop(span);
    assert!(ended.try_recv().is_err());
}

#[test]
fn unauthenticated_request_has_no_span() {
    let (tracer, mut ended) = recorded(1.0);
    let request = request(SAMPLED);
    let mut span = RequestSpan::begin(tracer, &request, false);
    span.understood(&RequestInfo::parse(&request).unwrap());
    span.ended(&"id", Some(StatusCode::UNAUTHORIZED), None);
    drop(span);
    assert!(ended.try_recv().is_err());
}

#[test]
fn span_names_request_and_outcome_without_the_query() {
    let (tracer, mut ended) = recorded(1.0);
    let (mut span, _) = asked(&tracer, "", &[], false);
    span.ended(&"the-id", Some(StatusCode::BAD_GATEWAY), Some(Hop::Sidecar));
    ended.try_recv().unwrap();
    let span = ended.try_recv().unwrap();
    assert_eq!(span.name, "GET /apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{:name}/proxy");
    assert_eq!(span.status, Status::error(""));
    let mut attributes: Vec<_> =
        span.attributes.iter().map(|KeyValue { key, value, .. }| format!("{key}={value}")).collect();
    attributes.sort();
    let expected = [
        "audit-id=the-id",
        "http.request.method=GET",
        "http.response.status_code=502",
        "kubectl-mc.dev/cluster=m1",
        "kubectl-mc.dev/hop=sidecar",
        "url.path=/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods",
        "user_agent.original=kubectl",
    ];
    assert_eq!(attributes, expected);
    assert!(!format!("{span:?}").contains("secret"));
}

#[test]
fn long_texts_are_truncated() {
    assert_eq!(truncated(&"é".repeat(MAX_LETTERS + 1)).chars().count(), MAX_LETTERS + "...TRUNCATED".len());
    assert_eq!(truncated("/a"), "/a");
}
