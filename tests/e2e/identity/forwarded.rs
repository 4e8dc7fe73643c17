//! The member sees the caller's name, groups, uid and extra. Its own audit log shows them.

use anyhow::{Context, Result, ensure};
use harness::audit::{AuditLog, impersonated};
use harness::bed::member;
use harness::caller::Caller;
use harness::scene::{EVERY_VERB, Scene};
use serde_json::{Value, json};

use crate::{plugin, plugin_in};

#[test]
fn certificate_name_groups_and_credential_id_reach_the_member() -> Result<()> {
    let scene = Scene::new("who-cert")?;
    let caller = Caller::certificate("e2e-who-cert-user", &["painters", "poets"])?;
    scene.welcome(&caller)?;
    assert_eq!(
        seen(&scene, &caller)?,
        json!({
            "username": "e2e-who-cert-user", "groups": ["painters", "poets", "system:authenticated"],
            "extra": {CREDENTIAL_ID: [caller.certificate_id()?]},
        })
    );
    Ok(())
}

#[test]
fn token_name_uid_and_groups_reach_the_member() -> Result<()> {
    let scene = Scene::new("who-token")?;
    let caller = Caller::token("ulrike")?;
    scene.welcome(&caller)?;
    assert_eq!(
        seen(&scene, &caller)?,
        json!({"username": "ulrike", "uid": "uid-ulrike", "groups": ["dev", "ops", "system:authenticated"]})
    );
    Ok(())
}

#[test]
fn caller_without_groups_has_none_at_the_member() -> Result<()> {
    let scene = Scene::new("who-alone")?;
    let caller = Caller::token("theo")?;
    scene.welcome(&caller)?;
    assert_eq!(
        seen(&scene, &caller)?,
        json!({"username": "theo", "uid": "uid-theo", "groups": ["system:authenticated"]})
    );
    Ok(())
}

#[test]
fn fault_10_name_that_is_not_ascii_reaches_the_member() -> Result<()> {
    let scene = Scene::new("who-jane")?;
    let caller = Caller::certificate("jané o'neill", &["küche"])?;
    scene.let_in(&caller, &["m1"], EVERY_VERB)?;
    let log = AuditLog::from_now(member("m1")?)?;
    // The user has no rights at the member, but the member's refusal still names the user.
    plugin_in(&scene, &caller)?.run(&["get", "configmaps"])?.failure(&["jané o'neill"])?;
    let user = impersonated(&log.request(&format!("/{}/", scene.name))?);
    assert_eq!(user["username"], "jané o'neill");
    assert_eq!(user["groups"], json!(["küche", "system:authenticated"]));
    Ok(())
}

#[test]
fn service_account_is_the_members_account_of_that_name() -> Result<()> {
    let scene = Scene::new("who-sa")?;
    let caller = Caller::service_account(&scene.name, "robot")?;
    scene.welcome(&caller)?;
    let user = seen(&scene, &caller)?;
    assert_eq!(user["username"], format!("system:serviceaccount:{}:robot", scene.name));
    let own = format!("system:serviceaccounts:{}", scene.name);
    assert_eq!(user["groups"], json!(["system:authenticated", "system:serviceaccounts", own]));
    assert!(user.get("uid").is_none(), "the host's uid means nothing at the member: {user}");
    Ok(())
}

#[test]
fn pod_of_a_host_token_is_not_forwarded() -> Result<()> {
    let scene = Scene::new("who-pod")?;
    let caller = Caller::pod(&scene.name, "robot")?;
    scene.welcome(&caller)?;
    let user = seen(&scene, &caller)?;
    let keys: Vec<_> = user["extra"].as_object().context("no extra")?.keys().collect();
    assert_eq!(keys, [CREDENTIAL_ID], "{user}");
    Ok(())
}

