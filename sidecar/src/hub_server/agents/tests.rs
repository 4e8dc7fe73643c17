use http::HeaderValue;
use serde_json::json;

use super::*;

fn identity(user: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    Identity { user: user.to_owned(), groups, ..Identity::default() }
}

#[test]
fn rules_apply_only_to_agents() {
    let any = identity("jane", &["ops"]);
    assert_eq!(Caller::of(&any), Ok(Caller::Any));
    let agent = identity("system:karmada:agent:m1", &[GROUP]);
    assert_eq!(Caller::of(&agent), Ok(Caller::Agent("m1")));
    for user in
        ["jane", "system:karmada:agent:rbac-generator", "system:karmada:agent:", "system:karmada:agent:A"]
    {
        assert_eq!(Caller::of(&identity(user, &[GROUP])), Err(Refused::NoCluster(user.to_owned())), "{user}");
    }
    // No agent's certificate has the user name without the group.
    let alone = identity("system:karmada:agent:m1", &[]);
    assert_eq!(Caller::of(&alone), Err(Refused::NoCluster(alone.user.clone())));
}

#[test]
fn collection_is_restricted_to_the_own_cluster() {
    let own = "metadata%2Ename%3Dm1";
    for (query, expected) in [
        (None, format!("fieldSelector={own}")),
        (Some("watch=1&resourceVersion=7"), format!("fieldSelector={own}&watch=1&resourceVersion=7")),
        (Some("fieldSelector="), format!("fieldSelector={own}")),
        (Some("fieldSelector=metadata.name%3Dm2"), format!("fieldSelector=metadata%2Ename%3Dm2%2C{own}")),
        // Go uses the first value of a key, in whatever spelling.
        (
            Some("field%53elector=metadata.name%3Dm2&fieldSelector=x&limit=5"),
            format!("fieldSelector=metadata%2Ename%3Dm2%2C{own}&limit=5"),
        ),
    ] {
        assert_eq!(own_only("m1", query), expected, "{query:?}");
    }
}

#[test]
fn too_many_pairs_do_not_hide_the_selector() {
    for pairs in [MAX_PAIRS + 1, 9_999, 10_000, 20_000] {
        let query = vec!["a=b"; pairs].join("&");
        assert_eq!(own_only("m1", Some(&query)), "fieldSelector=metadata%2Ename%3Dm1", "{pairs}");
    }
}

fn checked(
    method: Method,
    media_type: &str,
    document: &Value,
    current: Option<&Value>,
) -> Result<(), Refused> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(media_type).unwrap());
    let write = Write::read(&method, &headers, document.to_string().as_bytes())?;
    write.check("m1", "karmada-cluster", current)
}

fn cluster(spec: &Value) -> Value {
    json!({"metadata": {"name": "m1"}, "spec": spec})
}

fn bound() -> Value {
    let reference = |name: &str| json!({"namespace": "karmada-cluster", "name": name});
    json!({
        "apiEndpoint": "https://m1.example:6443",
        "secretRef": reference("m1"),
        "impersonatorSecretRef": reference("m1-impersonator"),
    })
}

#[test]
fn agent_registers_its_own_cluster() {
    let created = |document: &Value| checked(Method::POST, "application/json", document, None);
    assert_eq!(created(&cluster(&bound())), Ok(()));
    assert_eq!(created(&cluster(&json!({"syncMode": "Pull"}))), Ok(()));
    assert!(matches!(created(&json!({"metadata": {"name": "m2"}})), Err(Refused::Another { .. })));
    assert!(matches!(created(&json!({"metadata": {"generateName": "m1"}})), Err(Refused::Another { .. })));
    let http = cluster(&json!({"apiEndpoint": "http://m1.example"}));
    assert!(matches!(created(&http), Err(Refused::Moved { field: "apiEndpoint", .. })));
}

