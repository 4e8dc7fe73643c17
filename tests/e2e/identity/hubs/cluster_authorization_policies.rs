//! The admission policies of Cluster Authorization check names of new objects, owners, and the
//! objects of a registration, on a real host without the webhook. RBAC grants agents everything
//! here, so each refusal comes from a policy.

use anyhow::{Context, Result, ensure};
use harness::karmada_host::{Agent, KarmadaHost};
use harness::wait::{SOON, eventually};
use kubectl_mc_api::ownership::registration::Role;
use serde_json::{Value, json};

use super::cluster_authorization::program;

const SECRETS: &str = "/api/v1/namespaces/karmada-cluster/secrets";
const WORKS_OF_B: &str = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-b/works";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "mc_sidecar_admission_webhook_reviews_total{webhook=\"owner\"";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const OWNER: &str = "clusterrestriction.karmada.io/owner";

#[test]
fn names_of_other_clusters_are_refused_on_the_newest_host() -> Result<()> {
    let host = with_policies("k1")?;
    owners_are_written(&host)?;
    names_decide(&host)?;
    agents_get_no_token(&host)?;
    owners_are_kept(&host, true)?;
    registration_writes_its_own_names(&host)
}

#[test]
fn names_of_other_clusters_are_refused_on_the_oldest_host() -> Result<()> {
    let host = with_policies("k2")?;
    names_decide(&host)?;
    agents_get_no_token(&host)?;
    owners_are_kept(&host, false)?;
    registration_writes_its_own_names(&host)
}

#[test]
fn names_of_other_clusters_are_refused_on_1_34() -> Result<()> {
    let mut host = KarmadaHost::take("k3", program())?;
    host.start_webhook(&[])?;
    let host = policies_on(host)?;
    owners_are_written(&host)?;
    names_decide(&host)?;
    owners_are_kept(&host, true)?;
    registration_writes_its_own_names(&host)
}

#[test]
fn sidecar_writes_owners_where_the_host_has_no_policy() -> Result<()> {
    let mut host = KarmadaHost::take("k2", program())?;
    host.start_webhook(&[])?;
    let host = policies_on(host)?;
    owners_are_written(&host)?;
    names_decide(&host)?;
    owners_are_kept(&host, true)?;
    // Objects of other callers do not reach the webhook.
    let webhook = host.webhook.as_ref().context("no webhook")?;
    let before = webhook.metric(REVIEWS)?;
    ensure!(before > 0.0, "the webhook was never asked");
    host.api.create(SECRETS, &secret("of-an-administrator"))?;
    host.api.delete(&format!("{SECRETS}/of-an-administrator"))?;
    ensure!(webhook.metric(REVIEWS)? == before, "the object of an administrator reached the webhook");
    host.plugin.ok(&["authz", "remove", "--for=karmada", "--yes"])?;
    let left = host.api.get("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations")?;
    ensure!(!left.to_string().contains("kubectl-mc"), "{left}");
    Ok(())
}

fn with_policies(name: &str) -> Result<KarmadaHost> {
    policies_on(KarmadaHost::take(name, program())?)
}

fn policies_on(host: KarmadaHost) -> Result<KarmadaHost> {
    host.apply_generated(&["--without-webhook"])?;
    let everything = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "e2e-agents", "labels": {"app.kubernetes.io/managed-by": "kubectl-mc"}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:karmada:agents"}],
    });
    host.api.apply(&format!("{RBAC}/clusterrolebindings/e2e-agents"), &everything)?;
    let a = host.agent("a")?;
    eventually("the policies are in force", 4 * SOON, || {
        let (code, text) = a.ask("POST", &format!("{SECRETS}?dryRun=All"), Some(&secret("b")))?;
        let (other, _) = a.ask("POST", &format!("{RBAC}/clusterroles?dryRun=All"), Some(&json!({})))?;
        // A policy fails until it knows a new kind, which takes a while.
        let work =
            json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "w"}});
        let (judged, _) = a.ask("POST", &format!("{WORKS_OF_B}?dryRun=All"), Some(&work))?;
        let is_judged = code == 403 && text.contains("does not belong") && judged == 403;
        Ok((is_judged && other != 403).then_some(()))
    })?;
    Ok(host)
}

