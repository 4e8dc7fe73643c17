//! The user, groups, uid and extra of an OIDC ID token reach the member unchanged. The sidecar's controller
//! manages the rights on this member.

use anyhow::{Context, Result, ensure};
use harness::audit::AuditLog;
use harness::bed::{bed, sidecar};
use harness::caller::Caller;
use harness::http1::{Endpoint, Response, member_path};
use harness::managed::{Managed, managed};
use harness::oidc::{TENANT, issuer, now, other_issuer};
use harness::wait::SOON;
use serde_json::{Value, json};

use crate::identity::quiet::on_demand_access::{learnt, seen, welcome};
use crate::identity::quiet::unified_auth::{named, unbind, within};
use crate::plugin;

/// The user logs in as usual: a credential plugin prints an ID token.
#[test]
fn oidc_group_user_is_admitted_on_first_call() -> Result<()> {
    let scene = Scene::of("oidc-first")?;
    let jane = scene.person("jane")?;
    ensure!(!scene.member.may_be_user(&jane.user)?, "she is known already");
    let log = AuditLog::from_now(scene.member.cluster)?;
    let read = ["--cluster", scene.member.name, "get", "configmaps", "--namespace", &scene.namespace];
    plugin(&with_login(jane.clone())?)?.ok(&read)?;
    scene.is_whole(&seen(&log, &scene.path(""))?, &jane)?;
    ensure!(scene.member.may_be_user(&jane.user)? && scene.member.may_be_in(&scene.group("night"))?);
    Ok(())
}

#[test]
fn oidc_token_gives_the_same_identity_past_the_host() -> Result<()> {
    let scene = Scene::of("oidc-direct")?;
    let jane = scene.person("jane")?;
    let log = AuditLog::from_now(scene.member.cluster)?;
    let answer = scene.ask(&Endpoint::sidecar(sidecar()?, None)?, &jane, "/direct")?;
    ensure!(answer.status() == 404, "the member has no such ConfigMap: {}", answer.text());
    scene.is_whole(&seen(&log, &scene.path("/direct"))?, &jane)
}

/// The binding is for `oidc:…-dev`. Neither a group of another issuer nor a name without the
/// issuer's prefix is that group.
#[test]
fn group_of_another_issuer_grants_nothing() -> Result<()> {
    let scene = Scene::of("oidc-foreign")?;
    let claims = |group: String| scene.claims("mallory", &[group]);
    let (bare, whole) = ("oidc-foreign-dev".to_owned(), scene.group("dev"));
    let strangers = [
        other_issuer()?.caller(&claims(bare.clone()))?,
        other_issuer()?.caller(&claims(whole.clone()))?,
        issuer()?.caller(&claims(whole))?,
        Caller::certificate("e2e-oidc-foreign", &[bare.as_str()])?,
    ];
    for stranger in &strangers {
        let certificate = stranger.certificate.as_deref();
        let (host, direct) =
            (Endpoint::cluster(&bed()?.host, certificate)?, Endpoint::sidecar(sidecar()?, certificate)?);
        for (way, endpoint) in [("through the host", host), ("at the sidecar itself", direct)] {
            let answer = scene.ask(&endpoint, stranger, "/foreign")?;
            let (groups, status) = (&stranger.groups, answer.status());
            ensure!(status == 403, "{way} a user of {groups:?} is answered {status}: {}", answer.text());
        }
        ensure!(!scene.member.may_be_user(&stranger.user)?, "{} may be impersonated", stranger.user);
    }
    // A user of the group is served all the while.
    let jane = scene.person("jane")?;
    let answer = scene.ask(&Endpoint::cluster(&bed()?.host, None)?, &jane, "/hers")?;
    ensure!(answer.status() == 404, "{}: {}", answer.status(), answer.text());
    Ok(())
}

#[test]
fn expired_oidc_token_reaches_no_member() -> Result<()> {
    let scene = Scene::of("oidc-expired")?;
    let mut claims = scene.claims("jane", &["oidc-expired-dev".to_owned()]);
    claims["exp"] = (now()? - 60).into();
    let expired = issuer()?.caller(&claims)?;
    let (host, direct) = (Endpoint::cluster(&bed()?.host, None)?, Endpoint::sidecar(sidecar()?, None)?);
    let log = AuditLog::from_now(scene.member.cluster)?;
    for (way, endpoint) in [("through the host", &host), ("at the sidecar itself", &direct)] {
        let answer = scene.ask(endpoint, &expired, "/expired")?;
        let status = answer.status();
        ensure!(status == 401, "{way} a token that has run out is answered {status}: {}", answer.text());
    }
    // The member's audit log now contains all earlier requests.
    let jane = scene.person("jane")?;
    scene.ask(&host, &jane, "/valid")?;
    seen(&log, &scene.path("/valid"))?;
    ensure!(log.requests(&scene.path("/expired"))?.is_empty(), "what came with it reached the member");
    Ok(())
}

