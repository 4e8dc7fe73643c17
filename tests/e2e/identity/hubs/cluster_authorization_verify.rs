//! `authz verify` compares the admission policies with those that `apply` writes, and tries the
//! agents' writes as dry runs, on a real host without the webhook.

use anyhow::{Result, ensure};
use harness::karmada_host::KarmadaHost;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use super::cluster_authorization::program;

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const AGENTS: &str = "kubectl-mc-karmada-agents";
const REGISTRATION: &str = "kubectl-mc-karmada-registration";

#[test]
fn verify_finds_policies_that_were_weakened() -> Result<()> {
    let host = KarmadaHost::take("k1", program())?;
    host.apply_generated(&["a", "b", "--without-webhook"])?;
    expect(&host, &[], &["new objects", "create secrets", "create leases", "clusterroles", "not checked:"])?;

    let binding = format!("{ADMISSION}/validatingadmissionpolicybindings/{AGENTS}");
    actions(&host, &binding, "Audit")?;
    expect(
        &host,
        &[
            "validatingadmissionpolicybindings/kubectl-mc-karmada-agents: its binding does not deny: apply it again",
            "too wide: system:karmada:agent:a: create secrets karmada-cluster/b (other's): the host admits it in a dry run",
            "too wide: system:karmada:agent:a: create secrets karmada-cluster/a with the token of a service account",
            "too wide: system:karmada:agent:a: create leases.coordination.k8s.io karmada-cluster/b (other's)",
        ],
        &["not checked:"],
    )?;
    let doctor = host.plugin.run(&["doctor", "--no-streams"])?.text();
    ensure!(doctor.contains("its binding does not deny"), "{doctor}");
    actions(&host, &binding, "Deny")?;
    expect(&host, &[], &["new objects", "in a dry run"])?;

    let policy = format!("{ADMISSION}/validatingadmissionpolicies/{AGENTS}");
    let before = host.api.get(&policy)?["spec"].clone();
    for (field, value) in [
        ("failurePolicy", json!("Ignore")),
        ("matchConditions", json!([{"name": "agent", "expression": "false"}])),
        ("validations", json!([{"expression": "true"}])),
    ] {
        host.api.merge(&policy, &json!({"spec": {field: value}}))?;
        expect(&host, &["validatingadmissionpolicies/kubectl-mc-karmada-agents: it is another one"], &[])?;
        host.api.merge(&policy, &json!({"spec": {field: before[field]}}))?;
        expect(&host, &[], &["it is another one"])?;
    }
    Ok(())
}

#[test]
fn verify_tries_what_a_registration_could_grant() -> Result<()> {
    let host = KarmadaHost::take("k1", program())?;
    host.apply_generated(&["a", "b", "--without-webhook"])?;
    let everything = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "e2e-generator", "labels": {"app.kubernetes.io/managed-by": "kubectl-mc"}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:karmada:agent:rbac-generator",
        }],
    });
    host.api.apply("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/e2e-generator", &everything)?;
    let tried = "create clusterroles.rbac.authorization.k8s.io system:karmada:b:agent with rights that no registration gives";
    expect(&host, &[], &[tried])?;
    actions(&host, &format!("{ADMISSION}/validatingadmissionpolicybindings/{REGISTRATION}"), "Warn")?;
    expect(&host, &[tried, "kubectl-mc-karmada-registration: its binding does not deny"], &[])
}

fn actions(host: &KarmadaHost, binding: &str, action: &str) -> Result<Value> {
    host.api.merge(binding, &json!({"spec": {"validationActions": [action]}}))
}

/// Runs `authz verify` until it prints these texts and none of the others, because the host takes a
/// moment to read policies.
fn expect(host: &KarmadaHost, texts: &[&str], absent: &[&str]) -> Result<()> {
    eventually("the host has read the policies", 4 * SOON, || {
        let command = [
            "authz",
            "verify",
            "--for=karmada",
            "a",
            "b",
            "--without-webhook",
            "--without-admission-webhook",
        ];
        let text = host.plugin.run(&command)?.text();
        for expected in texts {
            ensure!(text.contains(expected), "without {expected:?}: {text}");
        }
        for other in absent {
            ensure!(!text.contains(other), "with {other:?}: {text}");
        }
        Ok(Some(()))
    })
}
