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
