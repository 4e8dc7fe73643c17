//! ClusterAccess: the leader maintains a grant on the members that it selects, for roles that the
//! members list.

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::caller::Caller;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::joined::Joined;
use crate::plugin;

#[test]
fn grant_by_label_follows_the_members_labels() -> Result<()> {
    let joined = listing("e2e-access-label", "view")?;
    let jane = Caller::certificate("e2e-access-label-jane", &[])?;
    label(&joined, Some("label"))?;
    let grant = ["view", "--user=e2e-access-label-jane", "--cluster-selector=e2e-access=label"];
    let said = access(&joined, "grant").ok(&grant)?;
    let kept = Access::of(&said)?;
    ensure!(said.contains("has view on 1/1 clusters"), "{said}");
    eventually("jane reads", SOON, || reads(&jane, joined.name).map(Some))?;
    // The role only reads, so the host refuses everything else.
    let cluster = format!("--cluster={}", joined.name);
    plugin(&jane)?.run(&[&cluster, "create", "configmap", "x", "-n", "default"])?.failure(&["orbidden"])?;
    let again = access(&joined, "grant").ok(&grant)?;
    ensure!(again.contains(&format!("{} unchanged", kept.name)), "{again}");

    label(&joined, None)?;
    until_bound(&joined.member, "view", &[])?;
    eventually("jane is shut out", SOON, || Ok(reads(&jane, joined.name).is_err().then_some(())))?;
    label(&joined, Some("label"))?;
    until_bound(&joined.member, "view", &["e2e-access-label-jane"])?;
    eventually("jane reads again", SOON, || reads(&jane, joined.name).map(Some))?;

    let said = access(&joined, "revoke").ok(&grant)?;
    ensure!(said.contains(&format!("{} deleted", kept.name)), "{said}");
    until_bound(&joined.member, "view", &[])?;
    let nothing = access(&joined, "revoke").run(&grant)?;
    ensure!(nothing.code == 0 && nothing.stderr.contains("nothing to revoke"), "{nothing:?}");
    Ok(())
}

#[test]
fn grants_of_one_role_share_a_binding() -> Result<()> {
    let joined = listing("e2e-access-shared", "view")?;
    let named = |user: &str| json!([{"apiGroup": RBAC_GROUP, "kind": "User", "name": user}]);
    let spec =
        |user: &str| json!({"clusters": [joined.name], "subjects": named(user), "roleRef": {"name": "view"}});
    let _one = Access::write(&joined, "e2e-access-shared-one", &spec("e2e-access-one"))?;
    let two = Access::write(&joined, "e2e-access-shared-two", &spec("e2e-access-two"))?;
    until_bound(&joined.member, "view", &["e2e-access-one", "e2e-access-two"])?;
    drop(two);
    until_bound(&joined.member, "view", &["e2e-access-one"])
}

#[test]
fn access_ends_at_its_expiration() -> Result<()> {
    let joined = listing("e2e-access-end", "view")?;
    let jane = Caller::certificate("e2e-access-end-jane", &[])?;
    let end = Timestamp::from_second((Timestamp::now() + SignedDuration::from_secs(10)).as_second())?;
    let access = Access::write(
        &joined,
        "e2e-access-end",
        &json!({
            "clusters": [joined.name], "roleRef": {"name": "view"}, "expirationTimestamp": end.to_string(),
            "subjects": [{"apiGroup": RBAC_GROUP, "kind": "User", "name": "e2e-access-end-jane"}],
        }),
    )?;
    until_bound(&joined.member, "view", &["e2e-access-end-jane"])?;
    until_bound(&joined.member, "view", &[])?;
    ensure!(Timestamp::now() >= end, "it ended before its time");
    eventually("jane is shut out", SOON, || Ok(reads(&jane, joined.name).is_err().then_some(())))?;
    eventually("the list says so", SOON, || {
        let list = joined.admin.ok(&["access", "list", "-C", joined.name])?;
        let row = list.lines().find(|line| line.starts_with(&access.name)).context("it is not listed")?;
        Ok(row.contains("expired").then_some(()))
    })
}

