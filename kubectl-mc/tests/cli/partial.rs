//! Tests that a command that fails midway has printed its changes up to that point.

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran};
use crate::old_member;

fn answer(code: u16, body: &Value) -> Answer {
    Answer::from((code, "application/json", body.to_string()))
}

fn refusal(code: u16, reason: &str) -> Answer {
    answer(
        code,
        &json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"}),
    )
}

/// The output of a run that failed on this object.
fn out_of_failed(ran: &Ran, object: &str) -> String {
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains(object), "{ran:?}");
    ran.out.clone()
}

#[test]
fn failed_uninstall_names_what_it_deleted() {
    let bed = Bed::serving(|path| {
        let path = path.split('?').next().unwrap_or_default();
        let list = |name: &str| answer(200, &json!({"items": [{"metadata": {"name": name}}]}));
        match path {
            path if path.ends_with("/memberclusters") => list("m1"),
            path if path.ends_with("/namespaces/mc/secrets") => list("m1.member"),
            path if path.ends_with("/memberclusters/m1") => answer(200, &json!({"kind": "Status"})),
            path if path.ends_with("/secrets/m1.member") => refusal(403, "Forbidden"),
            _ => refusal(404, "NotFound"),
        }
    });
    let ran = bed.run(&["uninstall", "-n", "mc", "--yes"]);
    let out = out_of_failed(&ran, "refused to delete secret/m1.member");
    assert_eq!(out, "membercluster.fleet.kubectl-mc.dev/m1 deleted\n");
}

#[test]
fn failed_install_names_what_it_applied() {
    let bed = Bed::serving(|path| {
        if path.contains("/deployments/mc-sidecar?") && !path.contains("dryRun=All") {
            return refusal(403, "Forbidden");
        }
        // The answer can be an existing object, the host's front proxy, or a served kind.
        let found = json!({
            "data": {
                "requestheader-client-ca-file": "x", "requestheader-username-headers": "x",
                "requestheader-group-headers": "x",
            },
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        });
        answer(200, &found)
    });
    let ran = bed.run(&["install", "--image=i"]);
    let out = out_of_failed(&ran, "refused to apply deployment.apps/mc-sidecar");
    assert!(out.contains("serviceaccount/mc-sidecar unchanged\n"), "{out}");
    assert!(!out.contains("deployment") && !out.contains("apiservice"), "{out}");
}

#[test]
fn failed_authz_remove_names_what_it_deleted() {
    let bed = Bed::serving(|path| match path {
        path if path.contains("/clusterrolebindings/") => answer(200, &json!({"kind": "Status"})),
        path if path.contains("/validatingadmissionpolicies/") => refusal(403, "Forbidden"),
        _ => refusal(404, "NotFound"),
    });
    let ran = bed.run(&["authz", "remove", "--for=karmada", "--yes"]);
    let out = out_of_failed(&ran, "refused to delete validatingadmissionpolicy");
    assert!(out.starts_with("clusterrolebinding.") && out.ends_with(" deleted\n"), "{out}");
}

#[test]
fn failed_join_names_what_it_applied() {
    let bed = Bed::serving(|path| {
        let is_written = path.contains("dryRun=All") || path.contains("/secrets/m1.member?");
        match is_written {
            true => answer(200, &json!({})),
            false => old_member::answer(path, "v1.30.0"),
        }
    });
    let ran = old_member::join_on(&bed, &[]);
    let out = out_of_failed(&ran, "refused to apply membercluster.fleet.kubectl-mc.dev/m1");
    assert_eq!(out, "host: secret/m1.member created\n");
}
