//! A thief of a member's impersonator token can impersonate each user of the member's proxy on the
//! host, but no other user, and can do nothing as the impersonator itself.

use anyhow::{Result, ensure};
use harness::managed::managed;
use harness::wait::SOON;
use serde_json::{Value, json};

use crate::identity::quiet::unified_auth::{RBAC, bind, make_namespace, named, rule, within};

#[test]
fn impersonator_token_has_no_access_as_itself() -> Result<()> {
    let thief = managed()?.thief_of_impersonator()?;
    let role = format!("{RBAC}/clusterroles/kubectl-mc-impersonator");
    for (method, path) in [
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/namespaces"),
        ("GET", "/api/v1/namespaces/kubectl-mc-system/configmaps/kubectl-mc-manager"),
        ("GET", role.as_str()),
        ("DELETE", role.as_str()),
        ("POST", "/api/v1/namespaces/kubectl-mc-system/serviceaccounts/kubectl-mc-impersonator/token"),
        ("POST", "/api/v1/namespaces/kubectl-mc-system/serviceaccounts/kubectl-mc-manager/token"),
    ] {
        let body = if method == "POST" {
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).to_string()
        } else {
            String::new()
        };
        let answer = thief.request(method, path, "application/json", &body)?;
        ensure!(answer.status() == 403, "{method} {path}: {} {}", answer.status(), answer.text());
    }
    Ok(())
}

#[test]
fn impersonator_token_impersonates_only_listed_users() -> Result<()> {
    let member = managed()?;
    let thief = member.thief_of_impersonator()?;
    make_namespace(member, "e2e-stolen")?;
    bind(
        "stolen",
        &rule(&["clusters/proxy"], &["get"], &[member.name]),
        &[
            &named("User", "e2e-stolen-jane"),
            &named("Group", "e2e-stolen-dev"),
            &json!({"kind": "ServiceAccount", "name": "robot", "namespace": "e2e-stolen"}),
        ],
    )?;
    within("they are known", SOON, || {
        Ok(member.may_be_user("e2e-stolen-jane")?
            && member.may_be_in("e2e-stolen-dev")?
            && member.may_be_account("e2e-stolen", "robot")?)
    })?;
    let answers = |lines: &[&str]| -> Result<(u16, String)> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = thief.with(lines).request("POST", path, "application/json", &review.to_string())?;
        Ok((answer.status(), answer.text()))
    };
    for lines in [
        &["Impersonate-User: e2e-stolen-jane"][..],
        &["Impersonate-User: e2e-stolen-jane", "Impersonate-Group: e2e-stolen-dev"],
        &["Impersonate-User: system:serviceaccount:e2e-stolen:robot"],
    ] {
        let (status, text) = answers(lines)?;
        ensure!(status == 201, "{lines:?}: {status} {text}");
    }
    for lines in [
        &["Impersonate-User: e2e-admin"][..],
        &["Impersonate-User: e2e-stolen-bob"],
        &["Impersonate-User: e2e-stolen-jane", "Impersonate-Group: system:masters"],
        &["Impersonate-User: e2e-stolen-jane", "Impersonate-Group: system:nodes"],
        &["Impersonate-User: e2e-stolen-jane", "Impersonate-Group: e2e-stolen-ops"],
        &["Impersonate-User: system:kube-controller-manager"],
        &["Impersonate-User: system:serviceaccount:e2e-stolen:cat"],
        &["Impersonate-User: system:serviceaccount:kube-system:robot"],
        &["Impersonate-User: system:serviceaccount:kube-system:clusterrole-aggregation-controller"],
        &["Impersonate-User: system:serviceaccount:kubectl-mc-system:kubectl-mc-manager"],
    ] {
        let (status, text) = answers(lines)?;
        ensure!(status == 403 && text.contains("cannot impersonate"), "{lines:?}: {status} {text}");
    }
    Ok(())
}

/// Where Kubernetes has constrained impersonation (KEP-5284), the token has none of those rights either.
#[test]
fn impersonator_token_has_only_the_listed_rights() -> Result<()> {
    let member = managed()?;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = member.thief_of_impersonator()?.create(path, &review)?;
    let rules = answer["status"]["resourceRules"].as_array().cloned().unwrap_or_default();
    let of_everybody = |rule: &Value| {
        rule["verbs"] == json!(["create"]) && rule["resources"].to_string().contains("selfsubject")
    };
    ensure!(!rules.is_empty());
    for rule in rules {
        let named = rule["resourceNames"].as_array().is_some_and(|names| !names.is_empty());
        let lists = named && [json!(["users"]), json!(["groups"])].contains(&rule["resources"]);
        let others = rule["apiGroups"] == json!(["authentication.k8s.io"]);
        ensure!(
            of_everybody(&rule) || (rule["verbs"] == json!(["impersonate"]) && (lists || others)),
            "{rule}"
        );
    }
    Ok(())
}

#[test]
fn sidecar_token_reads_no_secret_of_another_namespace() -> Result<()> {
    let bed = harness::bed::bed()?;
    let host = harness::bed::host()?;
    let path = "/api/v1/namespaces/kubectl-mc-system/serviceaccounts/mc-sidecar/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = host.create(path, &request)?;
    let thief = harness::api::Api::bearer(&bed.host, answer["status"]["token"].as_str().unwrap_or_default())?;
    thief.get("/api/v1/namespaces/kubectl-mc-system/secrets")?;
    for path in
        ["/api/v1/secrets", "/api/v1/namespaces/kube-system/secrets", "/api/v1/namespaces/default/secrets"]
    {
        let answer = thief.request("GET", path, "", "")?;
        ensure!(answer.status() == 403, "{path}: {}", answer.status());
    }
    // The token grants itself nothing.
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "mc-sidecar", "namespace": "kubectl-mc-system"}],
    });
    let path = format!("{RBAC}/clusterrolebindings?dryRun=All");
    let answer = thief.request("POST", &path, "application/json", &binding.to_string())?;
    ensure!(answer.status() == 403, "{}", answer.text());
    Ok(())
}