/// The host loads the writer of owners, a policy or a webhook, separately from the policies that
/// decide.
fn owners_are_written(host: &KarmadaHost) -> Result<()> {
    let a = host.agent("a")?;
    eventually("owners are written", 2 * SOON, || {
        let text = a.expect(201, "POST", &format!("{SECRETS}?dryRun=All"), Some(&secret("a")))?;
        Ok(text.contains(OWNER).then_some(()))
    })
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"token": "t"}})
}

fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": "x"},
    })
}

/// Bugs 2 and 6: an agent creates another cluster's name first; a deletion has no new object.
fn names_decide(host: &KarmadaHost) -> Result<()> {
    let a = host.agent("a")?;
    let refused = |method: &str, path: &str, body: Option<&Value>| -> Result<()> {
        let text = a.expect(403, method, path, body)?;
        ensure!(text.contains("kubectl-mc-karmada-agents"), "not the policy's: {method} {path}: {text}");
        Ok(())
    };
    let leases = |namespace: &str| format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    for name in ["b", "b-impersonator", "absent", "a-impersonator-x"] {
        refused("POST", SECRETS, Some(&secret(name)))?;
    }
    refused("POST", "/api/v1/namespaces/default/secrets", Some(&secret("a")))?;
    let generated = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "a"}});
    refused("POST", SECRETS, Some(&generated))?;
    refused("POST", &leases("karmada-cluster"), Some(&lease("b")))?;
    refused("POST", &leases("karmada-system"), Some(&lease("karmada-agent-b")))?;
    refused("POST", &leases("karmada-system"), Some(&lease("a")))?;
    refused("POST", &leases("kube-system"), Some(&lease("kube-scheduler")))?;
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "w"}});
    refused("POST", WORKS_OF_B, Some(&work))?;
    for name in ["a", "a-impersonator"] {
        a.expect(201, "POST", SECRETS, Some(&secret(name)))?;
    }
    a.expect(201, "POST", &leases("karmada-cluster"), Some(&lease("a")))?;
    a.expect(201, "POST", &leases("karmada-system"), Some(&lease("karmada-agent-a")))?;
    a.expect(201, "POST", "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-a/works", Some(&work))?;

    host.api.create(SECRETS, &secret("b"))?;
    refused("PATCH", &format!("{SECRETS}/b"), Some(&json!({"stringData": {"token": "stolen"}})))?;
    refused("DELETE", &format!("{SECRETS}/b"), None)?;
    // A request for a collection has no name, so the policy checks the name of each object.
    refused("DELETE", SECRETS, None)?;
    host.api.get(&format!("{SECRETS}/b"))?;
    refused("DELETE", &format!("{SECRETS}?fieldSelector=metadata.name%3Db"), None)?;
    // The deletion of the collection may have removed the agent's own objects.
    for name in ["a", "a-impersonator"] {
        let (code, text) = a.ask("POST", SECRETS, Some(&secret(name)))?;
        ensure!([201, 409].contains(&code), "{code}: {text}");
    }
    a.expect(200, "DELETE", &format!("{SECRETS}/a-impersonator"), None)?;
    a.expect(200, "DELETE", &format!("{}/karmada-agent-a", leases("karmada-system")), None)?;
    a.expect(200, "DELETE", "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-a/works/w", None)?;
    // The policies do not concern other users.
    host.api.create(SECRETS, &secret("anything"))?;
    host.api.delete(&format!("{SECRETS}/anything"))?;
    Ok(())
}