#[test]
fn role_that_the_member_does_not_list_is_not_bound() -> Result<()> {
    let joined = listing("e2e-access-unlisted", "view")?;
    let grant = ["edit", "--user=e2e-access-unlisted-jane", "-C", joined.name, "--for=1h"];
    let granted = access(&joined, "grant").run(&grant)?;
    let kept = Access::of(&granted.text())?;
    ensure!(
        granted.code == 0 && granted.stderr.contains(&format!("{}: RoleNotBindable", joined.name)),
        "{granted:?}"
    );
    let list = joined.admin.ok(&["access", "list", "-C", joined.name])?;
    ensure!(list.contains("0/1") && list.contains("59m"), "{list}");
    ensure!(bound(&joined.member, "edit")?.is_empty(), "edit is bound");

    // The member's administrators list another role, and remove it again.
    join(&joined, "view,edit")?;
    touch(&kept)?;
    until_bound(&joined.member, "edit", &["e2e-access-unlisted-jane"])?;
    let said = join(&joined, "view")?;
    ensure!(said.contains("kubectl-mc-bound:edit deleted"), "{said}");
    ensure!(bound(&joined.member, "edit")?.is_empty(), "edit is still bound");
    // A join without the flag keeps the member's list.
    joined.admin.ok(&["join", joined.name, "--member-context=member"])?;
    let map = joined.member.get("/api/v1/namespaces/kubectl-mc-system/configmaps/kubectl-mc-manager")?;
    ensure!(map["data"]["bindable-roles"] == "view\n" && map["data"]["users"] == "Listed", "{map}");
    let manager = joined.member.get(&format!("{RBAC}/clusterroles/kubectl-mc-manager"))?;
    ensure!(manager["rules"].to_string().contains("kubectl-mc-bound:view"), "{manager}");
    Ok(())
}

#[test]
fn stolen_manager_binds_only_listed_roles_to_ordinary_subjects() -> Result<()> {
    let joined = listing("e2e-access-thief", "view")?;
    let thief = Api::bearer(joined.alone.cluster, &joined.fleet.token("e2e-access-thief.manager")?)?;
    let user = |name: &str| json!({"apiGroup": RBAC_GROUP, "kind": "User", "name": name});
    let group = |name: &str| json!({"apiGroup": RBAC_GROUP, "kind": "Group", "name": name});
    let account = |namespace: &str| json!({"kind": "ServiceAccount", "name": "x", "namespace": namespace});
    let jane = user("e2e-access-jane");
    // A kube-apiserver takes a moment to enforce a changed policy.
    eventually("view may be bound", SOON, || {
        let answer = try_binding(&thief, &binding("view", "view", &[&jane, &group("dev"), &account("ci")]))?;
        ensure!((200..300).contains(&answer.0), "{answer:?}");
        Ok(Some(()))
    })?;
    let mut owned = binding("view", "view", &[&jane]);
    owned["metadata"]["finalizers"] = json!(["example.com/stay"]);
    let mut labelled = binding("view", "view", &[&jane]);
    labelled["metadata"]["labels"]["e2e"] = "access".into();
    for (object, words) in [
        (binding("edit", "edit", &[&jane]), "cannot patch"),
        (binding("view", "edit", &[&jane]), "grant RBAC permissions not currently held"),
        (binding("view", "view", &[&user("system:kube-scheduler")]), "a user of the control plane"),
        (binding("view", "view", &[&user("system:anonymous")]), "system:anonymous"),
        (binding("view", "view", &[&jane, &group("system:masters")]), "groups must be named"),
        (binding("view", "view", &[&group("system:authenticated")]), "groups must be named"),
        (binding("view", "view", &[&group("kubectl-mc:host-admins")]), "kubectl-mc:host-admins is bound"),
        (binding("view", "view", &[&account("kube-system")]), "service accounts of the control plane"),
        (binding("view", "view", &[&account("kubectl-mc-system")]), "service accounts of the control plane"),
        (owned, "no finalizers and no owners"),
        (labelled, "no other labels"),
    ] {
        let (status, text) = try_binding(&thief, &object)?;
        ensure!(status == 403 && text.contains(words), "{object}: {status} {text}");
    }
    for path in [
        format!("{RBAC}/clusterrolebindings/cluster-admin"),
        format!("{RBAC}/clusterrolebindings/kubectl-mc-bound:edit"),
        format!("{RBAC}/namespaces/default/rolebindings/theirs"),
    ] {
        let answer = thief.request("DELETE", &format!("{path}?dryRun=All"), "", "")?;
        ensure!(answer.status() == 403, "{path}: {} {}", answer.status(), answer.text());
    }
    Ok(())
}

#[test]
fn deleted_binding_is_restored() -> Result<()> {
    let joined = listing("e2e-access-drift", "view")?;
    let access = Access::write(
        &joined,
        "e2e-access-drift",
        &json!({
            "clusters": [joined.name], "roleRef": {"name": "view"}, "namespaces": ["default"],
            "subjects": [{"apiGroup": RBAC_GROUP, "kind": "User", "name": "e2e-access-drift-jane"}],
        }),
    )?;
    let path = format!("{RBAC}/namespaces/default/rolebindings/kubectl-mc-bound:view");
    let is_back = || {
        let binding = joined.member.get(&path)?;
        Ok((binding["subjects"][0]["name"] == "e2e-access-drift-jane").then_some(()))
    };
    eventually("it is bound in the namespace", SOON, is_back)?;
    joined.member.delete(&path)?;
    touch(&access)?;
    eventually("it is bound again", SOON, is_back)
}

