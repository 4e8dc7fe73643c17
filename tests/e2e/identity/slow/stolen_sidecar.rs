//! Limits of a thief of the sidecar's own token on the host, and of a writer of ClusterAccesses without the
//! right to grant access. RBAC limits which objects they write, and the host's ValidatingAdmissionPolicies
//! their content.

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::bed::{bed, host};
use harness::caller::Caller;
use harness::http1::member_path;
use harness::tool::Tool;
use harness::turn::Turn;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

#[test]
fn sidecar_writes_only_the_roles_of_accesses() -> Result<()> {
    let thief = thief()?;
    let enter = enter(&json!(["m1"]));
    thief.dry_run("PATCH", &format!("{RBAC}/clusterroles/{OURS}"), &role(OURS, &enter))?.allowed()?;
    for name in ["kubectl-mc-accesses", "mine", "mc-sidecar"] {
        let path = format!("{RBAC}/clusterroles/{name}");
        thief.dry_run("PATCH", &path, &role(name, &enter))?.refused("kubectl-mc-access:")?;
    }
    for name in ["cluster-admin", "mc-sidecar"] {
        for kind in ["clusterroles", "clusterrolebindings"] {
            let path = format!("{RBAC}/{kind}/{name}");
            thief.dry_run("DELETE", &path, &Value::Null)?.refused("kubectl-mc-access:")?;
        }
    }
    let path = format!("{RBAC}/clusterroles");
    thief.dry_run("POST", &path, &role("mine", &enter))?.refused("kubectl-mc-access:")
}

#[test]
fn roles_of_accesses_give_named_clusters_only() -> Result<()> {
    let thief = thief()?;
    let path = format!("{RBAC}/clusterroles/{OURS}");
    let words = "named clusters";
    // The account has this right, so only the policy refuses it.
    let reviews =
        json!([{"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}]);
    for rules in [enter(&Value::Null), enter(&json!([])), reviews] {
        thief.dry_run("PATCH", &path, &role(OURS, &rules))?.refused(words)?;
    }
    let mut aggregated = role(OURS, &enter(&json!(["m1"])));
    aggregated["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    thief.dry_run("PATCH", &path, &aggregated)?.refused("aggregate nothing")?;
    let mut finalized = role(OURS, &enter(&json!(["m1"])));
    finalized["metadata"]["finalizers"] = json!(["example.com/never"]);
    thief.dry_run("PATCH", &path, &finalized)?.refused("no finalizers")?;
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    thief.dry_run("PATCH", &path, &role(OURS, &secrets))?.refused("attempting to grant RBAC permissions")
}

#[test]
fn bindings_of_accesses_bind_the_role_of_their_name() -> Result<()> {
    let thief = thief()?;
    let path = format!("{RBAC}/clusterrolebindings/{OURS}");
    for role in ["kubectl-mc-edit", "kubectl-mc-view", "mc-sidecar"] {
        let answer = thief.dry_run("PATCH", &path, &binding(OURS, role))?;
        answer.refused("binds the role of its name only")?;
    }
    let answer = thief.dry_run("PATCH", &path, &binding(OURS, "cluster-admin"))?;
    answer.refused("attempting to grant RBAC permissions")
}

#[test]
fn sidecars_own_account_enters_no_member() -> Result<()> {
    let thief = thief()?;
    let answer = thief.0.request("GET", &member_path("m1", "/api/v1/pods"), "", "")?;
    ensure!(answer.status() == 403, "{} {}", answer.status(), answer.text());
    ensure!(answer.text().contains("mc-sidecar"), "{}", answer.text());
    Ok(())
}

#[test]
fn writer_without_the_bind_verb_grants_no_access() -> Result<()> {
    let writer = Caller::service_account("default", "e2e-access-writer")?;
    let user = writer.user.clone();
    let host = host()?;
    let give = |name: &str, verbs: &[&str]| -> Result<()> {
        let rules = json!([{"apiGroups": ["fleet.kubectl-mc.dev"], "resources": ["clusteraccesses"], "verbs": verbs}]);
        host.apply(&format!("{RBAC}/clusterroles/{name}"), &role(name, &rules))?;
        let mut binding = binding(name, name);
        binding["subjects"] =
            json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]);
        host.apply(&format!("{RBAC}/clusterrolebindings/{name}"), &binding)?;
        let verb = verbs.last().context("no verb")?;
        let attributes =
            json!({"group": "fleet.kubectl-mc.dev", "resource": "clusteraccesses", "verb": verb});
        eventually("the right is there", SOON, || Ok(host.may(&user, &[], &attributes)?.then_some(())))
    };
    give("e2e-access-write", &["get", "create", "patch", "update"])?;
    let writer = Thief(Api::bearer(&bed()?.host, writer.token.as_deref().context("no token")?)?, None);
    let path = format!("{FLEET}/clusteraccesses/e2e-bind");
    let access = |role: &Value| {
        json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "ClusterAccess",
            "metadata": {"name": "e2e-bind"},
            // A member that does not exist, so that this grants nothing in any case.
            "spec": {"clusters": ["e2e-bind-none"], "roleRef": role, "namespaces": ["default"],
                     "subjects": [{"kind": "User", "name": "e2e-bind-user"}]},
        })
    };
    let [view, edit, role] = [("ClusterRole", "view"), ("ClusterRole", "edit"), ("Role", "view")]
        .map(|(kind, name)| json!({"kind": kind, "name": name}));
    writer.dry_run("PATCH", &path, &access(&view))?.refused("needs the right \"bind\"")?;
    host.apply(&path, &access(&view))?;
    for other in [&edit, &role] {
        writer.dry_run("PATCH", &path, &access(other))?.refused("needs the right \"bind\"")?;
    }
    let labelled = json!({"metadata": {"labels": {"team": "a"}}});
    writer.0.merge(&path, &labelled).context("what it gives is not changed")?;
    give("e2e-access-bind", &["bind"])?;
    for other in [&edit, &role] {
        writer.dry_run("PATCH", &path, &access(other))?.allowed()?;
    }
    host.delete(&path).map(drop)
}

