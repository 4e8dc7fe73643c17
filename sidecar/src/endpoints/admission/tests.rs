use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt;
use kubectl_mc_api::ownership::OWNER;
use prometheus_client::registry::Registry;

use super::certificate_request::tests::{AGENT, pem};
use super::*;

async fn asked(webhook: Webhook, body: &str) -> (u16, Value) {
    let metrics = Metrics::register(&mut Registry::default());
    let response = answer(webhook, &metrics, &Bytes::from(body.to_owned()));
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn review(user: &str, groups: &Value, resource: Value, object: Value) -> String {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "kind": {"group": "", "version": "v1", "kind": "X"}, "resource": resource,
            "operation": "CREATE", "userInfo": {"username": user, "groups": groups, "extra": {"k": ["v"]}},
            "object": object, "oldObject": null, "dryRun": false, "options": {"kind": "CreateOptions"},
        },
    })
    .to_string()
}

#[tokio::test]
async fn answer_has_the_uid_of_the_request() {
    let spec = json!({
        "request": STANDARD.encode(pem(AGENT, vec![])), "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["digital signature", "client auth"],
    });
    let resource =
        json!({"group": "certificates.k8s.io", "version": "v1", "resource": "certificatesigningrequests"});
    let ask = async |user: &str| {
        let groups = json!(["system:karmada:agents"]);
        asked(Webhook::Enrollment, &review(user, &groups, resource.clone(), json!({"spec": spec}))).await
    };
    let (status, own) = ask("system:karmada:agent:a").await;
    assert_eq!(status, 200);
    let expected = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": "u-1", "allowed": true},
    });
    assert_eq!(own, expected);
    let (_, other) = ask("system:karmada:agent:b").await;
    assert_eq!((&other["response"]["uid"], &other["response"]["allowed"]), (&"u-1".into(), &false.into()));
    let message = other["response"]["status"]["message"].as_str().unwrap();
    let expected = "kubectl-mc: the requester may only have a certificate for system:karmada:agent:b";
    assert_eq!(message, expected);
}

/// The object after the patch.
async fn stamped(user: &str, object: Value) -> Value {
    let secrets = json!({"group": "", "version": "v1", "resource": "secrets"});
    let groups = if user.contains("agent") { json!(["system:karmada:agents"]) } else { Value::Null };
    let (status, answer) = asked(Webhook::Owner, &review(user, &groups, secrets, object.clone())).await;
    assert_eq!(status, 200);
    let response = &answer["response"];
    if response["allowed"] != true {
        return response["status"]["message"].clone();
    }
    let Some(patch) = response["patch"].as_str() else { return Value::Null };
    assert_eq!(response["patchType"], "JSONPatch");
    let patch: Value = serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap();
    let mut object = object;
    for change in patch.as_array().unwrap() {
        assert_eq!(change["op"], "add");
        let (parent, key) = change["path"].as_str().unwrap().rsplit_once('/').unwrap();
        let key = key.replace("~1", "/").replace("~0", "~");
        object.pointer_mut(parent).unwrap()[key.as_str()] = change["value"].clone();
    }
    object["metadata"]["annotations"].take()
}

#[tokio::test]
async fn owner_is_the_cluster_in_the_user_name() {
    let agent = "system:karmada:agent:a";
    assert_eq!(stamped(agent, json!({"metadata": {"name": "a"}})).await, json!({OWNER: "a"}));
    let annotated = json!({"metadata": {"annotations": {"x/y": "z"}}});
    assert_eq!(stamped(agent, annotated).await, json!({OWNER: "a", "x/y": "z"}));
    // A policy checks an existing owner.
    assert_eq!(stamped(agent, json!({"metadata": {"annotations": {OWNER: "b"}}})).await, Value::Null);
    assert_eq!(stamped("jane", json!({"metadata": {}})).await, Value::Null);
    assert_eq!(stamped("system:karmada:agent:rbac-generator", json!({"metadata": {}})).await, Value::Null);
    for refused in [
        stamped("system:karmada:agent:a-impersonator", json!({"metadata": {}})).await,
        stamped(agent, json!({})).await,
        stamped(agent, Value::Null).await,
    ] {
        assert!(refused.as_str().is_some_and(|message| message.starts_with("kubectl-mc: ")), "{refused}");
    }
}

#[tokio::test]
async fn invalid_review_is_a_bad_request() {
    let other_version = review("jane", &Value::Null, json!({"resource": "x"}), Value::Null)
        .replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1");
    for body in [
        "",
        "{",
        "[]",
        "null",
        &other_version,
        r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#,
        r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}"#,
        &"[".repeat(100_000),
    ] {
        for webhook in [Webhook::Enrollment, Webhook::Owner] {
            assert_eq!(asked(webhook, body).await.0, 400, "{body}");
        }
    }
}
