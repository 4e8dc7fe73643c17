//! The users of a member's proxy on the host are exactly those whom the sidecar may impersonate on the
//! member. The sidecar's controller manages the rights of this member.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use harness::bed::host;
use harness::caller::Caller;
use harness::http1::member_path;
use harness::managed::{Managed, condition, managed};
use harness::own_sidecar::OwnSidecar;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::identity::quiet::on_demand_access::welcome;

#[test]
fn user_right_follows_the_host_binding_within_five_seconds() -> Result<()> {
    let member = managed()?;
    let user = "e2e-unified-jane";
    ensure!(!member.may_be_user(user)?);
    bind("unified-jane", &rule(&["clusters/proxy"], &["get"], &[member.name]), &[&named("User", user)])?;
    within("the right comes", FIVE_SECONDS, || member.may_be_user(user))?;
    unbind("unified-jane")?;
    within("the right goes", FIVE_SECONDS, || Ok(!member.may_be_user(user)?))
}

#[test]
fn role_change_counts_like_a_binding_change() -> Result<()> {
    let member = managed()?;
    let user = "e2e-unified-rita";
    bind("unified-rita", &rule(&["clusters/proxy"], &["get"], &["another"]), &[&named("User", user)])?;
    bind("unified-rita-sentinel", &rule(&["*"], &["get"], &[]), &[&named("User", "e2e-unified-sentinel-1")])?;
    within("a later rule is known", SOON, || member.may_be_user("e2e-unified-sentinel-1"))?;
    ensure!(!member.may_be_user(user)?, "the role names another cluster");
    role("unified-rita", &rule(&["clusters/proxy"], &["get"], &["another", member.name]))?;
    within("the right comes", FIVE_SECONDS, || member.may_be_user(user))?;
    role("unified-rita", &rule(&["clusters/proxy"], &["get"], &["another"]))?;
    within("the right goes", FIVE_SECONDS, || Ok(!member.may_be_user(user)?))
}

/// For each rule the member agrees with the host: the verb counts, names count in every branch, and `*/proxy`
/// counts, while `clusters/*` and a name `*` do not.
#[test]
fn rules_count_exactly_as_in_the_hosts_authorizer() -> Result<()> {
    let member = managed()?;
    let host = host()?;
    let rules = [
        (rule(&["clusters/proxy"], &["get"], &[]), true),
        (rule(&["*/proxy"], &["get"], &[]), true),
        (rule(&["*"], &["*"], &[]), true),
        (rule(&["clusters/proxy"], &["delete"], &["a1"]), true),
        (rule(&["clusters/*"], &["*"], &[]), false),
        (rule(&["*/*"], &["*"], &[]), false),
        (rule(&["clusters"], &["*"], &[]), false),
        (rule(&["clusters/proxy"], &["list", "watch"], &[]), false),
        (rule(&["clusters/proxy"], &["*"], &["*"]), false),
        (rule(&["*"], &["*"], &["another"]), false),
        (
            json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["*"]}),
            false,
        ),
        (json!({"apiGroups": ["*"], "resources": ["proxying/proxy"], "verbs": ["*"]}), false),
    ];
    for (number, (rule, _)) in rules.iter().enumerate() {
        bind(
            &format!("unified-rule-{number}"),
            rule,
            &[&named("User", &format!("e2e-unified-rule-{number}"))],
        )?;
    }
    bind("unified-rule-last", &rules[0].0, &[&named("User", "e2e-unified-sentinel-2")])?;
    within("the last rule is known", SOON, || member.may_be_user("e2e-unified-sentinel-2"))?;
    for (number, (rule, lets_in)) in rules.iter().enumerate() {
        let user = format!("e2e-unified-rule-{number}");
        let mut on_the_host = false;
        for verb in ["get", "create", "update", "patch", "delete"] {
            let attributes = json!({
                "group": "proxy.kubectl-mc.dev", "resource": "clusters", "subresource": "proxy",
                "name": member.name, "verb": verb,
            });
            on_the_host |= host.may(&user, &[], &attributes)?;
        }
        ensure!(on_the_host == *lets_in, "the host says {on_the_host} for {rule}");
        ensure!(member.may_be_user(&user)? == *lets_in, "the member does not say {lets_in} for {rule}");
    }
    Ok(())
}

