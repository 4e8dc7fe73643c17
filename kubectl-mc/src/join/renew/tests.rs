use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

use super::*;
use crate::cluster::connection::fake;

fn policy(longest: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "kubectl-mc-manager-tokens", "resourceVersion": "1"},
        "spec": {"variables": [{"name": "maxSeconds", "expression": longest}]},
    })
}

#[tokio::test]
async fn renewal_keeps_the_token_lifetime_of_the_member() {
    let (host, _) = fake::connection("host", |_, _| (200, json!({"data": {}})));
    let (member, requests) = fake::connection("member", |_, path| match path {
        path if path.ends_with("/token") => (201, json!({"status": {"token": "new"}})),
        path if path.ends_with("/v1") => {
            (200, json!({"resources": [{"name": "validatingadmissionpolicies"}]}))
        }
        _ => (200, policy("5400")),
    });
    let name: ClusterName = "m1".parse().unwrap();
    for (wanted, seconds) in [(None, [5400, 3600]), (Some(Duration::from_secs(7200)), [10_800, 7200])] {
        tokens(&name, &host, &member, "ns", wanted).await.unwrap();
        let sent: Vec<_> = requests.try_iter().map(|(_, _, body)| body).collect();
        let requested = sent.iter().filter_map(|body| body["spec"]["expirationSeconds"].as_u64());
        assert!(requested.eq(seconds), "{sent:?}");
        let policy = sent.iter().find(|body| token_policy::is_policy(body)).unwrap();
        assert_eq!(token_policy::longest(policy), Some(Duration::from_secs(seconds[0])));
    }
}

#[test]
fn token_lifetime_without_a_policy_is_that_of_the_token() {
    let hour = Duration::from_secs(3600);
    let secret = |claims: &Value| {
        let token = format!("e30.{}.s", URL_SAFE_NO_PAD.encode(claims.to_string()));
        json!({"data": {"token": STANDARD.encode(token)}})
    };
    let token = secret(&json!({"iat": 100, "exp": 3700}));
    assert_eq!(present_life(None, Some(&token)), hour);
    assert_eq!(present_life(Some(&policy("10800")), Some(&token)), 2 * hour);
    assert_eq!(present_life(Some(&policy("3600 * 24")), Some(&token)), hour);
    assert_eq!(present_life(Some(&policy("10")), None), SHORTEST);
    assert_eq!(present_life(None, Some(&secret(&json!({})))), DEFAULT);
    assert_eq!(present_life(None, None), DEFAULT);
}

#[test]
fn expired_members_are_distinguished_from_healthy_ones() {
    let cluster = |reason: &str| {
        json!({"status": {"conditions": [
            {"type": "Ready", "reason": "Expired"}, {"type": "CredentialValid", "reason": reason},
        ]}})
    };
    assert!(needs_tokens(&cluster("Expired")) && needs_tokens(&cluster("ManagerExpired")));
    assert!(!needs_tokens(&cluster("Accepted")) && !needs_tokens(&cluster("ClientCertificate")));
    assert!(!needs_tokens(&json!({})));
    let connected =
        |status: &str| json!({"status": {"conditions": [{"type": "Connected", "status": status}]}});
    assert_eq!(need(&connected("False")), Some(Need::Agent));
    assert_eq!(need(&connected("True")), None);
    assert_eq!(need(&cluster("Expired")), Some(Need::Tokens));
}
