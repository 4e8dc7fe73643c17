use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request};
use kubectl_mc_api::Origin;
use kubectl_mc_api::access::sent::NotSent;
use serde_json::Value;

use jiff::Timestamp;

use super::*;
use crate::connection::head_limit::TooLarge;
use crate::head::audit_id::AuditId;
use crate::head::request_info::RequestInfo as Info;
use crate::identity::peer::Peer;
use crate::limits::cutoff::Listed;
use crate::outbound::upstream::breaker::Unreachable;
use crate::telemetry::requests::Metrics;

fn record(target: &str) -> Record {
    let peer = Arc::new(Peer::new("127.0.0.1:1".parse().unwrap(), None, None));
    let audit_id = AuditId::of(&mut HeaderMap::new());
    let record = Record::begin(Arc::new(Metrics::default()), peer, Listed::alone(), &Method::GET, audit_id);
    let request = Request::builder()
        .uri(format!("/apis/proxy.kubectl-mc.dev/v1alpha1/clusters{target}"))
        .header("host", "h");
    record.understood(&Info::parse(&request.body(()).unwrap()).unwrap());
    record
}

fn body(response: Response<Body>) -> (StatusCode, String) {
    let (parts, body) = response.into_parts();
    let Body::Full(body) = body else { panic!("an error's body is complete") };
    (parts.status, String::from_utf8(body.to_vec()).unwrap())
}

fn errors() -> Vec<(Error, u16, &'static str, Hop)> {
    let m1 = || "m1".parse().unwrap();
    let unreachable = Upstream::Unreachable { cluster: m1(), reason: "connection refused".to_owned() };
    let redirect = Upstream::Redirect { cluster: m1(), status: StatusCode::FOUND };
    let refused =
        Upstream::Impersonation { cluster: m1(), message: "no".to_owned(), lacking: None, waited: false };
    let stale = Upstream::Stale { cluster: m1(), reason: "connection closed".to_owned() };
    let malformed = Upstream::Malformed { cluster: m1(), reason: "invalid header".to_owned() };
    let open = |seconds| {
        let cause = Box::new(Unreachable::lasting(Duration::from_secs(seconds)));
        Upstream::Open { cluster: m1(), cause }
    };
    let off = Inventory::ProxyOff { cluster: m1(), why: "Secret m1.member does not exist".into() };
    let privileged = member::Error::Privileged("system:node:a".to_owned());
    let omitted = member::Error::from(NotSent::Account("system:serviceaccount:ns:n".to_owned())).on(&m1());
    let without_groups = member::Error::from(NotSent::WithoutGroups("system:serviceaccount:ns:n".to_owned()));
    vec![
        (RequestInfo::NotFound("/x".to_owned()).into(), 404, "NotFound", Hop::Request),
        (Authentication::Token.into(), 401, "Unauthorized", Hop::HostAuthentication),
        (Authentication::TooManyReviews.into(), 429, "TooManyRequests", Hop::HostAuthentication),
        (Authentication::Review.into(), 503, "ServiceUnavailable", Hop::HostAuthentication),
        (Authorization::TooManyReviews.into(), 429, "TooManyRequests", Hop::HostAuthorization),
        (Authorization::Review.into(), 503, "ServiceUnavailable", Hop::HostAuthorization),
        (Impersonation::Member(privileged).into(), 403, "Forbidden", Hop::HostAuthorization),
        (Impersonation::Member(without_groups).into(), 403, "Forbidden", Hop::HostAuthorization),
        (Impersonation::Member(omitted).into(), 403, "Forbidden", Hop::HostAuthorization),
        (Impersonation::WithoutUser.into(), 400, "BadRequest", Hop::HostAuthorization),
        (crate::limits::in_flight::Error::InAll.into(), 429, "TooManyRequests", Hop::Sidecar),
        (crate::limits::in_flight::Error::Tunnels.into(), 429, "TooManyRequests", Hop::Sidecar),
        (Inventory::Unknown(Origin::MemberCluster, m1()).into(), 404, "NotFound", Hop::ClusterUnknown),
        (Inventory::NotSynced.into(), 503, "ServiceUnavailable", Hop::Sidecar),
        (off.into(), 503, "ServiceUnavailable", Hop::ProxyOff),
        (stale.into(), 503, "ServiceUnavailable", Hop::MemberUnreachable),
        (malformed.into(), 502, "BadGateway", Hop::MemberUnreachable),
        (open(2).into(), 503, "ServiceUnavailable", Hop::MemberUnreachable),
        (open(60).into(), 503, "ServiceUnavailable", Hop::MemberUnreachable),
        (unreachable.into(), 503, "ServiceUnavailable", Hop::MemberUnreachable),
        (Upstream::Credential { cluster: m1() }.into(), 503, "ServiceUnavailable", Hop::MemberAuthentication),
        (redirect.into(), 502, "BadGateway", Hop::MemberUnreachable),
        (refused.into(), 403, "Forbidden", Hop::MemberImpersonation),
        (Upstream::Late { cluster: m1() }.into(), 504, "Timeout", Hop::MemberUnreachable),
        (Error::Closing, 503, "ServiceUnavailable", Hop::Sidecar),
        (End::Denied.into(), 403, "Forbidden", Hop::HostAuthorization),
        (End::Unconfirmed.into(), 503, "ServiceUnavailable", Hop::HostAuthorization),
        (End::MemberGone.into(), 503, "ServiceUnavailable", Hop::MemberUnreachable),
        (End::Stopped.into(), 503, "ServiceUnavailable", Hop::Sidecar),
        (TooLarge::Fields(100).into(), 431, "RequestHeaderFieldsTooLarge", Hop::Request),
        (crate::observe::panics::Panicked.into(), 500, "InternalError", Hop::Sidecar),
        (Clusters::Expired.into(), 410, "Expired", Hop::Request),
    ]
}

