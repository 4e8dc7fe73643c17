//! `kubectl mc join` and `unjoin` refuse wrong input before they write anything, and leave nothing behind.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result, ensure};
use harness::bed::{SYSTEM, bed, host};
use harness::both_sides::{add_context, alone, both};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, reply};
use harness::relay::Relay;
use harness::tool::Tool;
use serde_json::{Value, json};

use crate::plugin;

#[test]
fn loopback_address_is_refused_with_a_suggestion() -> Result<()> {
    let alone = alone()?;
    let member = alone.cluster;
    // As with kind: the kubeconfig has a port of this machine, which is forwarded to the member.
    let relay = Relay::at(IpAddr::V4(Ipv4Addr::LOCALHOST), &member.server)?;
    let address = member.server.trim_start_matches("https://");
    let (ip, _) = address.rsplit_once(':').context("no port")?;
    let server = format!("https://{}", relay.address);
    let both = both(member, |cluster| {
        cluster["server"] = server.as_str().into();
        cluster["tls-server-name"] = ip.into();
    })?;
    let join = plugin(&both)?.run(&["join", "e2e-join-local", "--member-context=member"])?;
    let said = join.failure(&["a loopback address", "--server="])?;
    ensure!(said.contains(&format!("--server={}", member.server)), "{said}");
    nothing_is_registered("e2e-join-local")
}

#[test]
fn join_distinguishes_unknown_from_forbidden_credential() -> Result<()> {
    let alone = alone()?;
    let member = alone.cluster;
    let stranger = Caller::certificate("e2e-join-stranger", &["system:masters"])?.edit(|config| {
        add_context(config, member, &|_| {});
        config["users"][1]["user"] = json!({"token": "expired"});
    })?;
    let said = plugin(&stranger)?.run(&["join", "e2e-join-expired", "--member-context=member"])?;
    said.failure(&[
        "the member, context \"member\"",
        "rejected the credential of the kubeconfig",
        "auth whoami",
    ])?;

    let nobody = member.client_certificate("e2e-join-nobody", &[])?;
    let folder = tempfile::tempdir()?;
    let files = [("nobody.crt", &nobody.certificate), ("nobody.key", &nobody.key)];
    for (file, pem) in files {
        std::fs::write(folder.path().join(file), pem)?;
    }
    let powerless = Caller::certificate("e2e-join-powerless", &["system:masters"])?.edit(|config| {
        add_context(config, member, &|_| {});
        config["users"][1]["user"] = json!({
            "client-certificate": folder.path().join("nobody.crt"),
            "client-key": folder.path().join("nobody.key"),
        });
    })?;
    let said = plugin(&powerless)?.run(&["join", "e2e-join-powerless", "--member-context=member"])?;
    said.failure(&["you lack rights on the member: get namespaces; create namespaces;", "auth can-i"])?;
    nothing_is_registered("e2e-join-powerless")
}

#[test]
fn join_names_each_missing_right_on_the_host() -> Result<()> {
    let alone = alone()?;
    let member = alone.cluster;
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": ["fleet.kubectl-mc.dev"], "resources": ["memberclusters"], "verbs": ["get", "list"]},
    ]);
    let caller =
        Caller::certificate("e2e-join-reader", &[])?.edit(|config| add_context(config, member, &|_| {}))?;
    let (role, binding) = ("clusterroles/e2e-join-reader", "clusterrolebindings/e2e-join-reader");
    let rbac = |path: &str| format!("/apis/rbac.authorization.k8s.io/v1/{path}");
    host()?.apply(
        &rbac(role),
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "e2e-join-reader"}, "rules": rules,
        }),
    )?;
    host()?.apply(&rbac(binding), &json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "e2e-join-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "e2e-join-reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "e2e-join-reader"}],
    }))?;
    let known = json!({"group": "fleet.kubectl-mc.dev", "resource": "memberclusters", "verb": "list"});
    harness::wait::eventually("the rules are known", harness::wait::SOON, || {
        Ok(host()?.may("e2e-join-reader", &[], &known)?.then_some(()))
    })?;
    let said = plugin(&caller)?.run(&["join", "e2e-join-rights", "--member-context=member"])?;
    said.failure(&[
        "on the host: create memberclusters.fleet.kubectl-mc.dev",
        "patch secrets in kubectl-mc-system",
        "--print",
    ])?;
    nothing_is_registered("e2e-join-rights")
}