#[test]
fn only_the_checked_document_is_sent() {
    // Go merges the values of a repeated key, and the check has seen the last only.
    let twice = r#"{"metadata":{"name":"m1"},"spec":{"secretRef":{"name":"m2"},"apiEndpoint":"https://evil"},"spec":{}}"#;
    let write = Write::read(&Method::POST, &HeaderMap::new(), twice.as_bytes()).unwrap();
    assert_eq!(write.check("m1", "karmada-cluster", None), Ok(()));
    let sent: Value = serde_json::from_slice(&write.into_body()).unwrap();
    assert_eq!(sent, json!({"metadata": {"name": "m1"}, "spec": {}}));
}

#[test]
fn write_of_too_many_values_is_refused() {
    let document = format!("[{}{{}}]", "{},".repeat(MAX_VALUES));
    let read = Write::read(&Method::POST, &HeaderMap::new(), document.as_bytes());
    assert_eq!(read.err(), Some(Refused::TooLarge));
}

#[test]
fn reference_to_another_secret_is_refused() {
    let types =
        ["application/json", "application/merge-patch+json", "application/strategic-merge-patch+json"];
    let current = cluster(&bound());
    for (field, namespace, name) in [
        ("secretRef", "karmada-cluster", "m2"),
        ("secretRef", "kube-system", "m1"),
        ("impersonatorSecretRef", "karmada-cluster", "m2-impersonator"),
        ("impersonatorSecretRef", "karmada-cluster", "m1"),
    ] {
        for media_type in types {
            let document = cluster(&json!({field: {"namespace": namespace, "name": name}}));
            let refused = checked(Method::PUT, media_type, &document, Some(&current));
            assert!(
                matches!(refused, Err(Refused::Reference { field: named, .. }) if named == field),
                "{refused:?}"
            );
        }
    }
    // A patch with a part of the reference would keep the other part.
    let half = cluster(&json!({"secretRef": {"name": "m2"}}));
    assert!(checked(Method::PATCH, types[1], &half, Some(&current)).is_err());
}

#[test]
fn members_address_cannot_be_changed() {
    let current = cluster(&bound());
    let patch =
        |spec: Value| checked(Method::PATCH, "application/merge-patch+json", &cluster(&spec), Some(&current));
    assert_eq!(patch(bound()), Ok(()));
    assert_eq!(patch(json!({"taints": []})), Ok(()));
    assert_eq!(patch(json!({"proxyURL": ""})), Ok(()));
    for (field, value) in [("apiEndpoint", "https://evil.example"), ("proxyURL", "http://evil.example")] {
        assert!(
            matches!(patch(json!({field: value})), Err(Refused::Moved { field: named, .. }) if named == field)
        );
    }
    // Without the current Cluster, the write cannot be checked.
    let blind = checked(Method::PUT, "application/json", &current, None);
    assert!(matches!(blind, Err(Refused::Moved { .. })), "{blind:?}");
}

#[test]
fn json_patch_operations_are_checked() {
    let patch = |operation: Value| {
        checked(Method::PATCH, "application/json-patch+json; charset=utf-8", &json!([operation]), None)
    };
    assert_eq!(patch(json!({"op": "add", "path": "/metadata/labels/a", "value": "b"})), Ok(()));
    assert_eq!(patch(json!({"op": "replace", "path": "/spec/taints", "value": []})), Ok(()));
    for path in
        ["", "/spec", "/spec/secretRef", "/spec/secretRef/name", "/spec/apiEndpoint", "/spec/proxyURL"]
    {
        let refused = patch(json!({"op": "replace", "path": path, "value": "x"}));
        assert!(matches!(refused, Err(Refused::Operation { .. })), "{path}: {refused:?}");
    }
    let moved = patch(json!({"op": "move", "from": "/spec/impersonatorSecretRef", "path": "/spec/taints"}));
    assert!(matches!(moved, Err(Refused::Operation { .. })), "{moved:?}");
}

#[test]
fn invalid_json_is_refused() {
    for body in [&b"spec: {secretRef: {name: m2}}"[..], b"k8s\0\n", b""] {
        let refused = Write::read(&Method::PATCH, &HeaderMap::new(), body).map(drop);
        assert_eq!(refused, Err(Refused::NotJson), "{body:?}");
    }
}
