//! Tests `kubectl mc unjoin` without the member's context: the registration on the host determines
//! the message.

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran};

#[test]
fn member_of_karmada_is_left_to_karmada() {
    let ran = unjoin(Some(json!({"fleet.kubectl-mc.dev/inventory": "karmada"})));
    assert!(ran.err.contains("error: m1 is a member of Karmada"), "{ran:?}");
    assert!(ran.err.contains("hint: take it out of Karmada: karmadactl unjoin m1"), "{ran:?}");
}

#[test]
fn unknown_name_is_reported_as_unknown() {
    let ran = unjoin(None);
    assert!(ran.err.contains("error: m1 is not joined to the host"), "{ran:?}");
}

#[test]
fn own_member_needs_its_context() {
    let ran = unjoin(Some(json!({})));
    assert!(ran.err.contains("hint: choose its kubeconfig context by --member-context=NAME"), "{ran:?}");
}

/// A host on which m1 is registered with these labels, or not at all.
fn unjoin(labels: Option<Value>) -> Ran {
    let bed = Bed::serving(move |path: &str| match &labels {
        Some(labels) if path.ends_with("/memberclusters/m1") => {
            answer(200, &json!({"metadata": {"name": "m1", "labels": labels}}))
        }
        _ => {
            answer(404, &json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}))
        }
    });
    let ran = bed.run(&["unjoin", "m1", "--yes"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    ran
}

fn answer(code: u16, body: &Value) -> Answer {
    Answer::from((code, "application/json", body.to_string()))
}