/// kube-controller-manager fills a Secret of that type with the token of a service account, which the agent could read.
fn agents_get_no_token(host: &KarmadaHost) -> Result<()> {
    let a = host.agent("a")?;
    let own = format!("{SECRETS}/a-impersonator");
    a.ask("DELETE", &own, None)?;
    let mut token = secret("a-impersonator");
    token["metadata"]["annotations"] = json!({ACCOUNT: "default"});
    token["type"] = "kubernetes.io/service-account-token".into();
    let mut untyped = token.clone();
    untyped["type"] = "Opaque".into();
    let mut other = secret("a-impersonator");
    other["type"] = "bootstrap.kubernetes.io/token".into();
    for object in [&token, &untyped, &other] {
        let text = a.expect(403, "POST", SECRETS, Some(object))?;
        ensure!(text.contains("kubectl-mc-karmada-agents"), "{text}");
    }
    a.expect(201, "POST", SECRETS, Some(&secret("a-impersonator")))?;
    let annotated = json!({"metadata": {"annotations": {ACCOUNT: "default"}}});
    a.expect(403, "PATCH", &own, Some(&annotated))?;
    a.expect(403, "PATCH", &own, Some(&json!({"metadata": {"annotations": {"a": "b"}}})))?;
    // An annotation by an administrator stays, unless it names an account.
    host.api.merge(&own, &json!({"metadata": {"annotations": {"of": "an administrator"}}}))?;
    a.expect(200, "PATCH", &own, Some(&json!({"stringData": {"token": "new"}})))?;
    host.api.merge(&own, &annotated)?;
    a.expect(403, "PATCH", &own, Some(&json!({"stringData": {"token": "newer"}})))?;
    a.expect(200, "DELETE", &own, None).map(drop)
}

/// Bug 1: the policy compares the owner with that of the old object.
fn owners_are_kept(host: &KarmadaHost, is_stamped: bool) -> Result<()> {
    let a = host.agent("a")?;
    let path = format!("{SECRETS}/a");
    let owner = |object: &Value| object["metadata"]["annotations"][OWNER].as_str().map(str::to_owned);
    let created = host.api.get(&path)?;
    ensure!(owner(&created) == is_stamped.then(|| "a".to_owned()), "{created}");
    let annotated = |owner: Value| json!({"metadata": {"annotations": {OWNER: owner}}});
    let other = if is_stamped { Value::Null } else { "a".into() };
    for owner in ["b".into(), "A".into(), "".into(), other] {
        let is_as_before = !is_stamped && owner == "";
        let (code, text) = a.ask("PATCH", &path, Some(&annotated(owner)))?;
        ensure!(is_as_before || (code == 403 && text.contains("may not change the owner")), "{code}: {text}");
    }
    a.expect(200, "PATCH", &path, Some(&json!({"stringData": {"token": "new"}})))?;
    let mut preset = secret("a-impersonator");
    preset["metadata"]["annotations"] = json!({OWNER: "b"});
    let text = a.expect(403, "POST", SECRETS, Some(&preset))?;
    ensure!(text.contains("another cluster owns"), "{text}");
    // An administrator may change the owner. After that, the object's name no longer gives access
    // to it.
    host.api.merge(&path, &annotated("b".into()))?;
    let text = a.expect(403, "PATCH", &path, Some(&json!({"stringData": {"token": "again"}})))?;
    ensure!(text.contains("another cluster owns"), "{text}");
    a.expect(403, "DELETE", &path, None)?;
    host.api.merge(&path, &annotated(Value::Null))?;
    a.expect(200, "DELETE", &path, None).map(drop)
}

