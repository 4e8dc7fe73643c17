//! A joined cluster is used at once, recognized at a second join, and removed without a trace.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::asking::while_asking;
use harness::bed::{SYSTEM, bed, host, member};
use harness::both_sides::{Alone, alone, both};
use harness::caller::Caller;
use harness::own_fleet::OwnFleet;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::plugin;

#[test]
fn cluster_is_joined_used_and_removed_completely() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let both = both(alone.cluster, |_| {})?;
    let join = ["join", NAME, "--member-context=member", "--labels=env=e2e"];
    let said = plugin(&both)?.ok(&join)?;
    ensure!(said.contains(&format!("host: membercluster.fleet.kubectl-mc.dev/{NAME} created")), "{said}");
    ensure!(said.contains("member: serviceaccount/kubectl-mc-manager created"), "{said}");
    follow(&both, &said)?;
    tokens_are_limited(&alone)?;
    let labelled = plugin(&both)?.ok(&["clusters", "-l", "env=e2e", "-o", "name"])?;
    ensure!(labelled.contains(NAME), "{labelled}");

    let again = plugin(&both)?.ok(&join)?;
    ensure!(!again.contains(" created"), "{again}");
    for secret in ["member", "manager"] {
        ensure!(again.contains(&format!("host: secret/{NAME}.{secret} configured")), "{again}");
        ensure!(!again.contains(&format!("secret/{NAME}.{secret} unchanged")), "it has a new token: {again}");
    }
    follow(&both, &again)?;
    let other_name = ["join", "e2e-other", "--member-context=member"];
    plugin(&both)?.run(&other_name)?.failure(&[&format!("joined already, as {NAME}")])?;
    let other_cluster = harness::both_sides::both(member("m2")?, |_| {})?;
    plugin(&other_cluster)?.run(&join)?.failure(&[&format!("the name {NAME} is taken: another cluster")])?;
    plugin(&other_cluster)?
        .run(&["unjoin", NAME, "--member-context=member", "--yes"])?
        .failure(&[&format!("is not {NAME}")])?;

    // Access through a group, so that the host records her as a user.
    let jane = Caller::certificate("e2e-joined-jane", &["e2e-joined-dev"])?;
    plugin(&both)?.ok(&["access", "grant", "view", "--group=e2e-joined-dev", "-n", "default", "-C", NAME])?;
    let cluster = format!("--cluster={NAME}");
    eventually("jane reads", SOON, || {
        plugin(&jane)?.ok(&[&cluster, "get", "configmaps", "-n", "default"]).map(Some)
    })?;

    let unjoin = ["unjoin", NAME, "--member-context=member"];
    plugin(&both)?.run(&unjoin)?.failure(&["cannot ask for confirmation", "--yes"])?;
    let dry = plugin(&both)?.ok(&[&unjoin[..], &["--dry-run"]].concat())?;
    for object in ["secret/e2e-joined.member", "configmap/e2e-joined.learnt"] {
        ensure!(dry.contains(&format!("host: {object} deleted (server dry run)")), "{object}: {dry}");
    }
    plugin(&both)?.ok(&[&unjoin[..], &["--yes"]].concat())?;
    Traces::of(&alone)?.same_as(&before)?;
    plugin(&both)?.run(&["unjoin", NAME, "--force", "--yes"])?.failure(&["is not joined"])?;
    Ok(())
}

/// `docs/how-to/join.md` warns about this.
#[test]
fn second_join_without_labels_removes_the_first_ones() -> Result<()> {
    let alone = alone()?;
    let both = both(alone.cluster, |_| {})?;
    let join = ["join", NAME, "--member-context=member"];
    let member = format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{NAME}");
    let label = |key: &str| Ok::<_, anyhow::Error>(host()?.get(&member)?["metadata"]["labels"][key].clone());
    plugin(&both)?.ok(&[&join[..], &["--labels=env=e2e"]].concat())?;
    host()?.merge(&member, &json!({"metadata": {"labels": {"by-hand": "yes"}}}))?;
    ensure!(label("env")? == "e2e");
    plugin(&both)?.ok(&join)?;
    ensure!(label("env")?.is_null() && label("by-hand")? == "yes", "{}", host()?.get(&member)?);
    plugin(&both)?.ok(&["unjoin", NAME, "--member-context=member", "--yes"]).map(drop)
}

