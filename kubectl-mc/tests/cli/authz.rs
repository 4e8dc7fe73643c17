//! Tests `authz`, whose result depends on the host's objects.

use crate::bed::{Answer, Bed};

#[test]
fn authz_verify_without_clusters_verifies_nothing() {
    let bed = Bed::serving(|path| {
        let (code, body) = match path {
            path if path.contains("/cluster.karmada.io/v1alpha1/clusters") => (200, r#"{"items": []}"#),
            path if path.contains("admissionpolic") => (200, "{}"),
            _ => (404, r#"{"kind": "Status", "code": 404, "reason": "NotFound"}"#),
        };
        Answer::from((code, "application/json", body.to_owned()))
    });
    let ran = bed.run(&["authz", "verify", "--for=karmada", "--without-admission-webhook"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("no rights were verified"), "{ran:?}");
}
