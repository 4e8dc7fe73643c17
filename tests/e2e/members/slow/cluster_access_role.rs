//! ClusterAccess of a Role: the leader binds it only in the namespaces for which the member lists it.

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::caller::Caller;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::members::joined::Joined;
use crate::plugin;

#[test]
fn role_is_bound_in_its_namespace_until_it_is_revoked() -> Result<()> {
    let joined = listing("e2e-access-role", "default/e2e-role")?;
    let jane = Caller::certificate("e2e-access-role-jane", &[])?;
    let grant =
        ["role/e2e-role", "--user=e2e-access-role-jane", "-n", "default", "-C", joined.name, "--for=1h"];
    let said = access(&joined, "grant").ok(&grant)?;
    ensure!(said.contains("has role/e2e-role on 1/1 clusters"), "{said}");
    eventually("jane reads", SOON, || reads(&jane, joined.name, "default").map(Some))?;
    ensure!(reads(&jane, joined.name, "kube-system").is_err(), "she reads in another namespace");
    let list = joined.admin.ok(&["access", "list", "-C", joined.name])?;
    let row = list.lines().find(|line| line.contains("e2e-access-role-jane")).context("it is not listed")?;
    ensure!(row.contains(" role/e2e-role ") && row.contains(" default "), "{row}");

    access(&joined, "revoke").ok(&grant)?;
    until_bound(&joined.member, "default", &[])?;
    eventually("jane is shut out", SOON, || Ok(reads(&jane, joined.name, "default").is_err().then_some(())))
}

#[test]
fn deleted_binding_of_a_role_is_restored() -> Result<()> {
    let joined = listing("e2e-access-role-drift", "default/e2e-role")?;
    let _access = Access::write(&joined, "e2e-access-role-drift", &["default"])?;
    until_bound(&joined.member, "default", &["e2e-access-role-drift"])?;
    joined.member.delete(&binding_path("default"))?;
    touch(&joined, "e2e-access-role-drift")?;
    until_bound(&joined.member, "default", &["e2e-access-role-drift"])
}

#[test]
fn role_is_bound_only_where_the_member_lists_it() -> Result<()> {
    let joined = listing("e2e-access-role-place", "default/e2e-role")?;
    let access = Access::write(&joined, "e2e-access-role-place", &["default", "kube-public"])?;
    until_bound(&joined.member, "default", &["e2e-access-role-place"])?;
    eventually("the status says where it is not", SOON, || {
        let object = joined.fleet.host.get(&access.path())?;
        let cluster = &object["status"]["clusters"][0];
        let message = cluster["message"].as_str().unwrap_or_default();
        Ok((cluster["reason"] == "RoleNotBindable" && message.contains("\"kube-public/e2e-role\""))
            .then_some(()))
    })?;
    ensure!(bound(&joined.member, "kube-public")?.is_empty(), "it is bound in kube-public");
    // A ClusterRole of the same name is not the Role.
    join(&joined, "e2e-role")?;
    ensure!(bound(&joined.member, "default")?.is_empty(), "it is still bound");
    touch(&joined, "e2e-access-role-place")?;
    eventually("the status says that it is nowhere", SOON, || {
        let object = joined.fleet.host.get(&access.path())?;
        let message = object["status"]["clusters"][0]["message"].as_str().unwrap_or_default();
        Ok(message.contains("Role \"default/e2e-role\", \"kube-public/e2e-role\"").then_some(()))
    })?;
    ensure!(bound(&joined.member, "default")?.is_empty(), "it is bound again");
    Ok(())
}

#[test]
fn role_without_namespaces_is_refused_at_the_host() -> Result<()> {
    let joined = Joined::under("e2e-access-role-none")?;
    let mut access = object(&joined, "e2e-access-role-none", &["default"]);
    access["spec"].as_object_mut().context("no spec")?.remove("namespaces");
    let path = format!("{ACCESSES}/e2e-access-role-none?fieldManager=e2e&dryRun=All");
    let answer =
        joined.fleet.host.request("PATCH", &path, "application/apply-patch+yaml", &access.to_string())?;
    ensure!(answer.status() == 422 && answer.text().contains("a Role needs namespaces"), "{}", answer.text());
    Ok(())
}