#[expect(clippy::too_many_lines, reason = "one table")]
fn registration_writes_its_own_names(host: &KarmadaHost) -> Result<()> {
    let generator = host.agent("rbac-generator")?;
    let role = |name: &str, rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "kubectl-mc"}},
            "rules": rules,
        })
    };
    let rule = |group: &str, resource: &str, names: &[&str], verbs: &[&str]| {
        let mut rule = json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        rule
    };
    let registered = |cluster: &str| Value::from(Role::Agent.rules(cluster));
    let binding = |name: &str, subject: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "kubectl-mc"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": subject}],
        })
    };
    let (roles, bindings) = (format!("{RBAC}/clusterroles"), format!("{RBAC}/clusterrolebindings"));
    const NEW: &str = "system:karmada:new:agent";
    generator.expect(201, "POST", &roles, Some(&role(NEW, registered("new"))))?;
    generator.expect(201, "POST", &bindings, Some(&binding(NEW, "system:karmada:agent:new", NEW)))?;
    let refused = |agent: &Agent, method: &str, path: &str, body: Option<&Value>| -> Result<()> {
        let text = agent.expect(403, method, path, body)?;
        ensure!(
            text.contains("kubectl-mc-karmada-registration"),
            "not the policy's: {method} {path}: {text}"
        );
        Ok(())
    };
    let other = "system:karmada:other:agent";
    let mut aggregated = role(other, registered("other"));
    aggregated["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    for rule in [
        rule("*", "clusters", &[], &["get"]),
        rule("", "namespaces", &[], &["*"]),
        rule("", "namespaces", &[], &["get", "delete"]),
        rule("certificates.k8s.io", "certificatesigningrequests", &[], &["*"]),
        rule("coordination.k8s.io", "leases", &[], &["*"]),
        rule("", "services", &[], &["list", "watch", "update"]),
        rule("cluster.karmada.io", "clusters", &["new"], &["get", "delete"]),
        rule("cluster.karmada.io", "clusters", &[], &["get", "delete"]),
        rule("cluster.karmada.io", "clusters/status", &[], &["update"]),
        rule("", "secrets", &[], &["get"]),
        rule("*", "*", &[], &["*"]),
        json!({"nonResourceURLs": ["*"], "verbs": ["get"]}),
    ] {
        let mut rules = Role::Agent.rules("other");
        rules.push(rule);
        refused(&generator, "POST", &roles, Some(&role(other, rules.into())))?;
    }
    for (place, suffix, of) in
        [("karmada-cluster", "agent-secret", Role::Secret), ("karmada-es-b", "agent-work", Role::Work)]
    {
        let path = format!("{RBAC}/namespaces/{place}/roles?dryRun=All");
        let mut own = role(&format!("system:karmada:b:{suffix}"), of.rules("b").into());
        own["kind"] = "Role".into();
        generator.expect(201, "POST", &path, Some(&own))?;
        own["rules"] = of.rules("a").into();
        own["rules"][0]["verbs"] = json!(["*"]);
        refused(&generator, "POST", &path, Some(&own))?;
    }
    for (path, body) in [
        (&roles, role("mine", registered("mine"))),
        (&roles, aggregated),
        (&bindings, binding(other, "system:karmada:agent:new", other)),
        (&bindings, binding(other, "jane", other)),
        (&bindings, binding(other, "system:karmada:agent:other", "cluster-admin")),
        (
            &bindings,
            binding(
                "system:karmada:rbac-generator:agent",
                "system:karmada:agent:rbac-generator",
                "system:karmada:rbac-generator:agent",
            ),
        ),
    ] {
        refused(&generator, "POST", path, Some(&body))?;
    }
    refused(&generator, "DELETE", &format!("{roles}/cluster-admin"), None)?;
    refused(&generator, "DELETE", "/api/v1/namespaces/karmada-es-b", None)?;
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    refused(&generator, "POST", "/api/v1/namespaces", Some(&namespace("mine")))?;
    generator.expect(201, "POST", "/api/v1/namespaces", Some(&namespace("karmada-es-new")))?;
    generator.expect(200, "DELETE", &format!("{bindings}/{NEW}"), None)?;
    generator.expect(200, "DELETE", &format!("{roles}/{NEW}"), None).map(drop)
}