#[test]
fn service_account_groups_cover_whole_namespaces() -> Result<()> {
    let member = managed()?;
    for namespace in ["e2e-unified-one", "e2e-unified-two", "e2e-unified-all"] {
        make_namespace(member, namespace)?;
    }
    bind(
        "unified-accounts",
        &rule(&["clusters/proxy"], &["get"], &[member.name]),
        &[
            &json!({"kind": "ServiceAccount", "name": "robot", "namespace": "e2e-unified-one"}),
            // A user with the name of a service account counts as that account.
            &named("User", "system:serviceaccount:e2e-unified-two:cat"),
            &named("Group", "system:serviceaccounts:e2e-unified-all"),
        ],
    )?;
    within("the accounts are known", FIVE_SECONDS, || {
        Ok(member.may_be_account("e2e-unified-one", "robot")?
            && member.may_be_account("e2e-unified-two", "cat")?
            && member.may_be_account("e2e-unified-all", "anybody")?)
    })?;
    // If it went by name only, the rule would cover every account called robot.
    ensure!(!member.may_be_account("e2e-unified-two", "robot")?);
    ensure!(!member.may_be_account("default", "robot")?);
    ensure!(!member.may_be_account("e2e-unified-one", "anybody")?);
    unbind("unified-accounts")?;
    within("the roles are deleted", FIVE_SECONDS, || {
        let ours = "fieldSelector=metadata.name%3Dkubectl-mc-impersonator";
        let roles = member.api.get(&format!("{RBAC}/roles?{ours}"))?.to_string();
        let bindings = member.api.get(&format!("{RBAC}/rolebindings?{ours}"))?.to_string();
        Ok(!roles.contains("e2e-unified-one") && !bindings.contains("e2e-unified-one"))
    })
}

#[test]
fn missing_namespace_on_the_member_is_reported_and_retried() -> Result<()> {
    let member = managed()?;
    let account = json!({"kind": "ServiceAccount", "name": "robot", "namespace": "e2e-unified-late"});
    bind("unified-late", &rule(&["clusters/proxy"], &["get"], &[member.name]), &[&account])?;
    within("the condition says it", SOON, || {
        let condition = condition()?;
        let message = condition["message"].as_str().unwrap_or_default().to_owned();
        Ok(condition["status"] == "True" && message.contains("e2e-unified-late"))
    })?;
    make_namespace(member, "e2e-unified-late")?;
    within("the account is known", LATEST_RETRY, || member.may_be_account("e2e-unified-late", "robot"))
}

/// The subjects of Kubernetes' own bootstrap policy, and further components of a host. The group of
/// all users is excluded as well; bound here, it would give every user access to the member that
/// all tests use.
#[test]
fn administrators_and_control_plane_are_excluded_with_a_note() -> Result<()> {
    let member = managed()?;
    let mut subjects = bootstrap_subjects()?;
    ensure!(subjects.len() > 20, "a kube-apiserver binds more: {subjects:?}");
    subjects.extend([
        named("Group", "kubeadm:cluster-admins"),
        named("Group", "system:bootstrappers:kubeadm:default-node-token"),
        named("User", "system:bootstrap:abcdef"),
        named("User", "system:node:n1"),
        named("User", "kubectl-mc:anybody"),
        json!({"kind": "ServiceAccount", "name": "kubectl-mc-manager", "namespace": "kubectl-mc-system"}),
    ]);
    let plain = named("Group", "e2e-unified-plain");
    let bound: Vec<_> = subjects.iter().chain([&plain]).collect();
    bind("unified-privileged", &rule(&["*"], &["*"], &[]), &bound)?;
    within("the plain one is known", SOON, || member.may_be_in("e2e-unified-plain"))?;
    ensure!(member.may_be_in("kubectl-mc:host-admins")?);
    for subject in &subjects {
        let name = subject["name"].as_str().unwrap_or_default();
        let listed = match (subject["kind"].as_str(), subject["namespace"].as_str()) {
            (Some("Group"), _) => member.may_be_in(name)?,
            (Some("User"), _) => member.may_be_user(name)?,
            (_, Some(namespace)) => member.may_be_account(namespace, name)?,
            _ => anyhow::bail!("{subject}"),
        };
        ensure!(!listed, "{subject}");
    }
    within("what was left out is said", SOON, || {
        let message = condition()?["message"].as_str().unwrap_or_default().to_owned();
        Ok(message.contains("left out: ") && message.contains("system:masters"))
    })
}