#[test]
fn keeper_of_agents_rbac_writes_nothing_but_the_table() -> Result<()> {
    let thief = thief()?;
    let _given = Keeper::give()?;
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let (agents, policy) = ("system:karmada:e2e-thief:agent", "ValidatingAdmissionPolicy");
    let cluster_wide = |kind: &str, name: &str| format!("{RBAC}/{kind}/{name}");
    for name in [agents, OURS, "mine"] {
        thief
            .dry_run("PATCH", &cluster_wide("clusterroles", name), &role(name, &everything))?
            .refused(policy)?;
        let bound = binding(name, "cluster-admin");
        thief.dry_run("PATCH", &cluster_wide("clusterrolebindings", name), &bound)?.refused(policy)?;
    }
    // A binding of its own role to another subject.
    thief
        .dry_run("PATCH", &cluster_wide("clusterrolebindings", agents), &binding(agents, agents))?
        .refused("not the rights of this agent")?;
    for namespace in ["kube-system", "default"] {
        for name in ["mine", "system:karmada:e2e-thief:agent-events"] {
            let mut wide = role(name, &everything);
            wide["kind"] = "Role".into();
            let path = format!("{RBAC}/namespaces/{namespace}/roles/{name}");
            thief.dry_run("PATCH", &path, &wide)?.refused(KEEPER)?;
            let mut bound = binding(name, "cluster-admin");
            bound["kind"] = "RoleBinding".into();
            let path = format!("{RBAC}/namespaces/{namespace}/rolebindings/{name}");
            thief.dry_run("PATCH", &path, &bound)?.refused(KEEPER)?;
        }
    }
    for name in [KEEPER, "cluster-admin"] {
        for kind in ["clusterroles", "clusterrolebindings"] {
            thief.dry_run("DELETE", &cluster_wide(kind, name), &Value::Null)?.refused(policy)?;
        }
    }
    // Everything else that it may do is as before.
    let enter = enter(&json!(["m1"]));
    thief.dry_run("PATCH", &cluster_wide("clusterroles", OURS), &role(OURS, &enter))?.allowed()
}

/// The rights with which the sidecar maintains the RBAC of agents, on the bed's host. They are
/// removed when this is dropped.
struct Keeper;

impl Keeper {
    /// Creates the policy first, as `authz apply` does.
    fn give() -> Result<Self> {
        let given = Self;
        let plugin =
            Tool::plugin_at(crate::identity::hubs::cluster_authorization::program(), &[&bed()?.host])?;
        let without = ["--without-webhook", "--without-admission-webhook", "--only=objects"];
        let command = ["authz", "generate", "--for=karmada", "e2e-thief", "--kept-by-sidecar"];
        let objects = plugin.ok(&[&command[..], &without].concat())?;
        let ours = objects.split("---\n").filter(|object| object.contains(&format!("name: {KEEPER}\n")));
        let (policy, rights): (Vec<_>, Vec<_>) = ours.partition(|object| object.contains("AdmissionPolicy"));
        let kubectl = Tool::admin(&bed()?.host)?;
        let apply = |objects: &[&str]| -> Result<()> {
            ensure!(objects.len() == 2, "{objects:?}");
            let command = ["apply", "--server-side", "-f", "-"];
            kubectl.run_with_input(&command, objects.join("---\n").as_bytes())?.success().map(drop)
        };
        apply(&policy)?;
        eventually("the host's policy is in force", SOON, || Ok(Self::is_in_force()?.then_some(())))?;
        apply(&rights)?;
        let attributes = json!({
            "group": "rbac.authorization.k8s.io", "resource": "clusterroles", "verb": "escalate",
        });
        let user = "system:serviceaccount:kubectl-mc-system:mc-sidecar";
        eventually("the right is there", SOON, || Ok(host()?.may(user, &[], &attributes)?.then_some(())))?;
        Ok(given)
    }