#[test]
fn fault_17_host_admin_becomes_the_members_host_admins_group() -> Result<()> {
    let scene = Scene::new("who-admin")?;
    let caller = Caller::certificate("e2e-who-admin", &["system:masters", "dev"])?;
    let user = seen(&scene, &caller)?;
    assert_eq!(user["groups"], json!(["dev", "kubectl-mc:host-admins", "system:authenticated"]));
    Ok(())
}

#[test]
fn impersonation_on_the_host_reaches_the_member() -> Result<()> {
    let scene = Scene::new("who-as")?;
    let admin = Caller::certificate("e2e-who-as-admin", &["system:masters"])?;
    let jane = Caller::certificate("e2e-jane", &[])?;
    scene.welcome(&jane)?;
    let log = AuditLog::from_now(member("m1")?)?;
    let words = ["get", "configmaps", "--as", "e2e-jane", "--as-group", "painters"];
    plugin_in(&scene, &admin)?.ok(&words)?;
    let user = impersonated(&log.request(&format!("/{}/configmaps", scene.name))?);
    assert_eq!(user["username"], "e2e-jane");
    assert_eq!(user["groups"], json!(["painters", "system:authenticated"]));
    Ok(())
}

#[test]
fn fault_17_nodes_of_the_host_are_refused() -> Result<()> {
    refused("who-node", Caller::certificate("system:node:n1", &["system:nodes"])?)
}

#[test]
fn fault_17_members_of_the_nodes_group_are_refused() -> Result<()> {
    refused("who-nodes", Caller::certificate("e2e-no-node", &["system:nodes"])?)
}

#[test]
fn fault_17_control_plane_of_the_host_is_refused() -> Result<()> {
    refused("who-scheduler", Caller::certificate("system:kube-scheduler", &[])?)
}

#[test]
fn fault_17_service_accounts_of_kube_system_are_refused() -> Result<()> {
    refused("who-kube-system", Caller::service_account("kube-system", "e2e-robot")?)
}

/// A member would issue a node's certificate to a caller with such a name.
#[test]
fn fault_17_bootstrap_tokens_of_the_host_are_refused() -> Result<()> {
    refused("who-bootstrap", Caller::certificate("system:bootstrap:abcdef", &[])?)?;
    let groups = ["dev", "system:bootstrappers:kubeadm:default-node-token"];
    refused("who-bootstrapper", Caller::certificate("e2e-bootstrapper", &groups)?)
}

#[test]
fn sidecars_own_names_are_refused_as_callers() -> Result<()> {
    refused("who-reserved", Caller::certificate("kubectl-mc:anybody", &[])?)
}

#[test]
fn fault_17_callers_host_admins_group_is_refused() -> Result<()> {
    refused("who-promoted", Caller::certificate("e2e-promoted", &["kubectl-mc:host-admins"])?)
}

/// The user that the member saw when the caller read the scene's ConfigMaps.
fn seen(scene: &Scene, caller: &Caller) -> Result<Value> {
    let log = AuditLog::from_now(member(&scene.member)?)?;
    plugin_in(scene, caller)?.ok(&["get", "configmaps"])?;
    let event = log.request(&format!("/{}/configmaps", scene.name))?;
    let user = impersonated(&event);
    let all = event.to_string();
    ensure!(!all.contains("system:masters"), "the member saw the host's admin group: {all}");
    Ok(user)
}

/// With every right on the host, the caller is still refused, and the error names the flag that decides.
fn refused(name: &str, caller: Caller) -> Result<()> {
    let scene = Scene::new(name)?;
    scene.let_in(&caller, &["m1"], EVERY_VERB)?;
    let attempt = plugin(&caller)?.run(&["--cluster=m1", "get", "configmaps", "--namespace", &scene.name])?;
    attempt.failure(&["--allow-privileged-identity"])?;
    let arrived = AuditLog::of(member("m1")?).requests(&format!("/{}/configmaps", scene.name))?;
    assert_eq!(arrived, Vec::<Value>::new());
    Ok(())
}

const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
