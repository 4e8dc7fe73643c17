//! Tests the check of what Karmada's agents may use on the host.

use super::*;

/// A host with the policies for agents.
fn restricted(path: &str) -> Option<Answer> {
    let path = path.strip_prefix("/pre").unwrap();
    if path.contains("/validatingadmissionpolicies/") || path.contains("/validatingadmissionpolicybindings/")
    {
        let name = path.rsplit('/').next();
        let spec = json!({"policyName": name, "validationActions": ["Deny"]});
        return Some(ok(&json!({"metadata": {"name": "found"}, "spec": spec})));
    }
    if path.contains("webhookconfigurations/") {
        return Some(answer(404, &json!({"kind": "Status", "message": "not found"})));
    }
    path.ends_with("/subjectaccessreviews").then(|| answer(201, &json!({"status": {"allowed": false}})))
}

#[test]
fn rights_of_agents_are_checked_where_they_are_restricted() {
    let ran = bed(restricted).run(&["doctor", "m1"]);
    assert!(
        ran.code == Some(0) && ran.out.contains("an agent may not use objects of another cluster"),
        "{ran:?}"
    );
    let unbound: Script = |path| match path.contains("/validatingadmissionpolicybindings/") {
        true => Some(answer(404, &json!({"kind": "Status", "message": "not found"}))),
        false => restricted(path),
    };
    let (code, found) = finding(unbound, &["m1"]);
    assert_eq!(code, Some(1));
    assert!(found.contains("the host has no validatingadmissionpolicybindings/"), "{found}");
    assert!(found.ends_with("fix: kubectl mc --context=host authz verify --for karmada"), "{found}");
    let wide: Script = |path| match path.ends_with("/subjectaccessreviews") {
        true => Some(answer(201, &json!({"status": {"allowed": true}}))),
        false => restricted(path),
    };
    let (code, found) = finding(wide, &["m1"]);
    assert_eq!(code, Some(1));
    assert!(found.contains("agents may patch the Cluster objects of other clusters"), "{found}");
    let webhook: Script = |path| match path.contains("/validatingwebhookconfigurations/") {
        true => Some(ok(&json!({
            "metadata": {"name": "kubectl-mc-karmada-enrollment"},
            "webhooks": [{
                "clientConfig": {"service": {"name": "mc-sidecar-authorization", "path": "/enrollment"}},
                "matchPolicy": "Equivalent", "failurePolicy": "Ignore",
            }],
        }))),
        false => restricted(path),
    };
    let (code, found) = finding(webhook, &["m1"]);
    assert_eq!(code, Some(1));
    assert!(found.contains("its failurePolicy is not Fail"), "{found}");
}
