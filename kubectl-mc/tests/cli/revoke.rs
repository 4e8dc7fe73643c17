//! Tests `kubectl mc access revoke` for members that do not answer.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran};

#[test]
fn access_ends_at_the_host_while_the_member_is_down() {
    let ran = revoke(&[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.out.contains("host: clusterrolebinding") && ran.out.contains("user:jane deleted\n"),
        "{ran:?}"
    );
    assert!(ran.err.contains("access through the host has ended, and the binding on m1 is left"), "{ran:?}");
    assert!(ran.err.contains("run the same command again when the member answers"), "{ran:?}");
}

#[test]
fn dry_run_of_a_revocation_claims_no_end_of_access() {
    let ran = revoke(&["--dry-run"]);
    assert!(ran.out.contains("deleted (server dry run)\n"), "{ran:?}");
    assert!(ran.err.contains("access through the host would end"), "{ran:?}");
}

/// A host that has ClusterAccess `on-call`: view for jane on m1.
fn on_call() -> Bed {
    Bed::serving(|path: &str| match path {
        path if path.contains("/clusteraccesses/on-call") => answer(
            200,
            &json!({
                "metadata": {"name": "on-call", "generation": 1},
                "spec": {
                    "roleRef": {"kind": "ClusterRole", "name": "view"}, "clusters": ["m1"],
                    "subjects": [{"kind": "User", "name": "jane"}], "expirationTimestamp": "2026-11-23T16:00:00Z",
                },
            }),
        ),
        path if path.ends_with("/v1alpha1") => {
            answer(200, &json!({"resources": [{"name": "clusteraccesses"}]}))
        }
        _ => answer(404, &json!({"kind": "Status", "code": 404, "reason": "NotFound"})),
    })
}

#[test]
fn name_of_another_grant_is_refused() {
    let error = "error: nothing was changed: ClusterAccess on-call grants view for user:jane on m1, not ";
    let hint = "hint: revoke it by its name alone: kubectl mc access revoke --name=on-call; or choose another --name\n";
    for verb in ["grant", "revoke"] {
        for (flags, given) in [
            (&["edit", "--user=jane", "-C", "m1"][..], "edit for user:jane on m1\n"),
            (&["view", "--user=joe", "-C", "m1"], "view for user:joe on m1\n"),
            (&["view", "--user=jane", "-C", "m1", "-n", "shop"], "view for user:jane in shop on m1\n"),
            (&["view", "--user=jane", "-C", "m2"], "view for user:jane on m2\n"),
            (&["view", "--user=jane", "--all-clusters"], "view for user:jane on all clusters\n"),
        ] {
            let bed = on_call();
            let ran = bed.run(&[&["access", verb, "--name=on-call"], flags].concat());
            let (code, text) = ran.failed();
            assert!(code == 2 && text.contains(&format!("{error}{given}")) && text.contains(hint), "{text}");
            assert!(bed.requests().iter().all(|head| head.starts_with("GET ")), "it wrote");
        }
    }
}

#[test]
fn name_of_the_same_grant_is_accepted() {
    let flags = ["--name=on-call", "view", "--user=jane", "-C", "m1", "--dry-run"];
    for (verb, out) in [
        ("grant", "host: clusteraccess.fleet.kubectl-mc.dev/on-call unchanged (server dry run)\n"),
        ("revoke", "host: clusteraccess.fleet.kubectl-mc.dev/on-call deleted (server dry run)\n"),
    ] {
        let ran = on_call().run(&[&["access", verb], &flags[..]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), out), "{ran:?}");
    }
}

#[test]
fn fleet_is_granted_and_revoked_with_the_clusters() {
    let binding = "kubectl-mc-fleet:user:jane";
    for (verb, method) in [("grant", "PATCH "), ("revoke", "DELETE ")] {
        for (flags, is_written) in [(&["--fleet"][..], true), (&[], false)] {
            let bed = Bed::serving(|path: &str| match path {
                path if path.contains("/clusterrolebindings?") => answer(200, &json!({"items": []})),
                path if path.contains("/clusterrolebindings/kubectl-mc-fleet") => {
                    answer(200, &json!({"kind": "Status", "status": "Success"}))
                }
                _ => answer(
                    404,
                    &json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "no"}),
                ),
            });
            let ran =
                bed.run(&[&["access", verb, "view", "--user=jane", "-C", "m1", "--dry-run"], flags].concat());
            let written = bed.requests().into_iter().filter(|head| head.starts_with(method));
            let is_found =
                written.clone().any(|head| head.contains(binding) || head.contains("kubectl-mc-fleet%3A"));
            assert_eq!(is_found, is_written, "{verb} {flags:?}: {ran:?}");
        }
    }
}

/// A host with the grant's binding, and a member that the sidecar cannot reach.
fn revoke(flags: &[&str]) -> Ran {
    let deleted = AtomicBool::new(false);
    let bed = Bed::serving(move |path: &str| {
        if path.contains("/clusters/m1/proxy/") {
            return answer(503, &json!({"kind": "Status", "message": "connection refused"}))
                .of("member unreachable");
        }
        if path.contains("/clusterrolebindings?") {
            return answer(200, &json!({"items": []}));
        }
        // The first request deletes it, and the next one finds that it is gone.
        if path.contains("/clusterrolebindings/") && !deleted.swap(true, Ordering::SeqCst) {
            return answer(200, &json!({"kind": "Status", "status": "Success"}));
        }
        answer(404, &json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}))
    });
    bed.run(&[&["access", "revoke", "view", "--user=jane", "-C", "m1"], flags].concat())
}

fn answer(code: u16, body: &Value) -> Answer {
    Answer::from((code, "application/json", body.to_string()))
}
