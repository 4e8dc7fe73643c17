//! The tokens that a thief of the manager's token can request.

use super::*;

#[test]
fn manager_gets_tokens_of_its_two_accounts_only() -> Result<()> {
    let thief = managed()?.thief_of_manager()?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    for (namespace, account) in [
        ("kube-system", "clusterrole-aggregation-controller"),
        ("kubectl-mc-system", "default"),
        ("default", OURS),
    ] {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        forbidden(&thief, "POST", &path, &request)?;
    }
    forbidden(
        &thief,
        "POST",
        "/api/v1/namespaces/kubectl-mc-system/serviceaccounts",
        &json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine"},
        }),
    )?;
    forbidden(&thief.with(&["Impersonate-User: admin"]), "GET", "/api/v1/secrets", &Value::Null)
}

#[test]
fn manager_gets_only_api_tokens_of_at_most_45_days() -> Result<()> {
    let thief = managed()?.thief_of_manager()?;
    let token = "/api/v1/namespaces/kubectl-mc-system/serviceaccounts/kubectl-mc-impersonator/token";
    let request =
        |spec: Value| json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let granted = thief.create(token, &request(json!({"expirationSeconds": 3_888_000})))?;
    let own = &granted["spec"]["audiences"][0];
    thief.create(token, &request(json!({"audiences": [own]})))?;
    for (spec, words) in [
        (json!({"audiences": ["vault"]}), "for the API of this cluster only"),
        (json!({"audiences": [own, "vault"]}), "for the API of this cluster only"),
        (json!({"expirationSeconds": 3_888_001}), "no token for longer than 3888000 seconds"),
    ] {
        // A kube-apiserver takes a moment to enforce a changed policy.
        eventually("the policy is in force", SOON, || {
            refused(&thief, "POST", token, &request(spec.clone()), words).map(Some)
        })?;
    }
    Ok(())
}