#[test]
fn member_that_issues_no_tokens_is_refused() -> Result<()> {
    let fake = FakeMember::unregistered("e2e-join-no-tokens", |request| {
        let json = |body: Value| reply("200 OK", "Content-Type: application/json\r\n", &body.to_string());
        match request.target() {
            "/version" => json(json!({"major": "1", "minor": "20", "gitVersion": "v1.20.15"})),
            "/api/v1" => json(json!({"resources": [{"name": "serviceaccounts"}]})),
            "/api/v1/namespaces/kube-system" => json(json!({"metadata": {"uid": "e2e-join-no-tokens"}})),
            target if target.contains("selfsubjectaccessreviews") => {
                reply("201 Created", "Content-Type: application/json\r\n", r#"{"status": {"allowed": true}}"#)
            }
            _ => reply(
                "404 Not Found",
                "Content-Type: application/json\r\n",
                r#"{"kind": "Status", "message": "no"}"#,
            ),
        }
    })?;
    let ca = base64(fake.ca());
    let server = format!("https://{}", fake.address);
    let both = both(&bed()?.host, |cluster| {
        *cluster = json!({"server": server, "certificate-authority-data": ca});
    })?;
    let said = plugin(&both)?.run(&["join", "e2e-join-no-tokens", "--member-context=member"])?;
    said.failure(&["no TokenRequest", "by hand"])?;
    nothing_is_registered("e2e-join-no-tokens")
}

#[test]
fn existing_name_and_the_host_itself_are_refused() -> Result<()> {
    let alone = alone()?;
    let said = plugin(&both(alone.cluster, |_| {})?)?.run(&["join", "m1", "--member-context=member"])?;
    said.failure(&["the name m1 is taken", "by hand"])?;
    let said =
        plugin(&both(&bed()?.host, |_| {})?)?.run(&["join", "e2e-join-self", "--member-context=member"])?;
    said.failure(&["the host itself"])?;
    nothing_is_registered("e2e-join-self")
}

#[test]
fn missing_arguments_are_prompted_for() -> Result<()> {
    let alone = alone()?;
    let both = both(alone.cluster, |_| {})?;
    plugin(&both)?.run(&["join", "e2e-join-x"])?.failure(&["the member is not named", "--member-context"])?;
    plugin(&both)?.run(&["join", "e2e-join-x", "--member-context=host"])?.failure(&["the same context"])?;
    plugin(&both)?.run(&["join", "e2e-join-x", "--member-context=nowhere"])?.failure(&["nowhere"])?;
    plugin(&both)?.run(&["join", "E2E", "--member-context=member"])?.failure(&["invalid cluster name"])?;
    plugin(&both)?.run(&["unjoin", "m1"])?.failure(&["cannot delete itself", "--force"])?;
    plugin(&both)?.run(&["unjoin", "m1", "--member-context=member", "--yes"])?.failure(&["is not m1"])?;
    plugin(&both)?.run(&["unjoin", "e2e-no-such", "--force", "--yes"])?.failure(&["is not joined"])?;
    Ok(())
}

#[test]
fn dry_run_of_a_join_checks_both_sides_and_writes_nothing() -> Result<()> {
    let alone = alone()?;
    let both = both(alone.cluster, |_| {})?;
    let words = ["join", "e2e-join-dry", "--member-context=member", "--labels=env=e2e", "--dry-run"];
    let said = plugin(&both)?.ok(&words)?;
    for line in [
        "host: membercluster.fleet.kubectl-mc.dev/e2e-join-dry created (server dry run)",
        "host: secret/e2e-join-dry.member created (server dry run)",
        "member: serviceaccount/kubectl-mc-impersonator",
        "member: clusterrolebinding.rbac.authorization.k8s.io/kubectl-mc:host-admins",
    ] {
        ensure!(said.contains(line), "{line:?} is not in {said}");
    }
    let without = plugin(&both)?.ok(&[&words[..], &["--no-host-admins"]].concat())?;
    ensure!(!without.contains("kubectl-mc:host-admins"), "{without}");
    nothing_is_registered("e2e-join-dry")
}

fn nothing_is_registered(name: &str) -> Result<()> {
    let kubectl = Tool::admin(&bed()?.host)?;
    let names = kubectl.ok(&["get", "memberclusters,secrets", "-n", SYSTEM, "-o", "name"])?;
    ensure!(!names.contains(name), "{names}");
    Ok(())
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}
