//! A user without their own binding is granted rights on the member at their first request, not
//! earlier, and only for as long as the host authorizes them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use harness::audit::{AuditLog, impersonated};
use harness::bed::{SYSTEM, bed, host};
use harness::caller::Caller;
use harness::http1::{Endpoint, Response, member_path};
use harness::managed::{Managed, managed};
use harness::own_sidecar::OwnSidecar;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::identity::quiet::unified_auth::{
    FIVE_SECONDS, RBAC, bind, make_namespace, named, rule, unbind, within,
};
use crate::plugin;

#[test]
fn group_user_works_on_first_call_until_group_is_removed() -> Result<()> {
    let member = managed()?;
    let group = "e2e-learnt-dev";
    let caller = Caller::certificate("e2e-learnt-jane", &[group, "e2e-learnt-unbound"])?;
    welcome(member, "learnt-jane", &named("Group", group))?;
    within("the group is known", FIVE_SECONDS, || member.may_be_in(group))?;
    ensure!(!member.may_be_user(&caller.user)? && !member.may_be_in("e2e-learnt-unbound")?);

    let log = AuditLog::from_now(member.cluster)?;
    read(&caller, "learnt-jane")?;
    let seen = seen(&log, "/e2e-learnt-jane/configmaps")?;
    assert_eq!(seen["groups"], json!([group, "e2e-learnt-unbound", "system:authenticated"]));
    ensure!(member.may_be_user(&caller.user)? && member.may_be_in("e2e-learnt-unbound")?);

    unbind("learnt-jane")?;
    within("the rights are gone", FIVE_SECONDS, || {
        Ok(!member.may_be_user(&caller.user)?
            && !member.may_be_in("e2e-learnt-unbound")?
            && !member.may_be_in(group)?)
    })?;
    within("nobody is remembered", FIVE_SECONDS, || Ok(!learnt()?.contains(&caller.user)))
}

/// The bed's sidecar leads, and two more sidecars only serve.
#[test]
fn every_replica_records_users_and_the_leader_grants() -> Result<()> {
    let member = managed()?;
    let replicas = [OwnSidecar::start()?, OwnSidecar::start()?];
    for replica in &replicas {
        ensure!(replica.metric("leader_election_master_status")? == 0.0, "it leads");
    }
    let group = "e2e-learnt-replicas";
    welcome(member, "learnt-replicas", &named("Group", group))?;
    within("the group is known", FIVE_SECONDS, || member.may_be_in(group))?;
    let request = |caller: &Caller, replica: &OwnSidecar| -> Result<Response> {
        let path = member_path(member.name, "/api/v1/namespaces/e2e-learnt-replicas/configmaps");
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        replica.endpoint(caller.certificate.as_deref())?.exchange(head.as_bytes())
    };
    let answered = |answer: Result<Response>| -> Result<()> {
        let answer = answer?;
        ensure!(answer.status() == 200, "{}: {}", answer.status(), answer.text());
        Ok(())
    };

    let alice = Caller::certificate("e2e-learnt-alice", &[group])?;
    let begun = Instant::now();
    answered(request(&alice, &replicas[0]))?;
    ensure!(begun.elapsed() < LONGEST_WAIT, "only after {:?}", begun.elapsed());
    answered(request(&alice, &replicas[1]))?;

    // Both replicas and the leader get a request at the same moment.
    let bob = Caller::certificate("e2e-learnt-bob", &[group])?;
    std::thread::scope(|scope| {
        let (request, bob) = (&request, &bob);
        let asked = replicas.each_ref().map(|replica| scope.spawn(move || request(bob, replica)));
        let led = send(bob, "GET", "/api/v1/namespaces/e2e-learnt-replicas/configmaps", "", "");
        answered(led).context("by the one that leads")?;
        asked.into_iter().try_for_each(|asked| {
            answered(asked.join().map_err(|_| anyhow!("it panicked"))?).context("by another replica")
        })
    })?;
    assert_eq!(learnt()?.matches("e2e-learnt-bob").count(), 1, "{}", learnt()?);
    Ok(())
}

#[test]
fn request_with_a_body_is_retried_and_executed_once() -> Result<()> {
    let member = managed()?;
    let caller = Caller::certificate("e2e-learnt-writer", &["e2e-learnt-writers"])?;
    welcome(member, "learnt-writer", &named("Group", "e2e-learnt-writers"))?;
    within("the group is known", FIVE_SECONDS, || member.may_be_in("e2e-learnt-writers"))?;
    let post = || {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}});
        send(&caller, "POST", "/api/v1/namespaces/e2e-learnt-writer/configmaps", "", &map.to_string())
    };
    let first = post()?;
    ensure!(first.status() == 503, "{}: {}", first.status(), first.text());
    assert_eq!(first.head.value("retry-after"), Some("1"));
    ensure!(first.text().contains("try again"), "{}", first.text());
    let second = post()?;
    ensure!(second.status() == 201, "{}: {}", second.status(), second.text());
    let maps = member.api.get("/api/v1/namespaces/e2e-learnt-writer/configmaps")?;
    assert_eq!(maps.to_string().matches("\"made-").count(), 2, "name and generateName of one: {maps}");
    Ok(())
}

