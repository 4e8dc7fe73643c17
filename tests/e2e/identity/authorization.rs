//! The host's RBAC gives access to clusters, the member's RBAC decides inside them, and a refusal
//! names its hop.

use anyhow::{Context, Result};
use harness::audit::AuditLog;
use harness::bed::{bed, member, sidecar};
use harness::caller::Caller;
use harness::http1::{Endpoint, Response, member_path};
use harness::scene::{EVERY_VERB, Scene};
use serde_json::{Value, json};

use crate::upgrades::protocol::{Protocol, over_each_protocol};
use crate::{plugin, plugin_in};

#[test]
fn refusal_by_the_host_names_host_cluster_and_verb() -> Result<()> {
    let stranger = Caller::certificate("e2e-stranger-cold", &[])?;
    let attempt = plugin(&stranger)?.run(&["--cluster=m1", "get", "pods"])?;
    attempt.failure(&["orbidden", "e2e-stranger-cold", "m1", "get", "clusters", &bed()?.host.server])?;
    Ok(())
}

#[test]
fn cached_discovery_does_not_change_the_refusal() -> Result<()> {
    let scene = Scene::new("warm")?;
    let caller = scene.caller()?;
    let warmed = plugin_in(&scene, &caller)?;
    warmed.ok(&["get", "pods"])?;
    let stranger = Caller::certificate("e2e-stranger-warm", &[])?;
    let attempt = plugin_in(&scene, &stranger)?.env("HOME", warmed.home()).run(&["get", "pods"])?;
    attempt.failure(&["orbidden", "e2e-stranger-warm", "m1", "get", "clusters"])?;
    Ok(())
}

#[test]
fn refusal_by_the_member_is_shown_unchanged() -> Result<()> {
    let scene = Scene::new("member-says-no")?;
    let caller = Caller::certificate("e2e-member-says-no", &[])?;
    scene.let_in(&caller, &["m1"], EVERY_VERB)?;
    let expected = format!(
        "Error from server (Forbidden): pods is forbidden: User \"e2e-member-says-no\" cannot list resource \
         \"pods\" in API group \"\" in the namespace \"{}\"\n",
        scene.name
    );
    assert_eq!(plugin_in(&scene, &caller)?.run(&["get", "pods"])?.failure(&[])?, expected);
    Ok(())
}

over_each_protocol!(kubernetes_136550_reader_may_not_exec);

fn kubernetes_136550_reader_may_not_exec(protocol: Protocol) -> Result<()> {
    let scene = Scene::new(&format!("readers-{}", protocol.tag()))?;
    let caller = Caller::certificate(&format!("{}-user", scene.name), &[])?;
    scene.let_in(&caller, &["m1"], &["get"])?;
    scene.allow(&caller)?;
    scene.pod("shell", "sleep 1000000")?;
    let plugin = protocol.plugin(&scene, &caller)?;
    plugin.ok(&["get", "pod", "shell"])?;
    plugin.run(&["exec", "shell", "--", "echo", "here"])?.failure(&["orbidden", "create", "m1"])?;
    let arrived = AuditLog::of(member("m1")?).subresource(&scene.name, "exec")?;
    assert_eq!(arrived, Vec::<Value>::new());
    Ok(())
}

#[test]
fn right_to_one_cluster_opens_no_other() -> Result<()> {
    let scene = Scene::new("one-only")?;
    let caller = scene.caller()?;
    plugin_in(&scene, &caller)?.ok(&["get", "pods"])?;
    plugin(&caller)?.run(&["--cluster=m2", "get", "pods"])?.failure(&["orbidden", "m2"])?;
    Ok(())
}

#[test]
fn fault_29_unknown_cluster_looks_forbidden_through_the_host() -> Result<()> {
    unknown_looks_forbidden(&Endpoint::cluster(&bed()?.host, None)?)
}

#[test]
fn fault_29_unknown_cluster_looks_forbidden_past_the_host() -> Result<()> {
    unknown_looks_forbidden(&Endpoint::sidecar(sidecar()?, None)?)
}

fn unknown_looks_forbidden(endpoint: &Endpoint) -> Result<()> {
    let stranger = Caller::token("theo")?;
    let known = ask(endpoint, &stranger, "m2")?;
    let unknown = ask(endpoint, &stranger, "nowhere")?;
    assert_eq!(known.status(), 403, "{}", known.text());
    assert_eq!(unknown.status(), 403, "{}", unknown.text());
    assert_eq!(known.text().replace("m2", "*"), unknown.text().replace("nowhere", "*"));
    Ok(())
}

#[test]
fn unknown_cluster_is_named_to_callers_of_all_clusters() -> Result<()> {
    let scene = Scene::new("every-cluster")?;
    let caller = Caller::certificate("e2e-every-cluster", &[])?;
    scene.let_in(&caller, &[], EVERY_VERB)?;
    plugin(&caller)?.run(&["--cluster=nowhere", "get", "pods"])?.failure(&["nowhere", "cluster unknown"])?;
    Ok(())
}

