use http::HeaderValue;
use serde_json::json;

use super::*;

fn m1() -> ClusterName {
    "m1".parse().unwrap()
}

/// A request for an object of the core group, or of another one.
pub(crate) fn requested(group: &str, namespace: &str, resource: &str, subresource: &str) -> RequestedObject {
    let [group, namespace, resource, subresource] =
        [group, namespace, resource, subresource].map(str::to_owned);
    RequestedObject {
        group,
        version: "v1".to_owned(),
        namespace,
        resource,
        name: "one".to_owned(),
        subresource,
    }
}

fn parsed(method: Method, format: &str, of: &RequestedObject, text: &str) -> Result<Body, Error> {
    let mut headers = HeaderMap::new();
    if !format.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(format).unwrap());
    }
    Body::parse(&method, &headers, of, Bytes::from(text.to_owned()))
}

#[track_caller]
fn sent(method: Method, format: &str, of: &RequestedObject, body: &Value) -> Result<Value, Error> {
    let sent = parsed(method, format, of, &body.to_string())?.to_member(&m1())?;
    Ok(serde_json::from_slice(&sent).unwrap())
}

fn pods() -> RequestedObject {
    requested("", "fv", "pods", "")
}

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";

#[test]
fn each_format_that_is_an_object_is_renamed() {
    let body = json!({
        "metadata": {"namespace": "fv_m1", "resourceVersion": "m1.7"},
        "spec": {"nodeName": "n_m1"},
    });
    let expected =
        json!({"metadata": {"namespace": "fv", "resourceVersion": "7"}, "spec": {"nodeName": "n"}});
    for (method, format) in [
        (Method::POST, "application/json"),
        (Method::PUT, "application/JSON; charset=utf-8"),
        (Method::POST, ""),
        (Method::PATCH, MERGE),
        (Method::PATCH, STRATEGIC),
        (Method::PATCH, APPLY),
    ] {
        assert_eq!(sent(method, format, &pods(), &body).unwrap(), expected, "{format}");
    }
}

#[test]
fn other_formats_are_refused() {
    for (method, format, text) in [
        (Method::POST, "application/yaml", "{}"),
        (Method::POST, "application/cbor", "{}"),
        (Method::POST, "application/json, application/yaml", "{}"),
        (Method::POST, MERGE, "{}"),
        (Method::PATCH, "application/json", "{}"),
        (Method::PATCH, "", "{}"),
        (Method::PATCH, "application/apply-patch+cbor", "{}"),
        (Method::PATCH, APPLY, "metadata:\n  namespace: fv_m2\n"),
        (Method::GET, "application/json", "{}"),
    ] {
        let error = parsed(method, format, &pods(), text).unwrap_err();
        assert!(matches!(error, Error::Format(_)), "{format}: {error}");
    }
    for (name, value) in [(header::CONTENT_ENCODING, "gzip"), (header::CONTENT_TYPE, "application/yaml")] {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.append(name, HeaderValue::from_static(value));
        let error = Body::parse(&Method::POST, &headers, &pods(), Bytes::from_static(b"{}")).unwrap_err();
        assert!(matches!(error, Error::Format(_)), "{error}");
    }
}

#[test]
fn key_that_occurs_twice_is_sent_once() {
    let text = r#"{"metadata":{"namespace":"fv_m2"},"metadata":{"namespace":"fv_m1","namespace":"fv_m1"}}"#;
    let body = parsed(Method::POST, "application/json", &pods(), text).unwrap();
    assert_eq!(body.to_member(&m1()).unwrap(), r#"{"metadata":{"namespace":"fv"}}"#);
}

#[test]
fn object_of_another_member_is_refused() {
    for body in [
        json!({"metadata": {"namespace": "fv_m2"}}),
        json!({"metadata": {"namespace": "fv"}}),
        json!({"metadata": {"resourceVersion": "m2.1"}}),
        json!({"spec": {"nodeName": "n_m2"}}),
    ] {
        for (method, format) in
            [(Method::PUT, "application/json"), (Method::PATCH, MERGE), (Method::PATCH, APPLY)]
        {
            let error = sent(method, format, &pods(), &body).unwrap_err();
            assert!(matches!(error, Error::Refused(_)), "{body}: {error}");
        }
    }
}

#[test]
fn precondition_of_a_deletion_is_renamed() {
    let options = json!({"kind": "DeleteOptions", "preconditions": {"uid": "u", "resourceVersion": "m1.7"}});
    let deleted = sent(Method::DELETE, "application/json", &pods(), &options).unwrap();
    assert_eq!(deleted["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
    let eviction = json!({"metadata": {"namespace": "fv_m1"}, "deleteOptions": options});
    let of = requested("", "fv", "pods", "eviction");
    let evicted = sent(Method::POST, "application/json", &of, &eviction).unwrap();
    assert_eq!(evicted["deleteOptions"]["preconditions"]["resourceVersion"], "7");
    assert_eq!(evicted["metadata"]["namespace"], "fv");
    assert_eq!(parsed(Method::DELETE, "", &pods(), "").unwrap().to_member(&m1()).unwrap(), "");
}

#[test]
fn subresources_have_their_own_references() {
    for (of, body, field, value) in [
        (
            requested("apps", "fv", "deployments", "scale"),
            json!({"metadata": {"namespace": "fv_m1", "resourceVersion": "m1.7"}}),
            "/metadata/resourceVersion",
            "7",
        ),
        (
            requested("", "fv", "pods", "binding"),
            json!({"target": {"kind": "Node", "name": "n_m1"}}),
            "/target/name",
            "n",
        ),
        (
            requested("", "fv", "serviceaccounts", "token"),
            json!({"spec": {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "n_m1"}}}),
            "/spec/boundObjectRef/name",
            "n",
        ),
        (
            requested("", "fv", "namespaces", "finalize"),
            json!({"metadata": {"name": "fv_m1"}}),
            "/metadata/name",
            "fv",
        ),
        (requested("", "", "nodes", "status"), json!({"metadata": {"name": "n_m1"}}), "/metadata/name", "n"),
    ] {
        let sent = sent(Method::PUT, "application/json", &of, &body).unwrap();
        assert_eq!(sent.pointer(field).unwrap(), value, "{sent}");
    }
}

#[test]
fn json_patch_is_renamed_by_its_places() {
    let patch = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": "m1.7"},
        {"op": "test", "path": "/metadata/namespace", "value": "fv_m1"},
        {"op": "add", "path": "/metadata", "value": {"namespace": "fv_m1", "labels": {"a": "n_m1"}}},
        {"op": "replace", "path": "/spec/nodeName", "value": "n_m1"},
        {"op": "test", "path": "/metadata/annotations/fleet.kubectl-mc.dev~1cluster", "value": "m1"},
        {"op": "remove", "path": "/metadata/annotations/fleet.kubectl-mc.dev~1cluster"},
        {"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b"},
        {"op": "remove", "path": "/spec/nodeName"},
        {"op": "add", "path": "", "value": {"metadata": {"namespace": "fv_m1"}}},
    ]);
    assert_eq!(
        sent(Method::PATCH, JSON_PATCH, &pods(), &patch).unwrap(),
        json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "test", "path": "/metadata/namespace", "value": "fv"},
            {"op": "add", "path": "/metadata", "value": {"namespace": "fv", "labels": {"a": "n_m1"}}},
            {"op": "replace", "path": "/spec/nodeName", "value": "n"},
            {"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b"},
            {"op": "remove", "path": "/spec/nodeName"},
            {"op": "add", "path": "", "value": {"metadata": {"namespace": "fv"}}},
        ])
    );
}

