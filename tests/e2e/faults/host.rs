//! The proxy keeps serving while the host does not answer or its trust ConfigMap is broken, and follows
//! changes of a member's Secret.

use std::time::Duration;

use anyhow::{Result, ensure};
use harness::bed::{SYSTEM, bed, host};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, ok};
use harness::front_proxy;
use harness::http1::{Endpoint, Response, member_path};
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::relay::Relay;
use harness::scene::{EVERY_VERB, Scene};
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn fault_75_host_outage_stops_new_logins_but_not_discovery() -> Result<()> {
    let fake = FakeMember::start("e2e-hub-down", |_| ok())?;
    let relay = Relay::to(&bed()?.host.server)?;
    let own = OwnSidecar::with(&Difference { host: Some(relay.address), ..Difference::default() })?;
    // The callers get access by RBAC rules: for system:masters there would be no review.
    let scene = Scene::on("m2", "hub-down")?;
    let let_in = |name: &str| {
        let caller = Caller::certificate(name, &[])?;
        scene.let_in(&caller, &[&fake.name], EVERY_VERB)?;
        own.endpoint(caller.certificate.as_deref())
    };
    let (known, stranger) = (let_in("e2e-hub-down-known")?, let_in("e2e-hub-down-new")?);
    let path = member_path(&fake.name, "/asked");
    let ask = |endpoint: &Endpoint, headers: &str| {
        endpoint.exchange(
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n").as_bytes(),
        )
    };
    assert_eq!(ask(&known, "")?.status(), 200);
    relay.cut();
    // The host's answers apply for as long as they are cached.
    assert_eq!(ask(&known, "")?.status(), 200);
    let before = fake.requests("/asked").len();
    is_retryable("a right that no review grants", &ask(&stranger, "")?)?;
    let token = Caller::token("theo")?.authorization();
    is_retryable("a token that no review knows", &ask(&own.endpoint(None)?, &token)?)?;
    assert_eq!(fake.requests("/asked").len(), before);
    for path in
        ["/apis", "/apis/proxy.kubectl-mc.dev/v1alpha1", "/openapi/v2", "/version", "/livez", "/readyz"]
    {
        let answer = stranger
            .exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())?;
        ensure!(answer.status() == 200, "{path}: {}", answer.status());
    }
    eventually("what the host said is not kept for ever", SOON, || {
        Ok(is_retryable("a right that was granted", &ask(&known, "")?).is_ok().then_some(()))
    })?;
    relay.mend();
    eventually("all is well again", SOON, || Ok((ask(&stranger, "")?.status() == 200).then_some(())))
}

#[test]
fn fault_20_front_proxy_trust_survives_a_broken_config_map() -> Result<()> {
    let fake = FakeMember::start("e2e-config-map", |_| ok())?;
    let own = OwnSidecar::start()?;
    let endpoint = own.endpoint(Some(&front_proxy::certificate()?))?;
    let ask = || {
        let path = member_path(&fake.name, "/asked");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nX-Remote-User: ulrike\r\nX-Remote-Group: system:masters\r\n\
             Connection: close\r\n\r\n"
        );
        let status = endpoint.exchange(request.as_bytes())?.status();
        ensure!(status == 200, "the front proxy is answered by {status}");
        Ok(())
    };
    let config_map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let original = host()?.get(config_map)?;
    // Waits for the log, because the answer itself must not change.
    let told = |what: &str| {
        eventually(what, SOON, || {
            ask()?;
            Ok(own.log()?.contains(what).then_some(()))
        })
    };
    ask()?;
    let broken = json!({"data": {"requestheader-allowed-names": "no JSON"}});
    change(config_map, &broken)?;
    told("the ConfigMap is invalid")?;
    host()?.delete(config_map)?;
    told("the ConfigMap was deleted")?;
    let data = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extension-apiserver-authentication"}, "data": original["data"]});
    host()?.apply(config_map, &data)?;
    ask()
}

#[test]
fn fault_78_changed_secret_takes_effect_within_seconds() -> Result<()> {
    let fake = FakeMember::start("e2e-secret", |_| ok())?;
    let other = FakeMember::unregistered("e2e-secret-other", |_| ok())?;
    let admin = Caller::certificate("e2e-secret", &["system:masters"])?;
    let direct = Endpoint::sidecar(harness::bed::sidecar()?, admin.certificate.as_deref())?;
    let path = member_path(&fake.name, "/asked");
    let ask =
        || direct.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes());
    let within = |what: &str, done: &dyn Fn(u16, &str) -> bool| {
        eventually(what, AT_MOST, || {
            let answer = ask()?;
            ensure!(done(answer.status(), &answer.text()), "{}: {}", answer.status(), answer.text());
            Ok(Some(()))
        })
    };
    within("it is reached", &|status, _| status == 200)?;
    // With a CA that is not the member's, the sidecar no longer uses connections that are already
    // open.
    fake.register(&json!({"ca.crt": other.ca()}))?;
    within("the new CA counts", &|status, text| status == 503 && text.contains("member unreachable"))?;
    fake.register(&json!({}))?;
    within("the old CA counts again", &|status, _| status == 200)?;
    fake.register(&json!({"token": "another-token"}))?;
    within("the new token counts", &|_, _| {
        let last = fake.requests("/asked").pop();
        last.is_some_and(|request| request.values("authorization") == ["Bearer another-token"])
    })?;
    host()?.delete(&format!("/api/v1/namespaces/{SYSTEM}/secrets/{}.member", fake.name))?;
    within("without a Secret it is off", &|status, text| status == 503 && text.contains("proxy off"))
}

#[test]
fn fault_77_recreated_member_replaces_the_old_one() -> Result<()> {
    let watch = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n";
    // The sidecar may see the new registration before its Secret, and the old member then gets a request.
    let old = FakeMember::start("e2e-again", move |request| match request.target().contains("watch=") {
        true => vec![Step::Send(watch.into()), Step::ReceiveAll],
        false => ok(),
    })?;
    let new = FakeMember::unregistered("e2e-again", |_| ok())?;
    let admin = Caller::certificate("e2e-again", &["system:masters"])?;
    let direct = Endpoint::sidecar(harness::bed::sidecar()?, admin.certificate.as_deref())?;
    let mut open = direct.connect()?;
    let path = member_path(&old.name, "/api/v1/open?watch=true");
    open.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    assert_eq!(open.head()?.status, 200);
    host()?.delete(&format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{}", old.name))?;
    new.register(&json!({}))?;
    // Open streams belong to the deleted member.
    open.rest()?;
    let path = member_path(&new.name, "/asked");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    eventually("the new one is reached", SOON, || {
        direct.exchange(request.as_bytes())?;
        Ok((!new.requests("/asked").is_empty()).then_some(()))
    })?;
    let before = old.requests("/asked").len();
    assert_eq!(direct.exchange(request.as_bytes())?.status(), 200);
    assert_eq!(old.requests("/asked").len(), before);
    Ok(())
}

/// Checks that the answer is a retryable error with a Retry-After.
fn is_retryable(what: &str, answer: &Response) -> Result<()> {
    let Response { head, .. } = answer;
    let retryable = [429, 503].contains(&head.status) && head.value("retry-after").is_some();
    ensure!(retryable, "{what}: {head:?} {}", answer.text());
    Ok(())
}

fn change(path: &str, patch: &serde_json::Value) -> Result<()> {
    let answer = host()?.request("PATCH", path, "application/merge-patch+json", &patch.to_string())?;
    ensure!(answer.status() == 200, "{}", answer.text());
    Ok(())
}

const AT_MOST: Duration = Duration::from_secs(5);
