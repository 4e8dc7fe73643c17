//! Members that do not do what they are asked, and whom the caller should blame.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::bed::{member, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step};
use harness::http1::{Endpoint, member_path};
use harness::registration::register;
use harness::scene::{EVERY_VERB, Scene};
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::plugin;

#[test]
fn a_member_that_does_not_let_us_impersonate_is_told_from_one_that_refuses_the_caller() -> Result<()> {
    let scene = Scene::on("m2", "no-impersonation")?;
    // A real credential of a real member, without the right to impersonate anybody.
    let account = format!("/api/v1/namespaces/{}/serviceaccounts/powerless", scene.name);
    scene.api.apply(
        &account,
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "powerless"}}),
    )?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = scene.api.create(&format!("{account}/token"), &request)?;
    let m2 = member("m2")?;
    let ca = std::fs::read_to_string(&m2.ca_certificate)?;
    register(
        "e2e-no-impersonation",
        &json!({"server": m2.server, "ca.crt": ca, "token": answer["status"]["token"]}),
    )?;
    let caller = Caller::certificate("e2e-no-impersonation-user", &[])?;
    scene.let_in(&caller, &["e2e-no-impersonation"], EVERY_VERB)?;

    let endpoint = Endpoint::sidecar(sidecar()?, caller.certificate.as_deref())?;
    let path = member_path("e2e-no-impersonation", "/api/v1/namespaces/default/configmaps");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let answer = eventually("the member is known", SOON, || {
        let answer = endpoint.exchange(request.as_bytes())?;
        Ok((answer.status() != 404).then_some(answer))
    })?;
    ensure!(answer.status() == 403, "{}", answer.text());
    for words in ["member impersonation", "does not let the sidecar impersonate", "cannot impersonate"] {
        ensure!(answer.text().contains(words), "{words}: {}", answer.text());
    }
    plugin(&caller)?
        .run(&["--cluster=e2e-no-impersonation", "get", "configmaps"])?
        .failure(&["member impersonation", "e2e-no-impersonation"])?;
    Ok(())
}

#[test]
fn a_member_that_does_not_answer_is_given_up_after_a_minute() -> Result<()> {
    let fake = FakeMember::start("e2e-late", |request| match request.target() {
        target if target.ends_with("/hang") => vec![Step::Hang],
        _ => harness::fake_member::ok(),
    })?;
    let admin = Caller::certificate("e2e-late-admin", &["system:masters"])?;
    let mut connection = Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())?.connect()?;
    connection.set_patience(Duration::from_secs(75))?;
    let path = member_path(&fake.name, "/api/v1/namespaces/default/hang");
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    let answer = connection.response().context("no answer within 75 s")?;
    ensure!(answer.status() == 504, "{}", answer.text());
    ensure!(answer.text().contains("member unreachable"), "{}", answer.text());
    Ok(())
}
