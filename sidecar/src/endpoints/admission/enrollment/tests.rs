use rcgen::DnType;
use serde_json::json;

use super::super::certificate_request::tests::{AGENT as NAMES, encoded, pem, with_two_names};
use super::*;

const TOKEN_OF_A: &[&str] = &[
    "system:bootstrappers",
    "system:bootstrappers:karmada:default-cluster-token",
    "system:bootstrappers:karmada:cluster:a",
    "system:authenticated",
];

fn agent(cluster: &str) -> String {
    let name = format!("system:karmada:agent:{cluster}");
    pem(&[(DnType::OrganizationName, GROUP), (DnType::CommonName, &name)], vec![])
}

fn spec(pem: &str) -> Value {
    json!({
        "request": STANDARD.encode(pem), "signerName": SIGNER,
        "usages": ["digital signature", "key encipherment", "client auth"],
    })
}

fn request(user: &str, groups: &[&str], spec: &Value) -> Request {
    serde_json::from_value(json!({
        "uid": "1", "operation": "CREATE", "userInfo": {"username": user, "groups": groups},
        "resource": {"group": "certificates.k8s.io", "version": "v1", "resource": "certificatesigningrequests"},
        "object": {"spec": spec},
    }))
    .unwrap()
}

fn judged(user: &str, groups: &[&str], pem: &str) -> Result<(), Refusal> {
    judge(&request(user, groups, &spec(pem)))
}

fn other_name(cluster: &str) -> Result<(), Refusal> {
    Err(Refusal::CommonName { allowed: subject::user(cluster) })
}

#[test]
fn token_enrolls_only_its_cluster() {
    let token = |pem: &str| judged("system:bootstrap:abcdef", TOKEN_OF_A, pem);
    assert_eq!(token(&agent("a")), Ok(()));
    // The first request of karmadactl register.
    assert_eq!(token(&agent("rbac-generator")), Ok(()));
    for other in ["b", "a-impersonator", "A", "a.b", "aa", ""] {
        assert_eq!(token(&agent(other)), other_name("a"), "{other}");
    }
    assert_eq!(token(&with_two_names()), Err(Unreadable::Subject.into()));
    let names = |names: &[(DnType, &str)]| token(&pem(names, vec![]));
    let own = (DnType::CommonName, "system:karmada:agent:a");
    assert_eq!(names(std::slice::from_ref(&own)), Err(Unreadable::Subject.into()));
    assert_eq!(names(&[(DnType::OrganizationName, "system:masters"), own]), Err(Refusal::Organization));
    let admin = (DnType::CommonName, "kubernetes-admin");
    assert_eq!(names(&[(DnType::OrganizationName, GROUP), admin]), other_name("a"));
}

#[test]
fn token_of_no_cluster_or_two_enrolls_none() {
    let unbound = |user: &str, groups: &[&str]| {
        assert_eq!(judged(user, groups, &agent("a")), Err(Refusal::UnboundToken), "{user} {groups:?}");
    };
    let user = "system:bootstrap:abcdef";
    let cluster = |cluster: &str| format!("system:bootstrappers:karmada:cluster:{cluster}");
    unbound(user, &["system:bootstrappers:karmada:default-cluster-token"]);
    unbound(user, &[&cluster("a"), &cluster("b")]);
    unbound(user, &[&cluster("b"), &cluster("a")]);
    for name in ["", "a-impersonator", "rbac-generator", "A", "a:b"] {
        unbound(user, &[&cluster(name)]);
    }
    // A normal user with the groups of a token.
    unbound("jane", &[&cluster("a")]);
}

#[test]
fn agent_renews_its_own_certificate() {
    let renews = |user: &str, groups: &[&str], pem: &str| judged(user, groups, pem);
    let group = &[GROUP, "system:authenticated"];
    assert_eq!(renews("system:karmada:agent:a", group, &agent("a")), Ok(()));
    assert_eq!(renews("system:karmada:agent:a", group, &agent("b")), other_name("a"));
    // An agent must not get the identity that writes the RBAC of all agents.
    assert_eq!(renews("system:karmada:agent:a", group, &agent("rbac-generator")), other_name("a"));
    assert_eq!(renews(GENERATOR, group, &agent("rbac-generator")), Err(Refusal::Generator));
    assert_eq!(renews("jane", group, &agent("a")), Err(Refusal::UnknownAgent));
    assert_eq!(renews("system:karmada:agent:a", &[], &agent("a")), Err(Refusal::UnknownAgent));
    assert_eq!(renews("system:karmada:agent:a-impersonator", group, &agent("a")), Err(Refusal::UnknownAgent));
}

#[test]
fn signer_and_usages_must_be_those_of_an_agent() {
    let with = |key: &str, value: Value| {
        let mut spec = spec(&pem(NAMES, vec![]));
        spec[key] = value;
        judge(&request("system:bootstrap:abcdef", TOKEN_OF_A, &spec))
    };
    assert_eq!(with("usages", json!(["client auth", "digital signature"])), Ok(()));
    for signer in ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/legacy-unknown", ""] {
        assert_eq!(with("signerName", signer.into()), Err(Refusal::Signer), "{signer}");
    }
    for usages in [
        Value::Null,
        json!([]),
        json!(["client auth"]),
        json!(["digital signature", "key encipherment"]),
        json!(["digital signature", "client auth", "server auth"]),
        json!(["digital signature", "client auth", 1]),
        json!("client auth"),
    ] {
        assert_eq!(with("usages", usages.clone()), Err(Refusal::Usages), "{usages}");
    }
    for request in [Value::Null, json!(1), json!("="), json!(STANDARD.encode("garbage")), json!("")] {
        assert_eq!(with("request", request.clone()), Err(Unreadable::Pem.into()), "{request}");
    }
}

#[test]
fn other_tokens_get_any_certificate_except_an_agents() {
    let kubeadm = &["system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"];
    let asks = |pem: &str| judged("system:bootstrap:abcdef", kubeadm, pem);
    assert_eq!(asks(&pem(&[(DnType::CommonName, "jane")], vec![])), Ok(()));
    for hostile in [agent("a"), with_two_names(), encoded(b"system:karmada:agents"), "garbage".to_owned()] {
        assert_eq!(asks(&hostile), Err(Refusal::OtherRequester), "{hostile}");
    }
    assert_eq!(judged("jane", &["dev"], &agent("a")), Err(Refusal::OtherRequester));
}

#[test]
fn review_of_another_resource_is_refused() {
    for (key, value) in [
        ("operation", json!("UPDATE")),
        ("subResource", json!("approval")),
        ("resource", json!({"group": "", "version": "v1", "resource": "secrets"})),
    ] {
        let mut review = json!({
            "uid": "1", "operation": "CREATE", "userInfo": {"username": "jane"},
            "resource": {"group": "certificates.k8s.io", "resource": "certificatesigningrequests"},
            "object": {"spec": spec("")},
        });
        review[key] = value;
        assert_eq!(judge(&serde_json::from_value(review).unwrap()), Err(Refusal::OtherKind), "{key}");
    }
}