/// The subjects of a kube-apiserver's own bindings, except for those that stand for every user or
/// that monitor.
fn bootstrap_subjects() -> Result<Vec<Value>> {
    let mut subjects = Vec::new();
    for kind in ["clusterrolebindings", "rolebindings"] {
        let label = "labelSelector=kubernetes.io/bootstrapping%3Drbac-defaults";
        let bindings = host()?.get(&format!("{RBAC}/{kind}?{label}"))?;
        for binding in bindings["items"].as_array().into_iter().flatten() {
            subjects.extend(binding["subjects"].as_array().cloned().unwrap_or_default());
        }
    }
    let everybody =
        ["system:authenticated", "system:unauthenticated", "system:serviceaccounts", "system:monitoring"];
    subjects.retain(|subject| subject["name"].as_str().is_some_and(|name| !everybody.contains(&name)));
    Ok(subjects)
}

/// A new user is tested next to a user whom the member's administrators refuse and who uses many
/// certificates.
#[test]
fn refused_user_delays_no_new_user() -> Result<()> {
    let member = managed()?;
    let group = "e2e-unified-newcomers";
    welcome(member, "unified-newcomers", &named("Group", group))?;
    within("the group is known", FIVE_SECONDS, || member.may_be_in(group))?;
    let refused = Refused::named("e2e-unified-refused")?;
    let own = OwnSidecar::start()?;
    let read = |caller: &Caller| -> Result<u16> {
        let path = member_path(member.name, "/api/v1/namespaces/e2e-unified-newcomers/configmaps");
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        Ok(own.endpoint(caller.certificate.as_deref())?.exchange(head.as_bytes())?.status())
    };
    let statuses = std::thread::scope(|scope| {
        let crowd: Vec<_> = (0..40)
            .map(|_| scope.spawn(|| read(&Caller::certificate("e2e-unified-refused", &[group])?)))
            .collect();
        let newcomers: Vec<_> = (0..5)
            .map(|number| {
                let name = format!("e2e-unified-newcomer-{number}");
                scope.spawn(move || read(&Caller::certificate(&name, &[group])?))
            })
            .collect();
        let all = |asked: Vec<std::thread::ScopedJoinHandle<'_, Result<u16>>>| -> Result<Vec<u16>> {
            asked.into_iter().map(|one| one.join().map_err(|_| anyhow!("it panicked"))?).collect()
        };
        Ok::<_, anyhow::Error>([all(crowd)?, all(newcomers)?])
    })?;
    drop(refused);
    let [crowd, newcomers] = statuses;
    ensure!(newcomers.iter().all(|status| *status == 200), "{newcomers:?} beside {crowd:?}");
    ensure!(crowd.iter().all(|status| *status == 403), "{crowd:?}");
    Ok(())
}

/// A user whom the member's administrators refuse, until this is dropped.
struct Refused;

impl Refused {
    fn named(user: &str) -> Result<Self> {
        Self::set(user)?;
        Ok(Self)
    }