#[test]
fn oidc_user_is_refused_once_the_group_binding_is_deleted() -> Result<()> {
    let scene = Scene::of("oidc-unbound")?;
    let jane = scene.person("jane")?;
    let host = Endpoint::cluster(&bed()?.host, None)?;
    let answer = scene.ask(&host, &jane, "/before")?;
    ensure!(answer.status() == 404, "{}: {}", answer.status(), answer.text());
    ensure!(scene.member.may_be_user(&jane.user)? && learnt()?.contains(&jane.user));

    unbind(scene.name)?;
    within("the host refuses her", SOON, || Ok(scene.ask(&host, &jane, "/after")?.status() == 403))?;
    within("the member's rights are gone", SOON, || {
        Ok(!scene.member.may_be_user(&jane.user)? && !scene.member.may_be_in(&scene.group("dev"))?)
    })?;
    within("the user is forgotten", SOON, || Ok(!learnt()?.contains(&jane.user)))
}

/// Another user may get the name of a deleted one. Their uids differ, so no cache may use the name
/// alone as its key.
#[test]
fn users_of_one_name_differ_by_uid_and_extra() -> Result<()> {
    let scene = Scene::of("oidc-uid")?;
    let first = scene.person("jane")?;
    let mut claims = scene.claims("jane", &["oidc-uid-dev".to_owned()]);
    (claims["uid"], claims["tenant"]) = ("uid-of-another".into(), "another".into());
    let second = issuer()?.caller(&claims)?;
    let log = AuditLog::from_now(scene.member.cluster)?;
    let host = Endpoint::cluster(&bed()?.host, None)?;
    for (caller, rest) in [(&first, "/one"), (&second, "/two"), (&first, "/again")] {
        let answer = scene.ask(&host, caller, rest)?;
        ensure!(answer.status() == 404, "{}: {}", answer.status(), answer.text());
    }
    let seen = |rest: &str| seen(&log, &scene.path(rest));
    let (one, two, again) = (seen("/one")?, seen("/two")?, seen("/again")?);
    for (which, seen, uid, tenant) in [
        ("the first", &one, "uid-of-jane", "blue"),
        ("the second", &two, "uid-of-another", "another"),
        ("the first, who came again,", &again, "uid-of-jane", "blue"),
    ] {
        let is_she = seen["username"] == first.user.as_str()
            && seen["uid"] == uid
            && seen["extra"] == json!({TENANT: [tenant]});
        ensure!(is_she, "the member was shown {which} not with {uid} and tenant {tenant}: {seen}");
    }
    Ok(())
}

/// A group of the issuer that may use the member, and a namespace there in which every user may use
/// ConfigMaps.
struct Scene {
    name: &'static str,
    namespace: String,
    member: &'static Managed,
}

impl Scene {
    fn of(name: &'static str) -> Result<Self> {
        let scene = Self { name, namespace: format!("e2e-{name}"), member: managed()? };
        // The issuer starts first, because the following steps are timed.
        issuer()?;
        welcome(scene.member, name, &named("Group", &scene.group("dev")))?;
        within("the group is known", SOON, || scene.member.may_be_in(&scene.group("dev")))?;
        Ok(scene)
    }

    /// A group as the host names it.
    fn group(&self, which: &str) -> String {
        format!("oidc:{}-{which}", self.name)
    }

    fn claims(&self, who: &str, groups: &[String]) -> Value {
        let (name, uid) = (format!("{}-{who}", self.name), format!("uid-of-{who}"));
        json!({"sub": name, "groups": groups, "uid": uid, "tenant": "blue"})
    }

    /// A user who is in the group that has access, and in another group without a binding.
    fn person(&self, who: &str) -> Result<Caller> {
        let groups = ["dev", "night"].map(|group| format!("{}-{group}", self.name));
        issuer()?.caller(&self.claims(who, &groups))
    }

    /// The path of ConfigMaps on the member.
    fn path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/configmaps{rest}", self.namespace)
    }

    /// Requests a ConfigMap of the member that does not exist.
    fn ask(&self, endpoint: &Endpoint, caller: &Caller, rest: &str) -> Result<Response> {
        let path = member_path(self.member.name, &self.path(rest));
        let authorization = caller.authorization();
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{authorization}\r\n");
        endpoint.exchange(head.as_bytes())
    }

    /// Checks that the member saw the user's name, all groups, uid and extra, and nothing else.
    fn is_whole(&self, seen: &Value, jane: &Caller) -> Result<()> {
        let whole = json!({
            "username": jane.user, "uid": "uid-of-jane", "extra": {TENANT: ["blue"]},
            "groups": [self.group("dev"), self.group("night"), "system:authenticated"],
        });
        ensure!(*seen == whole, "the member was shown {seen} and not {whole}");
        Ok(())
    }
}

/// Moves the caller's token into a credential plugin.
fn with_login(caller: Caller) -> Result<Caller> {
    let token = caller.token.clone().context("no token")?;
    let answer = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token},
    });
    let login = caller.folder().join("oidc-login");
    harness::script::write(&login, &format!("#!/bin/sh\ncat <<'END'\n{answer}\nEND\n"))?;
    caller.edit(|config| {
        config["users"][0]["user"] = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "./oidc-login",
            "interactiveMode": "IfAvailable", "provideClusterInfo": false,
        }});
    })
}
