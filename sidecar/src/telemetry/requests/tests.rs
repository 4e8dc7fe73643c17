use http::{Method, Request, StatusCode};
use kubectl_mc_api::{ClusterName, Hop, path};

use super::*;
use crate::head::request_info::RequestInfo;

/// The labels of a request below `clusters`.
fn labels(method: &str, rest: &str, upgrade: Option<&str>) -> String {
    let mut request = Request::builder().method(method).uri(rest.replace('~', path::CLUSTERS_PATH));
    request = request.header("host", "h");
    if let Some(protocol) = upgrade {
        request = request.header("connection", "Upgrade").header("upgrade", protocol);
    }
    let request = request.body(()).unwrap();
    let info = RequestInfo::parse(&request).unwrap();
    let kind = Kind::of(&info);
    let gauge = Family::<Kind, Gauge>::default();
    gauge.get_or_create(&kind).inc();
    let mut registry = Registry::default();
    registry.register("x", "X", gauge);
    let text = crate::observe::metrics::text(&registry);
    let line = text.lines().find(|line| line.starts_with("x{")).unwrap();
    let value =
        |name: &str| line.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().to_owned();
    let lasts = if kind.is_long_running() { " long-running" } else { "" };
    let [verb, resource, subresource, scope] = ["verb", "resource", "subresource", "scope"].map(value);
    format!("{verb} {resource}/{subresource} {scope}{lasts}")
}

#[test]
fn kind_has_the_members_verb_and_the_sidecars_object() {
    for (method, rest, expected) in [
        ("GET", "~/m1/proxy/api/v1/namespaces/ns/pods/web", "GET clusters/proxy resource"),
        ("HEAD", "~/m1/proxy/api/v1/namespaces/ns/pods", "LIST clusters/proxy resource"),
        ("GET", "~/m1/proxy/api/v1/pods?watch=1", "WATCH clusters/proxy resource long-running"),
        ("POST", "~/m1/proxy/api/v1/namespaces/ns/pods", "POST clusters/proxy resource"),
        ("DELETE", "~/m1/proxy/api/v1/namespaces/ns/pods", "DELETECOLLECTION clusters/proxy resource"),
        ("OPTIONS", "~/m1/proxy/healthz", "other clusters/proxy resource"),
        ("GET", "~/m1/proxy/healthz", "GET clusters/proxy resource"),
        (
            "GET",
            "~/m1/proxy/api/v1/namespaces/ns/pods/web/log",
            "CONNECT clusters/proxy resource long-running",
        ),
        ("GET", "~", "LIST clusters/ cluster"),
        ("GET", "~?watch=1", "WATCH clusters/ cluster long-running"),
        ("GET", "~/m1", "GET clusters/ resource"),
        ("GET", "/metrics", "GET //metrics "),
        ("GET", "/openapi/v3", "GET //openapi/v3 "),
    ] {
        assert_eq!(labels(method, rest, None), expected, "{method} {rest}");
    }
    let exec = "~/m1/proxy/api/v1/namespaces/ns/pods/web/exec";
    assert_eq!(labels("POST", exec, Some("SPDY/3.1")), "CONNECT clusters/proxy resource long-running");
}

fn registered() -> (Registry, Metrics) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    (registry, metrics)
}

fn denied() -> Outcome {
    Outcome::new(Some(StatusCode::FORBIDDEN), Some(Hop::HostAuthorization))
}

#[test]
fn series_are_unique_and_invented_codes_are_grouped() {
    let (registry, metrics) = registered();
    let member = metrics.by_member.of(&"m1".parse().unwrap());
    for rest in ["/pods/x", "/pods/x/log", "/pods/x/exec", "/services/x/proxy", "/pods?watch=1", "/pods"] {
        for method in ["GET", "POST"] {
            let target = format!("{}/m1/proxy/api/v1/namespaces/ns{rest}", path::CLUSTERS_PATH);
            let request = Request::builder().method(method).uri(target).header("host", "h").body(()).unwrap();
            let info = RequestInfo::parse(&request).unwrap();
            let kind = Kind::of(&info);
            for code in 200..1000 {
                let outcome = Outcome::new(StatusCode::from_u16(code).ok(), None);
                metrics.understood(kind);
                metrics.ended(kind, outcome, Some(&member), Took::default());
            }
        }
    }
    let text = crate::observe::metrics::text(&registry);
    let series =
        || text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    let unique: std::collections::BTreeSet<_> = series().map(|(name, _)| name).collect();
    assert_eq!(unique.len(), series().count(), "{text}");
    assert!(series().filter(|(name, _)| name.starts_with("apiserver_request_total")).count() < 600);
}