#[test]
fn stolen_manager_binds_a_role_only_where_it_is_listed() -> Result<()> {
    let joined = listing("e2e-access-role-thief", "default/e2e-role")?;
    let thief = Api::bearer(joined.alone.cluster, &joined.fleet.token("e2e-access-role-thief.manager")?)?;
    let attempt =
        |namespace: &str, name: &str, kind: &str, role: &str, user: &str| -> Result<(u16, String)> {
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": name, "labels": {"fleet.kubectl-mc.dev/access": "true"}},
                "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": role},
                "subjects": [{"apiGroup": RBAC_GROUP, "kind": "User", "name": user}],
            });
            let path =
                format!("{RBAC}/namespaces/{namespace}/rolebindings/{name}?fieldManager=thief&dryRun=All");
            let answer =
                thief.request("PATCH", &path, "application/apply-patch+yaml", &binding.to_string())?;
            Ok((answer.status(), answer.text()))
        };
    // A kube-apiserver takes a moment to enforce a changed policy.
    eventually("the Role may be bound", SOON, || {
        let answer = attempt("default", BINDING, "Role", "e2e-role", "jane")?;
        ensure!((200..300).contains(&answer.0), "{answer:?}");
        Ok(Some(()))
    })?;
    for (namespace, name, kind, role, user, words) in [
        ("kube-public", BINDING, "Role", "e2e-role", "jane", "administrators list"),
        ("kubectl-mc-system", BINDING, "Role", "e2e-role", "jane", "administrators list"),
        ("default", BINDING, "ClusterRole", "view", "jane", "grant RBAC permissions not currently held"),
        ("default", BINDING, "Role", "kubectl-mc-impersonator", "jane", "binds the ClusterRole ROLE"),
        ("default", "kubectl-mc-bound:e2e-role", "Role", "e2e-role", "jane", "cannot patch"),
        ("default", BINDING, "Role", "e2e-role", "system:kube-scheduler", "a user of the control plane"),
    ] {
        let (status, text) = attempt(namespace, name, kind, role, user)?;
        ensure!(
            status == 403 && text.contains(words),
            "{namespace} {name} {kind} {role} {user}: {status} {text}"
        );
    }
    Ok(())
}

/// The grant names the cluster, uses the caller's own rights, and does not need the member's list.
#[test]
fn role_is_granted_at_once_on_a_named_cluster() -> Result<()> {
    let joined = Joined::under("e2e-access-role-now")?;
    write_role(&joined.member)?;
    let jane = Caller::certificate("e2e-access-role-now-jane", &[])?;
    let grant = ["role/e2e-role", "--user=e2e-access-role-now-jane", "-C", joined.name];
    access(&joined, "grant").run(&grant)?.failure(&["needs the namespace", "role/e2e-role -n NAMESPACE"])?;
    let missing = [&grant[..], &["-n", "kube-public"]].concat();
    access(&joined, "grant")
        .run(&missing)?
        .failure(&["no Role \"e2e-role\" in namespace \"kube-public\""])?;
    let grant = [&grant[..], &["-n", "default"]].concat();
    access(&joined, "grant").ok(&grant)?;
    eventually("jane reads", SOON, || reads(&jane, joined.name, "default").map(Some))?;
    // The Role only reads, so the host refuses everything else.
    let cluster = format!("--cluster={}", joined.name);
    plugin(&jane)?.run(&[&cluster, "create", "configmap", "x", "-n", "default"])?.failure(&["orbidden"])?;
    let list = joined.admin.ok(&["access", "list", "-C", joined.name])?;
    ensure!(list.contains("role/e2e-role"), "{list}");
    access(&joined, "revoke").ok(&grant)?;
    let list = joined.admin.ok(&["access", "list", "-C", joined.name])?;
    ensure!(!list.contains("role/e2e-role"), "{list}");
    eventually("jane is shut out", SOON, || Ok(reads(&jane, joined.name, "default").is_err().then_some(())))
}

