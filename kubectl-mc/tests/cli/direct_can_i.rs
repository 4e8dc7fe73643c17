//! Tests `auth can-i` by a direct request; kubectl runs what is not answered.

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