#[test]
fn every_error_status_names_its_hop() {
    for (error, code, reason, hop) in errors() {
        let response = response(&error, &record("/m1/proxy/api/v1/pods"));
        assert_eq!(response.headers()[headers::HOP], hop.as_str());
        let (status, body) = body(response);
        let status_object: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(status.as_u16(), code, "{body}");
        assert_eq!(status_object["kind"], "Status");
        assert_eq!(status_object["apiVersion"], "v1");
        assert_eq!(status_object["status"], "Failure");
        assert_eq!(status_object["reason"], reason);
        assert_eq!(status_object["code"], code);
        let causes = status_object["details"]["causes"].as_array().unwrap();
        let cause = causes.iter().find(|cause| cause["reason"] == "Hop").unwrap();
        assert_eq!(cause["message"], hop.as_str());
    }
}

#[test]
fn discovery_call_error_is_text_with_403_or_502() {
    for (error, code, _, hop) in errors() {
        let response = response(&error, &record("/m1/proxy/version"));
        assert_eq!(response.headers()[headers::HOP], hop.as_str());
        let (status, body) = body(response);
        let expected = if matches!(code, 401 | 403 | 404) { 403 } else { 502 };
        assert_eq!(status.as_u16(), expected, "{body}");
        assert!(body.starts_with(&format!("{hop}: ")), "{body}");
    }
}

#[test]
fn refused_login_has_the_text_that_kubectl_expects() {
    let (_, body) = body(response(&Authentication::NoCredential.into(), &record("")));
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["message"], "Unauthorized");
}

#[test]
fn refused_login_reveals_no_reason() {
    let expired = || Authentication::Certificate("expired on Monday".to_owned()).into();
    for target in ["/m1/proxy/api/v1/pods", "/m1/proxy/version"] {
        let (_, body) = body(response(&expired(), &record(target)));
        assert!(body.contains("Unauthorized") && !body.contains("Monday"), "{body}");
    }
}

#[test]
fn retry_after_is_sent_only_if_nothing_was_done() {
    for (error, code, ..) in errors() {
        let retry = response(&error, &record("/m1/proxy/api/v1/pods")).headers().contains_key("retry-after");
        let nothing_done = match &error {
            Error::Closing
            | Error::Authentication(Authentication::Review)
            | Error::Authorization(Authorization::Review)
            | Error::Inventory(Inventory::NotSynced)
            | Error::Upstream(Upstream::Open { .. }) => true,
            _ => code == 429,
        };
        assert_eq!(retry, nothing_done, "{error}");
    }
}

/// `Retry-After` of a member that has been unreachable for this time, and the seconds in its Status.
fn of_an_outage(lasts: u64) -> (String, Value) {
    let cause = Box::new(Unreachable::lasting(Duration::from_secs(lasts)));
    let error = Upstream::Open { cluster: "m1".parse().unwrap(), cause }.into();
    let response = response(&error, &record("/m1/proxy/api/v1/pods"));
    let again = response.headers()["retry-after"].to_str().unwrap().to_owned();
    let status: Value = serde_json::from_str(&body(response).1).unwrap();
    (again, status["details"]["retryAfterSeconds"].clone())
}

#[test]
fn short_outage_has_retry_after_in_seconds() {
    for lasts in [0, 14] {
        let (again, status) = of_an_outage(lasts);
        assert!((1..=3).contains(&again.parse::<u32>().unwrap()), "{again}");
        assert_eq!(status.to_string(), again);
    }
}

#[test]
fn long_outage_has_retry_after_as_a_date() {
    for lasts in [15, 3600] {
        let before = Timestamp::now();
        let (again, status) = of_an_outage(lasts);
        // In the format of RFC 9110, 5.6.7, which strconv.Atoi cannot parse as a number.
        assert!(again.ends_with(" GMT") && again.len() == "Sun, 06 Nov 1994 08:49:37 GMT".len(), "{again}");
        let at = jiff::fmt::rfc2822::parse(&again).unwrap().timestamp();
        let wait = at.duration_since(before).as_secs_f64();
        assert!((1.0..=5.0).contains(&wait), "in {wait} s");
        assert!(status.is_null(), "{status}");
    }
}

#[test]
fn retry_date_has_the_http_format() {
    let date = RetryAfter::Date("1994-11-06T08:49:37.9Z".parse().unwrap());
    assert_eq!(date.value().unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
}

#[test]
fn unknown_member_error_has_the_group_of_the_path() {
    for (group, named) in [
        (Origin::MemberCluster, "clusters.proxy.kubectl-mc.dev"),
        (Origin::KubeAdmiral, "aggregations.aggregated.kubeadmiral.io"),
    ] {
        let error: Error = Inventory::Unknown(group, "m1".parse().unwrap()).into();
        assert_eq!(error.to_string(), format!("{named} \"m1\" not found"));
        let (of_group, resource, name) = object(&error);
        assert_eq!(format!("{resource}.{of_group} {name}"), format!("{named} m1"));
    }
}
