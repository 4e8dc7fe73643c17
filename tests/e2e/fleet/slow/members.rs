//! Members that leave and join while an informer runs.

use anyhow::{Result, ensure};
use harness::fake_member::{FakeMember, Request, Step, ok, reply};
use harness::registration;
use harness::tool::Tool;
use harness::wait::SOON;
use serde_json::json;
use testbed::programs;

use crate::fleet::View;

const JSON: &str = "Content-Type: application/json\r\n";

fn answer(request: &Request) -> Vec<Step> {
    if !request.target().contains("/configmaps") {
        return ok();
    }
    if request.target().contains("watch=") {
        let head = format!("HTTP/1.1 200 OK\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n");
        return vec![Step::Send(head.into()), Step::Hang];
    }
    let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"f","namespace":"e2e-fleet-leaves","resourceVersion":"5"}}]}"#;
    reply("200 OK", JSON, list)
}

#[test]
fn informer_follows_a_member_that_leaves_and_joins_again() -> Result<()> {
    let fake = FakeMember::start("e2e-fleet-leaver", answer)?;
    let (_view, caller) = View::with_fake("fleet-leaves", &fake)?;
    let informer = Tool::client(programs::informer(), &caller)?;
    let mut informer = informer.start(&["e2e-fleet-leaves", "strict"])?;
    informer.wait_for("SYNCED", SOON)?;
    let object = format!("e2e-fleet-leaves_{}/f", fake.name);
    let count = |stdout: &[u8], change: &str| {
        let line = format!("{change} {object}");
        String::from_utf8_lossy(stdout).lines().filter(|other| *other == line).count()
    };
    ensure!(count(informer.stdout().as_bytes(), "ADDED") == 1, "{}", informer.stdout());
    registration::remove(&fake.name)?;
    informer.wait_until("its objects are deleted", SOON, |stdout, _| count(stdout, "DELETED") == 1)?;
    fake.register(&json!({}))?;
    // The watch looks for new members every half minute.
    informer.wait_until("its objects are there again", SOON * 2, |stdout, _| count(stdout, "ADDED") == 2)?;
    let told = informer.stdout();
    ensure!(!told.contains("DELETED e2e-fleet-leaves_m1/a"), "{told}");
    Ok(())
}