/// A joined member that lists these roles, and has the Role of these tests.
fn listing(name: &'static str, roles: &str) -> Result<Joined> {
    let joined = Joined::under(name)?;
    write_role(&joined.member)?;
    join(&joined, roles)?;
    Ok(joined)
}

fn write_role(member: &Api) -> Result<()> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "e2e-role", "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
    });
    member.apply(&format!("{RBAC}/namespaces/default/roles/e2e-role"), &role).map(drop)
}

fn join(joined: &Joined, roles: &str) -> Result<String> {
    let roles = format!("--bindable-roles={roles}");
    joined.admin.ok(&["join", joined.name, "--member-context=member", &roles])
}

/// `kubectl mc access` as the administrator of both sides.
fn access(joined: &Joined, verb: &str) -> Tool {
    joined.admin.clone().with(&["access", verb])
}

/// A ClusterAccess for the user of its name, deleted on drop.
struct Access {
    name: String,
    host: Api,
}

impl Access {
    fn write(joined: &Joined, name: &str, namespaces: &[&str]) -> Result<Self> {
        let access = Self { name: name.to_owned(), host: joined.fleet.host.clone() };
        access.host.apply(&access.path(), &object(joined, name, namespaces))?;
        Ok(access)
    }

    fn path(&self) -> String {
        format!("{ACCESSES}/{}", self.name)
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let _ = self.host.delete(&self.path());
    }
}

fn object(joined: &Joined, name: &str, namespaces: &[&str]) -> Value {
    json!({
        "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "ClusterAccess", "metadata": {"name": name},
        "spec": {
            "clusters": [joined.name], "roleRef": {"kind": "Role", "name": "e2e-role"}, "namespaces": namespaces,
            "subjects": [{"apiGroup": RBAC_GROUP, "kind": "User", "name": name}],
        },
    })
}

/// Changes an annotation, so that the leader syncs the ClusterAccess again.
fn touch(joined: &Joined, access: &str) -> Result<()> {
    let note = json!({"metadata": {"annotations": {"e2e": jiff::Timestamp::now().to_string()}}});
    joined.fleet.host.merge(&format!("{ACCESSES}/{access}"), &note).map(drop)
}

/// The names of the subjects with the Role in a namespace of the member, by ClusterAccesses.
fn bound(member: &Api, namespace: &str) -> Result<Vec<String>> {
    let answer = member.request("GET", &binding_path(namespace), "", "")?;
    if answer.status() == 404 {
        return Ok(Vec::new());
    }
    let binding: Value = serde_json::from_slice(&answer.body)?;
    ensure!(binding["roleRef"]["kind"] == "Role" && binding["roleRef"]["name"] == "e2e-role", "{binding}");
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    Ok(subjects.filter_map(|subject| subject["name"].as_str()).map(str::to_owned).collect())
}

fn until_bound(member: &Api, namespace: &str, expected: &[&str]) -> Result<()> {
    eventually(&format!("it is bound to {expected:?}"), SOON, || {
        let names = bound(member, namespace)?;
        ensure!(names == expected, "it is bound to {names:?}");
        Ok(Some(()))
    })
}

fn binding_path(namespace: &str) -> String {
    format!("{RBAC}/namespaces/{namespace}/rolebindings/{BINDING}")
}

fn reads(caller: &Caller, cluster: &str, namespace: &str) -> Result<String> {
    let cluster = format!("--cluster={cluster}");
    plugin(caller)?.ok(&[&cluster, "get", "configmaps", "-n", namespace, "-o", "name"])
}

const BINDING: &str = "kubectl-mc-bound-role:e2e-role";
const ACCESSES: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/clusteraccesses";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
