//! Members work behind konnectivity's own server and agent, in http-connect mode. Tests that need pods are in
//! [`crate::upgrades`].

use anyhow::{Result, ensure};
use harness::both_sides::{alone, both};
use harness::fake_member::{FakeMember, Gate, Request, Step, ok};
use harness::http1::member_path;
use harness::konnectivity::Konnectivity;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::members::connection::endpoint;
use crate::members::joined::{NAME, Traces, follow};
use crate::plugin;

#[test]
fn member_is_joined_and_watched_through_konnectivity() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let konnectivity = Konnectivity::start(&[&alone.cluster.server])?;
    let caller = both(alone.cluster, |_| {})?;
    let flags = konnectivity.flags(caller.folder())?;
    let join = [&["join", NAME, "--member-context=member"].map(str::to_owned)[..], &flags].concat();
    let joined = plugin(&caller)?.ok(&join);
    let said = joined.map_err(|error| error.context(konnectivity.last_words()))?;
    follow(&caller, &said)?;
    let cluster = format!("--cluster={NAME}");
    let watch = [&cluster, "get", "configmaps", "-n", "default", "--watch", "-o", "name"];
    let mut watch = plugin(&caller)?.start(&watch)?;
    watch.wait_for("configmap/kube-root-ca.crt", SOON)?;
    let member = Tool::admin(alone.cluster)?;
    member.ok(&["create", "configmap", "e2e-konnectivity", "-n", "default"])?;
    watch.wait_for("configmap/e2e-konnectivity", SOON)?;
    drop(watch);
    member.ok(&["delete", "configmap", "e2e-konnectivity", "-n", "default"])?;
    plugin(&caller)?.ok(&["unjoin", NAME, "--member-context=member", "--yes"])?;
    Traces::of(&alone)?.same_as(&before)
}

#[test]
fn missing_agent_is_reported_as_a_proxy_failure() -> Result<()> {
    let fake = FakeMember::unregistered("e2e-konnectivity-agent", |_| ok())?;
    let mut konnectivity = Konnectivity::start(&[&format!("https://{}", fake.address)])?;
    fake.register(&konnectivity.secret_keys())?;
    fake.wait_until_reachable()?;
    konnectivity.stop_agent();
    let endpoint = endpoint(&fake.name)?;
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", member_path(&fake.name, "/plain"));
    let proxy_is_why =
        format!("proxy {}: it answered CONNECT by 500 Internal Server Error", konnectivity.url());
    eventually("the proxy is named", SOON, || {
        let answer = endpoint.exchange(request.as_bytes())?;
        ensure!(answer.status() == 503 && answer.text().contains(&proxy_is_why), "{}", answer.text());
        Ok(Some(()))
    })?;
    konnectivity.start_agent()?;
    fake.wait_until_reachable()
}

/// kubectl never half-closes a connection; programs behind a member's proxy may. The member answers only
/// after it has seen the client's end, so its answer cannot come before konnectivity's close.
#[test]
fn konnectivity_turns_a_half_close_into_a_close() -> Result<()> {
    let (answers, still_silent) = (Gate::closed(), Gate::closed());
    answers.open();
    let direct = FakeMember::unregistered("e2e-half-close-direct", at_the_end(answers))?;
    direct.register(&json!({}))?;
    assert_eq!(after_half_close(&direct)?, "after the end");
    let behind = FakeMember::unregistered("e2e-half-close-konnectivity", at_the_end(still_silent.clone()))?;
    let konnectivity = Konnectivity::start(&[&format!("https://{}", behind.address)])?;
    behind.register(&konnectivity.secret_keys())?;
    assert_eq!(after_half_close(&behind)?, "");
    still_silent.open();
    Ok(())
}

/// The bytes that arrive after the client's half-close.
fn after_half_close(fake: &FakeMember) -> Result<String> {
    fake.wait_until_reachable()?;
    let mut connection = endpoint(&fake.name)?.connect()?;
    let path = member_path(&fake.name, "/upgraded");
    let upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n").as_bytes())?;
    assert_eq!(connection.head()?.status, 101);
    connection.send(b"all")?;
    connection.finish()?;
    Ok(String::from_utf8(connection.rest()?)?)
}

/// Answers once the client's side has ended and `gate` is open.
fn at_the_end(gate: Gate) -> impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static {
    move |request| match request.target() {
        "/upgraded" => {
            let answer = Step::Send("after the end".into());
            vec![Step::Send(SWITCHED.into()), Step::ReceiveAll, Step::Wait(gate.clone()), answer]
        }
        _ => ok(),
    }
}

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