/// Through the host, the kube-apiserver requires `create clusters/proxy` for any POST below `proxy`.
#[test]
fn reader_reviews_their_own_rights_past_the_host() -> Result<()> {
    let scene = Scene::new("own-review")?;
    let caller = Caller::certificate("e2e-own-review", &[])?;
    scene.let_in(&caller, &["m1"], &["get"])?;
    let past = Endpoint::sidecar(sidecar()?, caller.certificate.as_deref())?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let reviewed = past.exchange(post(path, &review).as_bytes())?;
    assert_eq!(reviewed.status(), 201, "{}", reviewed.text());
    assert!(reviewed.text().contains("e2e-own-review"), "{}", reviewed.text());
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {
        "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": scene.name},
    }});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let reviewed = past.exchange(post(path, &review).as_bytes())?;
    assert_eq!(reviewed.status(), 201, "{}", reviewed.text());

    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e2e-own-review"}});
    let path = format!("/api/v1/namespaces/{}/configmaps", scene.name);
    let refused = past.exchange(post(&path, &config_map).as_bytes())?;
    assert_eq!(refused.status(), 403, "{}", refused.text());
    assert!(refused.text().contains("cannot create resource \\\"clusters/proxy\\\""), "{}", refused.text());
    Ok(())
}

/// The host lets every authenticated caller through to `selfreviews`, so only the sidecar can
/// refuse.
#[test]
fn self_reviews_need_the_right_to_read_and_open_nothing_else() -> Result<()> {
    let scene = Scene::new("self-reviews")?;
    let reader = Caller::certificate("e2e-self-reviews", &[])?;
    let stranger = Caller::certificate("e2e-self-reviews-no", &[])?;
    scene.let_in(&reader, &["m1"], &["get"])?;
    let through = Endpoint::cluster(&bed()?.host, reader.certificate.as_deref())?;
    let at = |inner: &str| format!("/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/selfreviews{inner}");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = at("/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let reviewed = through.exchange(post_to(&path, "", &review).as_bytes())?;
    assert_eq!(reviewed.status(), 201, "{}", reviewed.text());
    assert!(reviewed.text().contains("e2e-self-reviews"), "{}", reviewed.text());

    // An upgrade needs the verb `create` on the proxy, which the host did not check here.
    let upgrade =
        format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
    let upgraded = through.exchange(upgrade.as_bytes())?;
    assert_eq!(upgraded.status(), 403, "{}", upgraded.text());
    for (inner, expected) in [
        ("/version", 200),
        ("/apis", 200),
        ("", 404),
        ("/api/v1/namespaces/default/configmaps", 404),
        ("/proxy/api/v1/namespaces", 404),
        ("/apis/authentication.k8s.io/v1/tokenreviews", 404),
    ] {
        let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", at(inner));
        let answer = through.exchange(request.as_bytes())?;
        assert_eq!(answer.status(), expected, "{inner}: {}", answer.text());
    }
    let written = through.exchange(post_to(&at("/version"), "", &json!({})).as_bytes())?;
    assert_eq!(written.status(), 403, "{}", written.text());

    let theirs = Endpoint::cluster(&bed()?.host, stranger.certificate.as_deref())?;
    let refused = theirs.exchange(post_to(&path, "", &review).as_bytes())?;
    assert_eq!(refused.status(), 403, "{}", refused.text());
    assert!(refused.text().contains("cannot get resource \\\"clusters/proxy\\\""), "{}", refused.text());
    Ok(())
}

fn post(path: &str, body: &Value) -> String {
    post_to(&member_path("m1", path), "", body)
}

/// `lines` are further header lines, each with its end.
fn post_to(path: &str, lines: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\n{lines}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[test]
fn fault_12_impersonation_past_the_host_needs_the_right() -> Result<()> {
    let scene = Scene::new("direct-as")?;
    let caller = scene.caller()?;
    let endpoint = Endpoint::sidecar(sidecar()?, caller.certificate.as_deref())?;
    let path = member_path("m1", &format!("/api/v1/namespaces/{}/configmaps", scene.name));
    let plain = endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    assert_eq!(plain.status(), 200, "{}", plain.text());
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nImpersonate-User: ulrike\r\n\r\n");
    let answer = endpoint.exchange(request.as_bytes())?;
    assert_eq!(answer.status(), 403, "{}", answer.text());
    assert!(answer.text().contains("impersonate"), "{}", answer.text());
    Ok(())
}

#[test]
fn invalid_credentials_get_no_access() -> Result<()> {
    let endpoint = Endpoint::sidecar(sidecar()?, None)?;
    let path = member_path("m1", "/api/v1/pods");
    let answer = endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    assert!([401, 403].contains(&answer.status()), "{}: {}", answer.status(), answer.text());
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer made-up\r\n\r\n");
    let answer = endpoint.exchange(request.as_bytes())?;
    assert_eq!(answer.status(), 401, "{}", answer.text());
    Ok(())
}

fn ask(endpoint: &Endpoint, caller: &Caller, cluster: &str) -> Result<Response> {
    let path = member_path(cluster, "/version");
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{}\r\n", caller.authorization());
    endpoint.exchange(head.as_bytes()).with_context(|| format!("asking for {cluster}"))
}
