//! The flags of delegated authorization determine which paths need no right, and how long the
//! sidecar caches the host's decisions.

use anyhow::Result;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, ok};
use harness::http1::{Endpoint, member_path};
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::scene::{EVERY_VERB, Scene};
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn always_allowed_path_needs_a_login_and_opens_no_member() -> Result<()> {
    let fake = FakeMember::start("e2e-always-allowed", |_| ok())?;
    let caller = Caller::certificate("e2e-always-allowed-user", &[])?;
    let member = member_path(&fake.name, "/metrics");
    for (flag, code) in [("--authorization-always-allow-paths=*", 200), ("--goaway-chance=0", 403)] {
        let own = OwnSidecar::with(&Difference { flags: &[flag], ..Difference::default() })?;
        let (known, stranger) = (own.endpoint(caller.certificate.as_deref())?, own.endpoint(None)?);
        assert_eq!(get(&known, "/metrics")?, code, "{flag}");
        assert_eq!(get(&stranger, "/metrics")?, 401, "{flag}");
        assert_eq!(get(&known, &member)?, 403, "{flag}");
    }
    assert!(fake.requests("/metrics").is_empty());
    Ok(())
}

#[test]
fn removed_right_without_a_ttl_refuses_the_next_request() -> Result<()> {
    let fake = FakeMember::start("e2e-no-ttl", |_| ok())?;
    let scene = Scene::on("m2", "no-ttl")?;
    let caller = scene.caller()?;
    scene.let_in(&caller, &[&fake.name], EVERY_VERB)?;
    let flags = ["--authorization-webhook-cache-authorized-ttl=0s"];
    let own = OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?;
    let (endpoint, path) = (own.endpoint(caller.certificate.as_deref())?, member_path(&fake.name, "/asked"));
    assert_eq!(get(&endpoint, &path)?, 200);
    scene.shut_out(&caller)?;
    let attributes = json!({
        "group": "proxy.kubectl-mc.dev", "resource": "clusters", "subresource": "proxy",
        "name": fake.name, "verb": "get",
    });
    // By default the sidecar would cache each answer for ten seconds.
    eventually("the host knows", SOON, || {
        let may = scene.host.may(&caller.user, &caller.groups, &attributes)?;
        if may {
            get(&endpoint, &path)?;
        }
        Ok((!may).then_some(()))
    })?;
    assert_eq!(get(&endpoint, &path)?, 403);
    Ok(())
}

fn get(endpoint: &Endpoint, path: &str) -> Result<u16> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    Ok(endpoint.exchange(request.as_bytes())?.status())
}
