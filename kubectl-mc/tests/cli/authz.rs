//! Tests `authz`, whose result depends on the host's objects.

use crate::bed::{Answer, Bed};

const VERIFY: [&str; 4] = ["authz", "verify", "--for=karmada", "--without-admission-webhook"];
const NOT_FOUND: (u16, &str) = (404, r#"{"kind": "Status", "code": 404, "reason": "NotFound"}"#);

/// A host with these Clusters and with all policies. Each other request gets the answer for its path.
fn host(clusters: &'static str, answer: impl Fn(&str) -> (u16, &'static str) + Send + 'static) -> Bed {
    Bed::serving(move |path| {
        let (code, body) = match path {
            path if path.contains("/cluster.karmada.io/v1alpha1/clusters") => (200, clusters),
            path if path.contains("admissionpolic") => (200, "{}"),
            path => answer(path),
        };
        Answer::from((code, "application/json", body.to_owned()))
    })
}

#[test]
fn authz_verify_without_clusters_verifies_nothing() {
    let ran = host(r#"{"items": []}"#, |_| NOT_FOUND).run(&VERIFY);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("no rights were verified"), "{ran:?}");
}

#[test]
fn review_without_an_answer_fails_authz_verify() {
    let bed = host(r#"{"items": [{"metadata": {"name": "m1"}}]}"#, |path| match path {
        path if path.contains("accessreviews") => (201, r#"{"status": {}}"#),
        _ => NOT_FOUND,
    });
    let ran = bed.run(&VERIFY);
    let (code, text) = ran.failed();
    let error =
        "cannot verify the rights of agents: the host did not answer whether system:karmada:agent:m1 may ";
    assert!(code == 1 && text.contains(error), "{text}");
}

#[test]
fn authz_verify_reports_what_it_may_not_read() {
    let bed = host(r#"{"items": []}"#, |path| match path {
        path if path.contains("/clusterrolebindings/") => {
            (403, r#"{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}"#)
        }
        _ => NOT_FOUND,
    });
    let ran = bed.run(&VERIFY);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.out.starts_with("not checked: the policy on the sidecar's account: "), "{ran:?}");
}