#[test]
fn unjoin_keeps_objects_of_another_cluster_or_host() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let both = both(alone.cluster, |_| {})?;
    let (join, unjoin) =
        (["join", NAME, "--member-context=member"], ["unjoin", NAME, "--member-context=member", "--yes"]);
    // The member was removed by force, and another cluster now has its name.
    plugin(&both)?.ok(&join)?;
    let registration = format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{NAME}");
    let uid = |uid: &str| json!({"metadata": {"annotations": {"fleet.kubectl-mc.dev/uid": uid}}});
    let own = host()?.get(&registration)?["metadata"]["annotations"]["fleet.kubectl-mc.dev/uid"].clone();
    host()?.merge(&registration, &uid("of another cluster"))?;
    let said = plugin(&both)?.run(&unjoin)?;
    ensure!(said.code == 0 && said.stderr.contains("is not known to be this cluster, and stays"), "{said:?}");
    ensure!(!said.text().contains("host: ") && said.text().contains("member: "), "{said:?}");
    ensure!(host()?.get(&registration)?["kind"] == "MemberCluster", "the other cluster was removed");
    plugin(&both)?.ok(&["unjoin", NAME, "--force", "--yes"])?;
    Traces::of(&alone)?.same_as(&before)?;

    // Another host has taken over the member.
    plugin(&both)?.ok(&join)?;
    ensure!(
        own == host()?.get(&registration)?["metadata"]["annotations"]["fleet.kubectl-mc.dev/uid"],
        "another uid"
    );
    let mark = |uid: &str| json!({"metadata": {"annotations": {"fleet.kubectl-mc.dev/host": uid}}});
    let (member, namespace) = (Api::admin(alone.cluster)?, format!("/api/v1/namespaces/{SYSTEM}"));
    let of_host = member.get(&namespace)?["metadata"]["annotations"]["fleet.kubectl-mc.dev/host"].clone();
    member.merge(&namespace, &mark("another"))?;
    let said = plugin(&both)?.run(&unjoin)?;
    ensure!(said.code == 0 && said.stderr.contains("joined to another host"), "{said:?}");
    ensure!(said.text().contains("host: ") && !said.text().contains("member: "), "{said:?}");
    member.merge(&namespace, &mark(of_host.as_str().unwrap_or_default()))?;
    plugin(&both)?.ok(&unjoin)?;
    Traces::of(&alone)?.same_as(&before)
}

#[test]
fn member_in_use_keeps_its_address_if_another_fails() -> Result<()> {
    let alone = alone()?;
    let both = both(alone.cluster, |_| {})?;
    let join = ["join", NAME, "--member-context=member", "--timeout=20s"];
    plugin(&both)?.ok(&join)?;
    let namespaces = format!("/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{NAME}/proxy/api/v1/namespaces");
    ensure!(host()?.request("GET", &namespaces, "", "")?.status() == 200);
    let said = plugin(&both)?
        .run(&[&join[..], &["--server=https://127.0.0.1:1"]].concat())?
        .failure(&["its connection of before is in use again"])?;
    ensure!(said.contains("is not Reachable") && said.contains("--server"), "{said}");
    eventually("it is used as before", SOON, || {
        let answer = host()?.request("GET", &namespaces, "", "")?;
        ensure!(answer.status() == 200, "{}", answer.text());
        Ok(Some(()))
    })?;
    // The same address with another verified name is another connection, and gets new tokens.
    while_asking(&host()?, &namespaces, || {
        let said = plugin(&both)?.ok(&[&join[..], &["--tls-server-name=kubernetes.default.svc"]].concat())?;
        ensure!(said.contains(&format!("host: secret/{NAME}.member configured")), "{said}");
        Ok(())
    })?;
    plugin(&both)?.ok(&["unjoin", NAME, "--member-context=member", "--yes"]).map(drop)
}

#[test]
fn printed_commands_work_when_pasted() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let both = both(alone.cluster, |_| {})?;
    let text =
        plugin(&both)?.ok(&["join", NAME, "--member-context=member", "--labels=env=e2e", "--print"])?;
    ensure!(!text.contains("eyJ"), "a token is printed");
    let mut path = bed()?.bin.clone().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let pasted = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &text])
        .env("KUBECONFIG", both.kubeconfig())
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()?;
    ensure!(
        pasted.status.success(),
        "{}{}",
        String::from_utf8_lossy(&pasted.stdout),
        String::from_utf8_lossy(&pasted.stderr)
    );
    tokens_are_limited(&alone)?;
    let cluster = format!("--cluster={NAME}");
    eventually("it can be used", 4 * SOON, || plugin(&both)?.ok(&[&cluster, "get", "namespaces"]).map(Some))?;
    plugin(&both)?.ok(&["unjoin", NAME, "--member-context=member", "--yes"])?;
    Traces::of(&alone)?.same_as(&before)
}