#[test]
fn upgrade_waits_for_the_grant_and_is_retried() -> Result<()> {
    let member = managed()?;
    let caller = Caller::certificate("e2e-learnt-exec", &["e2e-learnt-execs"])?;
    welcome(member, "learnt-exec", &named("Group", "e2e-learnt-execs"))?;
    within("the group is known", FIVE_SECONDS, || member.may_be_in("e2e-learnt-execs"))?;
    let web_socket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n";
    let path = "/api/v1/namespaces/e2e-learnt-exec/pods/none/exec?command=true&stdout=true";
    let answer = send(&caller, "GET", path, web_socket, "")?;
    // The member looked for the pod as this user.
    ensure!(
        answer.status() == 404 && answer.text().contains("pods \\\"none\\\" not found"),
        "{}",
        answer.text()
    );
    ensure!(member.may_be_user(&caller.user)?);
    Ok(())
}

#[test]
fn service_account_group_adds_rights_in_its_namespace_only() -> Result<()> {
    let member = managed()?;
    let caller = Caller::service_account("e2e-learnt-robot", "robot")?;
    welcome(member, "learnt-robot", &named("Group", "system:serviceaccounts"))?;
    make_namespace(member, "e2e-learnt-other")?;
    let log = AuditLog::from_now(member.cluster)?;
    let words = ["--cluster", member.name, "get", "configmaps", "--namespace", "e2e-learnt-robot"];
    eventually("the binding is known to the host", SOON, || plugin(&caller)?.ok(&words).map(Some))?;
    let seen = seen(&log, "/e2e-learnt-robot/configmaps")?;
    assert_eq!(
        seen["groups"],
        json!(["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:e2e-learnt-robot"])
    );
    ensure!(member.may_be_account("e2e-learnt-robot", "robot")?);
    ensure!(!member.may_be_account("e2e-learnt-other", "robot")?);
    ensure!(!member.may_be_account("e2e-learnt-robot", "another")?);
    Ok(())
}

#[test]
fn uid_and_extra_are_forwarded_by_one_rule() -> Result<()> {
    let member = managed()?;
    let caller = Caller::token("ulrike")?;
    welcome(member, "learnt-ulrike", &named("User", "ulrike"))?;
    within("the user is known", FIVE_SECONDS, || member.may_be_user("ulrike"))?;
    let log = AuditLog::from_now(member.cluster)?;
    read(&caller, "learnt-ulrike")?;
    let seen = seen(&log, "/e2e-learnt-ulrike/configmaps")?;
    assert_eq!(
        (&seen["uid"], &seen["groups"]),
        (&json!("uid-ulrike"), &json!(["dev", "ops", "system:authenticated"]))
    );
    Ok(())
}

#[test]
fn user_refused_by_the_host_is_not_recorded() -> Result<()> {
    let member = managed()?;
    let caller = Caller::certificate("e2e-learnt-stranger", &["e2e-learnt-strangers"])?;
    let answer = send(&caller, "GET", "/api/v1/namespaces", "", "")?;
    ensure!(answer.status() == 403, "{}", answer.text());
    ensure!(!learnt()?.contains("stranger"));
    ensure!(!member.may_be_user(&caller.user)?);
    Ok(())
}

/// Grants the subject the use of the member on the host, and creates a namespace on the member in
/// which every user may use ConfigMaps and pods.
pub(crate) fn welcome(member: &Managed, name: &str, subject: &Value) -> Result<()> {
    let namespace = format!("e2e-{name}");
    make_namespace(member, &namespace)?;
    let path = |kind: &str| format!("{RBAC}/namespaces/{namespace}/{kind}/e2e");
    let all = named("Group", "system:authenticated");
    // This is not the role `admin`, which lets its users impersonate the namespace's service
    // accounts, including the sidecar's.
    member.api.apply(
        &path("roles"),
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "e2e"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps", "pods", "pods/exec"], "verbs": ["*"]}],
        }),
    )?;
    member.api.apply(
        &path("rolebindings"),
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "e2e"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "e2e"},
            "subjects": [all],
        }),
    )?;
    bind(name, &rule(&["clusters/proxy"], &["*"], &[member.name]), &[subject])
}

/// The plugin's first call.
fn read(caller: &Caller, name: &str) -> Result<()> {
    let namespace = format!("e2e-{name}");
    let words = ["--cluster", managed()?.name, "get", "configmaps", "--namespace", &namespace];
    plugin(caller)?.ok(&words)?;
    Ok(())
}

/// Sends one request through the host, with the caller's certificate.
fn send(caller: &Caller, method: &str, path: &str, lines: &str, body: &str) -> Result<Response> {
    let certificate = caller.certificate.as_ref().context("no certificate")?;
    let endpoint = Endpoint::cluster(&bed()?.host, Some(certificate))?;
    let connection = if lines.contains("Upgrade") { "" } else { "Connection: close\r\n" };
    let content = match body.len() {
        0 => String::new(),
        length => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
    };
    let path = member_path(managed()?.name, path);
    let head = format!("{method} {path} HTTP/1.1\r\nHost: host\r\n{connection}{lines}{content}\r\n");
    endpoint.exchange(format!("{head}{body}").as_bytes())
}

/// Returns the user that the member saw, as soon as its audit log has the request.
pub(crate) fn seen(log: &AuditLog, uri: &str) -> Result<Value> {
    eventually("the member received an impersonated request", SOON, || {
        let events = log.requests(uri)?;
        Ok(events.iter().find(|event| event["impersonatedUser"].is_object()).map(impersonated))
    })
}

/// The longest time that a request waits for its grant. The same limit applies to everything else.
const LONGEST_WAIT: Duration = Duration::from_secs(6);

/// The users that the sidecar has recorded.
pub(crate) fn learnt() -> Result<String> {
    let path = format!("/api/v1/namespaces/{SYSTEM}/configmaps?labelSelector=fleet.kubectl-mc.dev%2Flearnt");
    Ok(host()?.get(&path)?.to_string())
}