/// A joined member that lists these roles.
fn listing(name: &'static str, roles: &str) -> Result<Joined> {
    let joined = Joined::under(name)?;
    join(&joined, roles)?;
    Ok(joined)
}

fn join(joined: &Joined, roles: &str) -> Result<String> {
    let roles = format!("--bindable-roles={roles}");
    joined.admin.ok(&["join", joined.name, "--member-context=member", &roles])
}

/// `kubectl mc access` as the administrator of both sides.
fn access(joined: &Joined, verb: &str) -> Tool {
    joined.admin.clone().with(&["access", verb])
}

/// Sets the label that the selectors of these tests use, or removes it.
fn label(joined: &Joined, value: Option<&str>) -> Result<()> {
    let labels = json!({"metadata": {"labels": {"e2e-access": value}}});
    joined.fleet.host.merge(&joined.path(), &labels).map(drop)
}

/// A ClusterAccess that is deleted on drop.
struct Access {
    name: String,
    host: Api,
}

impl Access {
    /// The ClusterAccess that the plugin's output shows.
    fn of(said: &str) -> Result<Self> {
        let name = said
            .lines()
            .find_map(|line| line.strip_prefix("host: clusteraccess.fleet.kubectl-mc.dev/"))
            .and_then(|rest| rest.split(' ').next());
        let name = name.with_context(|| format!("no ClusterAccess is written: {said}"))?;
        Ok(Self { name: name.to_owned(), host: harness::bed::host()? })
    }

    fn write(joined: &Joined, name: &str, spec: &Value) -> Result<Self> {
        let object = json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "ClusterAccess", "metadata": {"name": name},
            "spec": spec,
        });
        joined.fleet.host.apply(&format!("{ACCESSES}/{name}"), &object)?;
        Ok(Self { name: name.to_owned(), host: joined.fleet.host.clone() })
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        // The test may have deleted it.
        let _ = self.host.delete(&format!("{ACCESSES}/{}", self.name));
    }
}

/// Changes an annotation, so that the leader syncs the ClusterAccess again.
fn touch(access: &Access) -> Result<()> {
    let note = json!({"metadata": {"annotations": {"e2e": Timestamp::now().to_string()}}});
    access.host.merge(&format!("{ACCESSES}/{}", access.name), &note).map(drop)
}

/// The names of the subjects with the role in all namespaces of the member, by ClusterAccesses.
fn bound(member: &Api, role: &str) -> Result<Vec<String>> {
    let path = format!("{RBAC}/clusterrolebindings/kubectl-mc-bound:{role}");
    let answer = member.request("GET", &path, "", "")?;
    if answer.status() == 404 {
        return Ok(Vec::new());
    }
    let binding: Value = serde_json::from_slice(&answer.body)?;
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    let mut names: Vec<_> =
        subjects.filter_map(|subject| subject["name"].as_str()).map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

fn until_bound(member: &Api, role: &str, expected: &[&str]) -> Result<()> {
    eventually(&format!("{role} is bound to {expected:?}"), SOON, || {
        let names = bound(member, role)?;
        ensure!(names == expected, "it is bound to {names:?}");
        Ok(Some(()))
    })
}

fn binding(name: &str, role: &str, subjects: &[&Value]) -> Value {
    json!({
        "apiVersion": format!("{RBAC_GROUP}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {
            "name": format!("kubectl-mc-bound:{name}"),
            "labels": {"app.kubernetes.io/managed-by": "kubectl-mc", "fleet.kubectl-mc.dev/access": "true"},
        },
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role}, "subjects": subjects,
    })
}

/// The status and the text of the answer to a dry run.
fn try_binding(thief: &Api, binding: &Value) -> Result<(u16, String)> {
    let name = binding["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{RBAC}/clusterrolebindings/{name}?fieldManager=thief&force=true&dryRun=All");
    let answer = thief.request("PATCH", &path, "application/apply-patch+yaml", &binding.to_string())?;
    Ok((answer.status(), answer.text()))
}

fn reads(caller: &Caller, cluster: &str) -> Result<String> {
    let cluster = format!("--cluster={cluster}");
    plugin(caller)?.ok(&[&cluster, "get", "configmaps", "-n", "default", "-o", "name"])
}

const ACCESSES: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/clusteraccesses";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
