//! Tests `authz`, whose result depends on the host's objects.

use serde_json::Value;

use crate::bed::{Answer, Bed};

const VERIFY: [&str; 4] = ["authz", "verify", "--for=karmada", "--without-admission-webhook"];
const NOT_FOUND: (u16, &str) = (404, r#"{"kind": "Status", "code": 404, "reason": "NotFound"}"#);

/// A host with these Clusters and with all policies. Each other request gets the answer for its path.
fn host(clusters: &'static str, answer: impl Fn(&str) -> (u16, &'static str) + Send + 'static) -> Bed {
    let policies = policies(clusters);
    Bed::serving(move |path| {
        let policy = policies.iter().find(|(suffix, _)| path.ends_with(suffix.as_str()));
        let (code, body) = match (policy, path) {
            (Some((_, policy)), _) => (200, policy.as_str()),
            (None, path) if path.contains(CLUSTERS) => (200, clusters),
            (None, path) => answer(path),
        };
        Answer::from((code, "application/json", body.to_owned()))
    })
}

/// The policies and bindings that `authz generate` prints, with the ends of their paths.
fn policies(clusters: &'static str) -> Vec<(String, String)> {
    let bed = Bed::serving(move |path| {
        let (code, body) = if path.contains(CLUSTERS) { (200, clusters) } else { NOT_FOUND };
        Answer::from((code, "application/json", body.to_owned()))
    });
    let printed = bed.run(&["authz", "generate", "--for=karmada", "--without-admission-webhook"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let objects = printed.out.split("\n---\n").filter_map(|text| serde_saphyr::from_str::<Value>(text).ok());
    let policies = objects.filter_map(|object| {
        let plural = match object["kind"].as_str()? {
            "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
            "ValidatingAdmissionPolicyBinding" => "validatingadmissionpolicybindings",
            _ => return None,
        };
        Some((format!("/{plural}/{}", object["metadata"]["name"].as_str()?), object.to_string()))
    });
    policies.collect()
}

const CLUSTERS: &str = "/cluster.karmada.io/v1alpha1/clusters";

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