#[test]
fn request_is_counted_by_code_member_and_hop() {
    let (registry, metrics) = registered();
    let m1: ClusterName = "m1".parse().unwrap();
    let member = metrics.by_member.of(&m1);
    let end = |member| {
        metrics.begun();
        let took = Took { elapsed: Duration::from_millis(2), ..Took::default() };
        metrics.ended(Kind::unknown(&Method::GET), denied(), member, took);
    };
    end(Some(&*member));
    end(None);
    let text = crate::observe::metrics::text(&registry);
    for rest in [
        r#"component="mc-sidecar",code="403",cluster="m1",hop="host authorization"} 1"#,
        r#"component="mc-sidecar",code="403",cluster="",hop="host authorization"} 1"#,
        r#"mc_sidecar_member_request_duration_seconds_count{cluster="m1"} 1"#,
        "mc_sidecar_requests_in_flight 0",
    ] {
        assert!(text.contains(rest), "{rest}: {text}");
    }
    assert_eq!(text.matches("# TYPE apiserver_request counter").count(), 1, "{text}");
}

#[test]
fn series_of_a_member_are_removed_with_it() {
    let (registry, metrics) = registered();
    let m1: ClusterName = "m1".parse().unwrap();
    let member = metrics.by_member.of(&m1);
    metrics.ended(Kind::unknown(&Method::OPTIONS), denied(), Some(&member), Took::default());
    assert!(Arc::ptr_eq(&member, &metrics.by_member.of(&m1)), "a new Secret does not begin anew");
    drop(member);
    assert!(!crate::observe::metrics::text(&registry).contains("m1"));
}

#[test]
fn long_running_request_counts_as_open_not_in_duration() {
    let (registry, metrics) = registered();
    let watch = format!("{}/m1/proxy/api/v1/pods?watch=1", path::CLUSTERS_PATH);
    let request = Request::builder().uri(watch).header("host", "h").body(()).unwrap();
    let info = RequestInfo::parse(&request).unwrap();
    let kind = Kind::of(&info);
    metrics.begun();
    metrics.understood(kind);
    let open = |number| {
        let text = crate::observe::metrics::text(&registry);
        let line = text.lines().find(|line| line.starts_with("apiserver_longrunning_requests{")).unwrap();
        assert!(line.contains(r#"verb="WATCH""#) && line.ends_with(number), "{line}");
    };
    open(" 1");
    let member = metrics.by_member.of(&"m1".parse().unwrap());
    metrics.ended(kind, Outcome::new(Some(StatusCode::OK), None), Some(&member), Took::default());
    open(" 0");
    assert!(
        !crate::observe::metrics::text(&registry)
            .contains("mc_sidecar_member_request_duration_seconds_count")
    );
}

#[test]
fn time_in_queues_is_excluded_from_the_sli() {
    let (registry, metrics) = registered();
    let [elapsed, queued] = [3, 2].map(Duration::from_secs);
    let trace = Some(Trace { trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned() });
    metrics.ended(Kind::unknown(&Method::OPTIONS), denied(), None, Took { elapsed, queued, trace });
    let text = crate::observe::metrics::text(&registry);
    let sum = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}_seconds_sum"))).unwrap();
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(sum("apiserver_request_duration"), 3.0);
    assert_eq!(sum("apiserver_request_sli_duration"), 1.0);
    let exemplar = r##"# {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 3"##;
    assert!(text.contains(exemplar), "{text}");
}
