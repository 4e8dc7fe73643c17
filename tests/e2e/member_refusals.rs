//! Members that do not do what they are asked, and whom the caller should blame.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::bed::{member, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Request, Step, ok, reply};
use harness::http1::{Connection, Endpoint, member_path};
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
fn fault_51_a_refused_credential_is_read_again_and_the_request_repeated_once() -> Result<()> {
    let Renewal { fake, mut client, gate } = Renewal::begin("e2e-renewed")?;
    let path = member_path(&fake.name, "/plain");
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    renew(&fake, "/plain", &gate)?;
    let answer = client.response()?;
    ensure!(answer.status() == 200, "{}", answer.text());
    let came: Vec<_> = fake.requests("/plain").iter().map(credential).collect();
    assert_eq!(came, [format!("Bearer {}", fake.token), "Bearer renewed".to_owned()]);
    Ok(())
}

#[test]
fn fault_51_a_refused_upgrade_is_redone_with_the_new_credential() -> Result<()> {
    let Renewal { fake, mut client, gate } = Renewal::begin("e2e-renewed-upgrade")?;
    let path = member_path(&fake.name, "/upgrade");
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
    client.send(format!("{head}early").as_bytes())?;
    renew(&fake, "/upgrade", &gate)?;
    let head = client.head()?;
    ensure!(head.status == 101, "{head:?}");
    fake.wait_for("/upgrade", |request| {
        credential(request) == "Bearer renewed" && request.received == b"early"
    })?;
    assert_eq!(fake.requests("/upgrade").len(), 2);
    Ok(())
}

#[test]
fn fault_51_a_request_with_a_body_is_not_repeated_and_the_next_one_goes_with_the_new_credential() -> Result<()>
{
    let Renewal { fake, mut client, gate } = Renewal::begin("e2e-renewed-body")?;
    let path = member_path(&fake.name, "/body");
    client.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody").as_bytes())?;
    renew(&fake, "/body", &gate)?;
    let answer = client.response()?;
    ensure!(answer.status() == 503 && answer.text().contains("member authentication"), "{}", answer.text());
    ensure!(answer.text().contains("refused the sidecar's own credential"), "{}", answer.text());
    assert_eq!(fake.requests("/body").len(), 1);
    let path = member_path(&fake.name, "/next");
    client.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody").as_bytes())?;
    ensure!(client.response()?.status() == 200);
    assert_eq!(credential(&fake.requests("/next")[0]), "Bearer renewed");
    Ok(())
}

#[test]
fn fault_51_a_credential_without_a_successor_is_503_and_refused_once() -> Result<()> {
    let fake = FakeMember::start("e2e-not-renewed", |_| reply("401 Unauthorized", "", ""))?;
    let mut client = admin("e2e-not-renewed-admin")?;
    let path = member_path(&fake.name, "/plain");
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    let answer = client.response()?;
    ensure!(answer.status() == 503 && answer.text().contains("member authentication"), "{}", answer.text());
    assert_eq!(fake.requests("/plain").len(), 1);
    Ok(())
}

/// A member that refuses the credential it is registered with, once the gate is open.
struct Renewal {
    fake: FakeMember,
    client: Connection,
    gate: Gate,
}

impl Renewal {
    fn begin(name: &str) -> Result<Self> {
        let gate = Gate::closed();
        let refused = vec![Step::Wait(gate.clone()), refusal()];
        let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
        let fake = FakeMember::start(name, move |request| match credential(request).as_str() {
            "Bearer renewed" if request.target() == "/upgrade" => {
                vec![Step::Send(switched.into()), Step::ReceiveAll]
            }
            "Bearer renewed" => ok(),
            _ => refused.clone(),
        })?;
        Ok(Self { fake, client: admin(&format!("{name}-admin"))?, gate })
    }
}

/// Gives the member a new credential while it holds a request, and lets it refuse.
fn renew(fake: &FakeMember, target: &str, gate: &Gate) -> Result<()> {
    fake.wait_for(target, |_| true)?;
    fake.register(&json!({"token": "renewed"}))?;
    gate.open();
    Ok(())
}

fn refusal() -> Step {
    Step::Send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec())
}

fn credential(request: &Request) -> String {
    request.values("authorization").concat()
}

fn admin(name: &str) -> Result<Connection> {
    let admin = Caller::certificate(name, &["system:masters"])?;
    Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())?.connect()
}

#[test]
fn a_member_that_does_not_answer_is_given_up_after_a_minute() -> Result<()> {
    let fake = FakeMember::start("e2e-late", |request| match request.target() {
        target if target.ends_with("/hang") => vec![Step::Hang],
        _ => ok(),
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