#[test]
fn json_patch_that_leaves_the_member_is_refused() {
    for operation in [
        json!({"op": "replace", "path": "/metadata/namespace", "value": "fv_m2"}),
        json!({"op": "replace", "path": "/metadata/namespace", "value": "fv"}),
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": "m2.7"}),
        json!({"op": "add", "path": "/metadata/annotations/fleet.kubectl-mc.dev~1cluster", "value": "m2"}),
        json!({"op": "add", "path": "/metadata/annotations/fleet.kubectl-mc.dev~1cluster/a", "value": "m1"}),
        json!({"op": "copy", "from": "/metadata/annotations/fleet.kubectl-mc.dev~1cluster", "path": "/a"}),
        json!({"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/namespace"}),
        json!({"op": "move", "from": "/metadata/labels", "path": "/metadata"}),
        json!({"op": "move", "from": "/spec/template/spec", "path": "/spec"}),
        json!({"op": "copy", "from": "/a", "path": ""}),
        // A kube-apiserver ignores what is in front of the first slash.
        json!({"op": "add", "path": "x/metadata/namespace", "value": "fv_m1"}),
        json!({"op": "add", "path": "metadata", "value": {}}),
        json!({"op": "add", "path": "/metadata/name~2", "value": "fv_m1"}),
        json!({"op": "Add", "path": "/metadata/namespace", "value": "fv_m1"}),
        json!({"op": "add", "value": "fv_m1"}),
        json!("add"),
    ] {
        sent(Method::PATCH, JSON_PATCH, &pods(), &json!([operation])).unwrap_err();
    }
    sent(Method::PATCH, JSON_PATCH, &pods(), &json!({})).unwrap_err();
}

#[test]
fn body_names_the_member_where_the_path_does_not() {
    let named = |of: &RequestedObject, text: &str| {
        parsed(Method::POST, "application/json", of, text).unwrap().named_member()
    };
    let namespaces = requested("", "", "namespaces", "");
    assert_eq!(named(&namespaces, r#"{"metadata":{"name":"fv_m1"}}"#), Some(m1()));
    assert_eq!(named(&namespaces, r#"{"metadata":{"name":"fv"}}"#), None);
    assert_eq!(named(&namespaces, ""), None);
}

#[test]
fn values_and_not_their_text_are_bounded() {
    assert!(values_are_at_most(0, br#""a,{[b\",[""#));
    assert!(values_are_at_most(3, br#"{"a,b":[1,"\\"]}"#));
    assert!(!values_are_at_most(2, br#"{"a,b":[1,"\\"]}"#));
    let text = format!("[{}0]", "0,".repeat(MAX_VALUES));
    let error = parsed(Method::PUT, "application/json", &pods(), &text).unwrap_err();
    assert!(matches!(error, Error::TooManyValues), "{error}");
}

#[tokio::test]
async fn body_is_read_up_to_its_limit() {
    use http_body_util::Full;
    let body = |length: usize| read(Full::new(Bytes::from(vec![b' '; length])));
    assert_eq!(body(MAX_BODY).await.unwrap().len(), MAX_BODY);
    assert!(matches!(body(MAX_BODY + 1).await, Err(Error::TooLarge)));
}