    fn set(users: &str) -> Result<()> {
        let map = "/api/v1/namespaces/kubectl-mc-system/configmaps/kubectl-mc-manager";
        managed()?.api.merge(map, &json!({"data": {"refused-users": users}})).map(drop)
    }
}

impl Drop for Refused {
    fn drop(&mut self) {
        // If this fails, another test fails with a clear reason.
        let _ = Self::set("");
    }
}

#[test]
fn rights_added_on_the_member_are_removed_at_resync() -> Result<()> {
    let member = managed()?;
    let added = json!([{"op": "add", "path": "/rules/-", "value": {
        "apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["e2e-unified-drift"],
    }}]);
    let path = format!("{RBAC}/clusterroles/kubectl-mc-impersonator");
    member.api.patch(&path, &added)?;
    // The controller syncs again every few minutes, and whenever the MemberCluster changes.
    label("e2e-unified-drift", "now")?;
    within("the right is gone", FIVE_SECONDS, || {
        Ok(!member.api.get(&path)?.to_string().contains("e2e-unified-drift"))
    })
}

#[test]
fn subjects_of_the_member_cluster_count_like_bound_ones() -> Result<()> {
    let member = managed()?;
    let path = format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{}", member.name);
    let host = host()?;
    let subjects = json!([named("User", "e2e-unified-spec"), named("Group", "system:masters")]);
    host.merge(&path, &json!({"spec": {"impersonation": {"subjects": subjects}}}))?;
    within("the user is known", FIVE_SECONDS, || member.may_be_user("e2e-unified-spec"))?;
    ensure!(!member.may_be_in("system:masters")?);
    host.merge(&path, &json!({"spec": {"impersonation": {"subjects": null}}}))?;
    within("the user is not any more", FIVE_SECONDS, || Ok(!member.may_be_user("e2e-unified-spec")?))
}

/// A rule of the proxy's group.
pub(crate) fn rule(resources: &[&str], verbs: &[&str], names: &[&str]) -> Value {
    let mut rule = json!({"apiGroups": ["proxy.kubectl-mc.dev"], "resources": resources, "verbs": verbs});
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

pub(crate) fn named(kind: &str, name: &str) -> Value {
    json!({"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"})
}

fn role(name: &str, rule: &Value) -> Result<()> {
    let name = format!("e2e-{name}");
    host()?.apply(
        &format!("{RBAC}/clusterroles/{name}"),
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [rule],
        }),
    )?;
    Ok(())
}

/// Creates a role with one rule on the host, and binds it to these subjects.
pub(crate) fn bind(name: &str, rule: &Value, subjects: &[&Value]) -> Result<()> {
    role(name, rule)?;
    let name = format!("e2e-{name}");
    host()?.apply(
        &format!("{RBAC}/clusterrolebindings/{name}"),
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name}, "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        }),
    )?;
    Ok(())
}

pub(crate) fn unbind(name: &str) -> Result<()> {
    host()?.delete(&format!("{RBAC}/clusterrolebindings/e2e-{name}"))?;
    Ok(())
}

pub(crate) fn make_namespace(member: &Managed, name: &str) -> Result<()> {
    member.api.apply(
        &format!("/api/v1/namespaces/{name}"),
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
    )?;
    Ok(())
}

/// Sets a label on the MemberCluster.
fn label(key: &str, value: &str) -> Result<()> {
    let path = format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{}", managed()?.name);
    host()?.merge(&path, &json!({"metadata": {"labels": {key: value}}})).map(drop)
}

/// Waits until `so` is true, and fails after `time`.
pub(crate) fn within(what: &str, time: Duration, so: impl Fn() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    eventually(what, time, || Ok(so()?.then_some(())))?;
    ensure!(begun.elapsed() <= time, "{what}: only after {:?}", begun.elapsed());
    Ok(())
}

pub(crate) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
pub(crate) const FIVE_SECONDS: Duration = Duration::from_secs(5);
/// An incomplete sync is retried at the latest after this time: a minute with jitter.
const LATEST_RETRY: Duration = Duration::from_secs(95);