#[test]
fn failed_join_names_its_cause_and_resumes_when_repeated() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let both = both(alone.cluster, |_| {})?;
    let nobody = TcpListener::bind((bed()?.address, 0))?.local_addr()?;
    let join = ["join", NAME, "--member-context=member"];
    let wrong = format!("--server=https://{nobody}");
    let said = plugin(&both)?.run(&[&join[..], &[&wrong, "--timeout=15s"]].concat())?;
    said.failure(&["is not Reachable", "ConnectionRefused", "--server", "the same command again"])?;
    let member = Tool::admin(alone.cluster)?;
    ensure!(!member.ok(&["get", "namespaces", "-o", "name"])?.contains(SYSTEM), "the member was touched");

    let said = plugin(&both)?.ok(&join)?;
    follow(&both, &said)?;
    // The member counts as lost here, and is found again below.
    let forced = plugin(&both)?.run(&["unjoin", NAME, "--force", "--yes"])?;
    ensure!(
        forced.code == 0 && forced.stderr.contains("the member's objects were not removed"),
        "{forced:?}"
    );
    plugin(&both)?.ok(&["unjoin", NAME, "--member-context=member", "--yes"])?;
    Traces::of(&alone)?.same_as(&before)
}

#[test]
fn shared_namespace_and_its_objects_stay() -> Result<()> {
    let alone = alone()?;
    let member = Tool::admin(alone.cluster)?;
    let before = Traces::of(&alone)?;
    member.ok(&["create", "namespace", SYSTEM])?;
    member.ok(&["create", "configmap", "theirs", "-n", SYSTEM])?;
    let both = both(alone.cluster, |_| {})?;
    let join = ["join", NAME, "--member-context=member"];
    plugin(&both)?.ok(&join)?;
    let bindings = || member.ok(&["get", "clusterrolebindings", "-o", "name"]);
    ensure!(bindings()?.contains("kubectl-mc:host-admins"), "{}", bindings()?);
    // With `--no-host-admins` the join deletes the bindings of the host's administrators.
    let said = plugin(&both)?.ok(&[&join[..], &["--no-host-admins"]].concat())?;
    ensure!(said.contains("kubectl-mc:host-admins deleted"), "{said}");
    ensure!(!bindings()?.contains("kubectl-mc:host-admins"), "{}", bindings()?);
    let unjoined = plugin(&both)?.run(&["unjoin", NAME, "--member-context=member", "--yes"])?;
    ensure!(unjoined.code == 0 && unjoined.stderr.contains("configmap/theirs"), "{unjoined:?}");
    member.ok(&["get", "configmap", "theirs", "-n", SYSTEM])?;
    let notes = member.ok(&["get", "namespace", SYSTEM, "-o", "jsonpath={.metadata.annotations}"])?;
    ensure!(!notes.contains("fleet.kubectl-mc.dev"), "{notes}");
    member.ok(&["delete", "namespace", SYSTEM, "--wait"])?;
    Traces::of(&alone)?.same_as(&before)
}

/// The state after `sidecar/deploy/member.yaml` was applied for another host.
#[test]
fn member_of_another_host_by_hand_is_not_taken_over() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let member = Tool::admin(alone.cluster)?;
    member.ok(&["create", "namespace", SYSTEM])?;
    member.ok(&["-n", SYSTEM, "create", "serviceaccount", "kubectl-mc-impersonator"])?;
    let by_hand = Traces::of(&alone)?;
    let both = both(alone.cluster, |_| {})?;
    let join = ["join", NAME, "--member-context=member"];
    let refused = plugin(&both)?.run(&join)?;
    let said = refused.failure(&["another host may use the cluster", "annotate namespace"])?;
    Traces::of(&alone)?.same_as(&by_hand)?;

    // The command from the hint, for a member that does belong to this host.
    let mark = said.split("if no other host uses them: ").nth(1).and_then(|rest| rest.lines().next());
    let mark = mark.context("no command in the hint")?;
    let words: Vec<_> =
        mark.split(' ').filter(|word| *word != "kubectl" && !word.starts_with("--context")).collect();
    member.ok(&words)?;
    plugin(&both)?.ok(&join)?;
    plugin(&both)?.ok(&["unjoin", NAME, "--member-context=member", "--yes"])?;
    member.ok(&["delete", "namespace", SYSTEM, "--ignore-not-found", "--wait"])?;
    Traces::of(&alone)?.same_as(&before)
}

/// Kubernetes before 1.30 has no such policies.
#[test]
fn member_without_admission_policies_joins_with_a_warning() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let api = "admissionregistration.k8s.io/v1/validatingadmissionpolic";
    alone.cluster.restart_apiserver_with(&[
        &format!("--runtime-config={api}ies=false,{api}ybindings=false"),
        "--disable-admission-plugins=ValidatingAdmissionPolicy",
    ])?;
    let joined = joined_without_policies(&alone);
    alone.cluster.restart_apiserver()?;
    joined?;
    Traces::of(&alone)?.same_as(&before)
}

