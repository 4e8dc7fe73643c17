//! What a member's administrators refuse stays refused after another join.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::joined::Joined;

#[test]
fn policy_refusals_survive_another_join() -> Result<()> {
    let joined = Joined::under("e2e-refusals")?;
    let map = "/api/v1/namespaces/kubectl-mc-system/configmaps/kubectl-mc-manager";
    joined.member.merge(map, &json!({"data": {"refused-users": "root\n"}}))?;
    let policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/kubectl-mc-manager";
    let variables = || -> Result<Vec<(String, String)>> {
        let policy = joined.member.get(policy)?;
        let variables = policy["spec"]["variables"].as_array().context("no variables")?;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let named = variables.iter().map(|one| (text(&one["name"]), text(&one["expression"])));
        Ok(named.filter(|(name, _)| name.starts_with("refused")).collect())
    };
    let number = number_of("refusedGroups", &variables()?)?;
    let by_hand = json!([
        {"op": "test", "path": format!("/spec/variables/{number}/name"), "value": "refusedGroups"},
        {"op": "replace", "path": format!("/spec/variables/{number}/expression"), "value": "['wheel']"},
    ]);
    joined.member.patch(policy, &by_hand)?;
    joined.admin.ok(&["join", joined.name, "--member-context=member"])?;
    let expected =
        [("refusedUsers", r#"["root"]"#), ("refusedGroups", "['wheel']"), ("refusedNamespaces", "[]")];
    let expected = expected.map(|(name, expression)| (name.to_owned(), expression.to_owned()));
    let found = variables()?;
    ensure!(found == expected, "{found:?}");
    Ok(())
}

/// The index of a variable in the policy, in which anyUser comes first.
fn number_of(name: &str, refusals: &[(String, String)]) -> Result<usize> {
    refusals.iter().position(|(found, _)| found == name).map(|number| number + 1).context("no such variable")
}