    /// Whether a kube-apiserver enforces the policy.
    fn is_in_force() -> Result<bool> {
        let probe = format!("{KEEPER}-probe");
        let path = format!("{RBAC}/clusterroles/{probe}");
        let tried = Thief(host()?, None).dry_run("PATCH", &path, &role(&probe, &json!([])))?;
        Ok(tried.status == 403)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let admission = "/apis/admissionregistration.k8s.io/v1";
        let Ok(host) = host() else { return };
        for path in [
            format!("{RBAC}/clusterrolebindings/{KEEPER}"),
            format!("{RBAC}/clusterroles/{KEEPER}"),
            format!("{admission}/validatingadmissionpolicybindings/{KEEPER}"),
            format!("{admission}/validatingadmissionpolicies/{KEEPER}"),
        ] {
            let _ = host.request("DELETE", &path, "", "");
        }
        // Otherwise the next test would be refused by this policy instead of the one that it tests.
        let _ =
            eventually(
                "the policy is no longer in force",
                SOON,
                || Ok((!Self::is_in_force()?).then_some(())),
            );
    }
}

/// A client with this token that only sends dry runs. No other test changes the sidecar's rights in
/// the meantime.
struct Thief(Api, #[expect(dead_code, reason = "the turn ends with it")] Option<Turn>);

struct Tried {
    what: String,
    status: u16,
    text: String,
}

impl Thief {
    fn dry_run(&self, method: &str, path: &str, object: &Value) -> Result<Tried> {
        let (parameters, content) = match method {
            "PATCH" => ("?fieldManager=e2e-thief&force=true&dryRun=All", "application/apply-patch+yaml"),
            _ => ("?dryRun=All", "application/json"),
        };
        let body = if object.is_null() { String::new() } else { object.to_string() };
        let answer = self.0.request(method, &format!("{path}{parameters}"), content, &body)?;
        Ok(Tried {
            what: format!("{method} {path} {object}"),
            status: answer.status(),
            text: answer.text().to_owned(),
        })
    }
}

impl Tried {
    fn refused(&self, words: &str) -> Result<()> {
        let Self { what, status, text } = self;
        // The JSON text has escaped quotes.
        let said = text.replace("\\\"", "\"");
        ensure!(*status == 403 && said.contains(words), "{what}: {status} {text}");
        Ok(())
    }

    fn allowed(&self) -> Result<()> {
        let Self { what, status, text } = self;
        ensure!((200..300).contains(status), "{what}: {status} {text}");
        Ok(())
    }
}

fn thief() -> Result<Thief> {
    let turn = Turn::take("rights-of-the-sidecar")?;
    let path = "/api/v1/namespaces/kubectl-mc-system/serviceaccounts/mc-sidecar/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = host()?.create(path, &request)?;
    let token = answer["status"]["token"].as_str().context("no token")?;
    let thief = Thief(Api::bearer(&bed()?.host, token)?, Some(turn));
    // A kube-apiserver takes a moment until it enforces a new policy.
    eventually("the host's policy is in force", SOON, || {
        let tried = thief.dry_run(
            "PATCH",
            &format!("{RBAC}/clusterroles/mine"),
            &role("mine", &enter(&json!(["m1"]))),
        )?;
        Ok((tried.status == 403).then_some(()))
    })?;
    Ok(thief)
}

/// A rule for these clusters; null means all clusters.
fn enter(clusters: &Value) -> Value {
    let mut rule =
        json!({"apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters/proxy"], "verbs": ["get"]});
    if !clusters.is_null() {
        rule["resourceNames"] = clusters.clone();
    }
    json!([rule])
}

fn role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules,
    })
}

fn binding(name: &str, role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "mallory"}],
    })
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const FLEET: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1";
const OURS: &str = "kubectl-mc-access:e2e-thief";
const KEEPER: &str = "kubectl-mc-karmada-keeper";
