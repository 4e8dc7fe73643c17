//! Tests `auth can-i`, `api-resources` and `top pod` with direct requests; kubectl runs commands
//! that are not answered.

use serde_json::json;

use crate::bed::{Answer, Bed, Ran, status};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A host with these answers, and a kubectl that prints its arguments.
fn bed<A: Into<Answer>>(answer: impl Fn(&str) -> A + Send + 'static) -> Bed {
    let bed = Bed::serving(answer);
    bed.script("bin/kubectl", "#!/bin/sh\necho \"kubectl $*\"\nexit 7\n");
    bed
}

fn review(allowed: bool, reason: &str) -> Answer {
    let body = json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed, "reason": reason}});
    Answer::from((201, "application/json", body.to_string())).of("member")
}

#[test]
fn can_i_is_answered_by_one_review() {
    let bed = bed(|path| match path.split_once("/selfreviews") {
        Some((root, REVIEWS)) if root.ends_with("/m1") => review(true, "RBAC"),
        Some((_, REVIEWS)) => review(false, "by \u{1b}[2Ja rule"),
        _ => status(500, "member", path),
    })
    .of_known_hub();
    assert_eq!(bed.run(&["-C", "m1", "auth", "can-i", "get", "pods"]), Ran::new(0, "yes\n", ""));
    let requests = bed.requests();
    assert!(requests.len() == 1 && requests[0].starts_with("POST "), "{requests:?}");
    assert_eq!(
        bed.run(&["-C", "m2", "auth", "can-i", "get", "pods/x"]),
        Ran::new(1, "no - by ^[[2Ja rule\n", "")
    );
    assert_eq!(bed.run(&["-C", "m2", "auth", "can-i", "get", "pods", "-q"]), Ran::new(1, "", ""));
}

#[test]
fn can_i_on_several_clusters_fails_when_one_says_no() {
    let bed = bed(|path| review(path.contains("/m1/"), ""));
    let ran = bed.run(&["-C", "m1,m2", "auth", "can-i", "get", "nodes"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "m1 | yes\nm2 | no\n"), "{ran:?}");
    assert!(ran.err.contains("m1 | Warning: resource 'nodes' is not namespace scoped\n"), "{}", ran.err);
}

#[test]
fn can_i_falls_back_to_the_proxy_of_the_member() {
    let bed = bed(|path| match path {
        path if path.contains("/selfreviews") => status(403, "host authorization", "you may not"),
        path if path.ends_with(REVIEWS) => review(true, ""),
        path => status(500, "member", path),
    });
    assert_eq!(bed.run(&["-C", "m1", "auth", "can-i", "get", "pods"]), Ran::new(0, "yes\n", ""));
}

#[test]
fn can_i_reports_a_refusal_by_the_host() {
    let bed = bed(|path| match path {
        path if path.contains("/proxy/") || path.contains("/selfreviews") => {
            status(403, "host authorization", "you may not")
        }
        _ => review(false, ""),
    });
    let ran = bed.run(&["-C", "m1", "auth", "can-i", "get", "pods"]);
    let (code, said) = ran.failed();
    assert!(code == 1 && said.contains("host authorization: you may not"), "{said}");
    assert!(said.contains("access explain -C m1 get pods"), "{said}");
}

#[test]
fn api_resources_escape_control_characters() {
    let bed = bed(|path| discovery(path, "Current"));
    let expected = "NAME          SHORTNAMES   APIVERSION     NAMESPACED   KIND\n\
                    pods          po           v1             true         Pod\n\
                    odd^[things                x.example/v1   false        Odd\n";
    assert_eq!(bed.run(&["-C", "m1", "api-resources"]), Ran::new(0, expected, ""));
    assert_eq!(
        bed.run(&["-C", "m1", "api-resources", "--api-group=", "-o", "name"]),
        Ran::new(0, "pods\n", "")
    );
}

#[test]
fn stale_api_group_leaves_api_resources_to_kubectl() {
    let bed = bed(|path| discovery(path, "Stale"));
    assert_eq!(
        bed.run(&["-C", "m1", "api-resources"]),
        Ran::new(7, "kubectl api-resources --context=mc/m1\n", "")
    );
}

#[test]
fn unusable_pod_metrics_are_left_to_kubectl() {
    for body in [
        json!({"kind": "PodMetricsList", "items": []}),
        json!({"kind": "PodMetricsList", "items": [pod("1x")]}),
        json!({"items": [pod("1m")]}),
        json!("nothing"),
    ] {
        let bed = bed(move |path| match path.contains("/metrics.k8s.io/") {
            true => Answer::from((200, "application/json", body.to_string())).of("member"),
            false => status(404, "member", "none").sent_by_member(),
        });
        assert_eq!(
            bed.run(&["-C", "m1", "top", "pod"]),
            Ran::new(7, "kubectl top --context=mc/m1 pod\n", "")
        );
    }
}

#[test]
fn pod_metrics_are_printed() {
    let body = json!({"kind": "PodMetricsList", "items": [pod("1500u")]}).to_string();
    let bed = bed(move |_| Answer::from((200, "application/json", body.clone())).of("member"));
    let expected = "NAME   CPU(cores)   MEMORY(bytes)   \nweb    2m           3Mi             \n";
    assert_eq!(bed.run(&["-C", "m1", "top", "pod"]), Ran::new(0, expected, ""));
}

fn pod(cpu: &str) -> serde_json::Value {
    json!({"metadata": {"name": "web"}, "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": "3Mi"}}]})
}

/// The discovery of a core resource, and of a resource in a group with this freshness.
fn discovery(path: &str, freshness: &str) -> Answer {
    let kind = |kind: &str| json!({"kind": kind});
    let (group, resource) = if path.ends_with("/api") {
        let pods = json!({
            "resource": "pods", "responseKind": kind("Pod"), "scope": "Namespaced", "shortNames": ["po"], "verbs": ["list"],
        });
        ("", pods)
    } else {
        let odd = json!({"resource": "odd\u{1b}things", "responseKind": kind("Odd"), "scope": "Cluster", "verbs": ["list"]});
        ("x.example", odd)
    };
    let version = json!({"version": "v1", "freshness": freshness, "resources": [resource]});
    let body = json!({
        "kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": group}, "versions": [version]}],
    });
    Answer::from((200, "application/json", body.to_string())).of("member")
}