fn joined_without_policies(alone: &Alone) -> Result<()> {
    let both = both(alone.cluster, |_| {})?;
    let join = ["join", NAME, "--member-context=member"];
    let warning = "serves no ValidatingAdmissionPolicy";
    plugin(&both)?.run(&join)?.failure(&[warning, "cannot ask for confirmation", "--yes"])?;
    let joined = plugin(&both)?.run(&[&join[..], &["--yes"]].concat())?;
    ensure!(joined.stderr.contains(warning), "{joined:?}");
    let said = joined.success()?;
    ensure!(!said.contains("validatingadmissionpolic"), "{said}");
    follow(&both, &said)?;
    plugin(&both)?.ok(&["unjoin", NAME, "--member-context=member", "--yes"]).map(drop)
}

/// A cluster that is joined for one test and unjoined on drop.
pub(crate) struct Joined {
    pub(crate) name: &'static str,
    pub(crate) member: Api,
    /// The MemberClusters on the host.
    pub(crate) fleet: OwnFleet,
    /// The plugin as the administrator of both sides.
    pub(crate) admin: Tool,
    pub(crate) alone: Alone,
}

impl Joined {
    pub(crate) fn under(name: &'static str) -> Result<Self> {
        let alone = alone()?;
        let joined = Self {
            name,
            member: Api::admin(alone.cluster)?,
            fleet: OwnFleet { namespace: SYSTEM.to_owned(), host: host()? },
            admin: plugin(&both(alone.cluster, |_| {})?)?,
            alone,
        };
        joined.admin.ok(&["join", name, "--member-context=member"])?;
        Ok(joined)
    }

    /// The MemberCluster's path.
    pub(crate) fn path(&self) -> String {
        format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{}", self.name)
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        // Other tests check that this works.
        let _ = self.admin.run(&["unjoin", self.name, "--member-context=member", "--yes"]);
    }
}

/// Checks that the member's policy limits the audiences and the lifetime of tokens as the join requested.
fn tokens_are_limited(alone: &Alone) -> Result<()> {
    let member = Api::admin(alone.cluster)?;
    let token = "/api/v1/namespaces/kube-system/serviceaccounts/default/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let own = member.create(token, &request)?["spec"]["audiences"].clone();
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = member.get(&format!("{policies}/kubectl-mc-manager-tokens"))?;
    let variables = &policy["spec"]["variables"];
    let audiences = variables[0]["expression"].as_str().unwrap_or_default().replace('\'', "\"");
    ensure!(serde_json::from_str::<Value>(&audiences)? == own, "{variables} and not {own}");
    ensure!(variables[1]["expression"] == "3888000", "{variables}");
    Ok(())
}

/// Runs the next command that the join prints.
pub(crate) fn follow(caller: &Caller, said: &str) -> Result<()> {
    let next = said.lines().find_map(|line| line.strip_prefix("Next: kubectl mc "));
    let next = next.with_context(|| format!("no next command is told: {said}"))?;
    plugin(caller)?.ok(&next.split(' ').collect::<Vec<_>>())?;
    Ok(())
}

/// All objects that a join could leave behind, on both sides.
#[derive(Debug)]
pub(crate) struct Traces(BTreeSet<String>);

impl Traces {
    pub(crate) fn of(alone: &Alone) -> Result<Self> {
        let mut traces = BTreeSet::new();
        let rbac = "clusterroles,clusterrolebindings,roles,rolebindings,";
        let on_member =
            format!("{rbac}namespaces,validatingadmissionpolicies,validatingadmissionpolicybindings");
        let everywhere = "--all-namespaces";
        let name = "-o=jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{'\\n'}{end}";
        let member = Tool::admin(alone.cluster)?.ok(&["get", &on_member, everywhere, name])?;
        traces.extend(member.lines().map(|line| format!("member: {line}")));
        let host = Tool::admin(&bed()?.host)?;
        // Other tests have clusters and roles there, with other names.
        let on_host = format!("{rbac}memberclusters,secrets,configmaps");
        let host = host.ok(&["get", &on_host, everywhere, name])?;
        traces.extend(host.lines().filter(|line| line.contains(NAME)).map(|line| format!("host: {line}")));
        Ok(Self(traces))
    }

    pub(crate) fn same_as(&self, before: &Self) -> Result<()> {
        let left: Vec<_> = self.0.symmetric_difference(&before.0).collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    }
}

pub(crate) const NAME: &str = "e2e-joined";
