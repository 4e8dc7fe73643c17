//! A member recovers when the host was off for longer than tokens are valid: the manager's token
//! renews the impersonator's, and after an even longer outage, one command by an administrator
//! renews both. The test ages the tokens instead of waiting.

use std::time::Duration;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::aged_token::aged;
use harness::api::Api;
use harness::bed::{SYSTEM, member};
use harness::both_sides::both;
use harness::turn::Turn;
use harness::wait::{SOON, eventually};
use serde_json::json;

use super::EXPIRED;
use super::joined::Joined;
use crate::plugin;

#[test]
fn member_recovers_from_an_outage_longer_than_its_token() -> Result<()> {
    let joined = Joined::under("e2e-away")?;
    // A host that was off from day 1 to day 31.
    age(&joined, "manager", 31 * DAY)?;
    // The renewal may be done before this returns, so we compare with the token that was written.
    let old = age(&joined, "member", 31 * DAY)?;
    eventually("the token is renewed", SOON, || {
        Ok((joined.fleet.token("e2e-away.member")? != old).then_some(()))
    })?;
    joined.fleet.until("e2e-away", "CredentialValid", "True", "Accepted")?;
    joined.admin.ok(&["--cluster=e2e-away", "get", "namespaces"])?;
    Ok(())
}

#[test]
fn one_command_renews_every_member_whose_tokens_expired() -> Result<()> {
    let _turn = Turn::take(EXPIRED)?;
    let joined = Joined::under("e2e-away-long")?;
    // The agents of other tests' members may be disconnected for a moment.
    eventually("no member needs new tokens", 4 * SOON, || {
        let none = joined.admin.ok(&["join", "--all-expired"])?;
        ensure!(none.contains("no member needs new tokens"), "{none}");
        Ok(Some(()))
    })?;
    // A host that was off from day 1 to day 61.
    age(&joined, "manager", 61 * DAY)?;
    age(&joined, "member", 61 * DAY)?;
    let expired = joined.fleet.until("e2e-away-long", "CredentialValid", "False", "Expired")?;
    ensure!(expired.message.ends_with("kubectl mc join e2e-away-long --renew"), "{expired}");
    let refused = joined.admin.run(&["--cluster=e2e-away-long", "get", "namespaces"])?;
    refused.failure(&["member authentication", "join e2e-away-long --renew"])?;

    let said = joined.admin.ok(&["join", "--all-expired"])?;
    ensure!(said.contains("e2e-away-long has new tokens: its tokens live 30d"), "{said}");
    joined.admin.ok(&["--cluster=e2e-away-long", "get", "namespaces"])?;
    Ok(())
}

#[test]
fn tokens_are_renewed_through_the_members_own_context_only() -> Result<()> {
    let joined = Joined::under("e2e-away-renewed")?;
    let before = joined.fleet.token("e2e-away-renewed.manager")?;
    let said = joined.admin.ok(&["join", "e2e-away-renewed", "--renew", "--token-duration=1h"])?;
    ensure!(said.contains("e2e-away-renewed has new tokens: its tokens live 60m"), "{said}");
    ensure!(joined.fleet.token("e2e-away-renewed.manager")? != before, "the token is the same");

    // The only other context is that of another cluster.
    let renewed = joined.fleet.token("e2e-away-renewed.manager")?;
    let other = plugin(&both(member("m2")?, |_| {})?)?;
    other
        .run(&["join", "e2e-away-renewed", "--renew"])?
        .failure(&["no context of the kubeconfig is e2e-away-renewed"])?;
    let given = other.run(&["join", "e2e-away-renewed", "--renew", "--member-context=member"])?;
    given.failure(&["is not e2e-away-renewed"])?;
    ensure!(joined.fleet.token("e2e-away-renewed.manager")? == renewed, "the token is another one");
    other
        .run(&["join", "e2e-away-unknown", "--renew"])?
        .failure(&["e2e-away-unknown is not joined"])
        .map(drop)
}

#[test]
fn renewal_without_an_account_names_the_join() -> Result<()> {
    let joined = Joined::under("e2e-away-account")?;
    let member = Api::admin(joined.alone.cluster)?;
    member.delete(&format!("/api/v1/namespaces/{SYSTEM}/serviceaccounts/kubectl-mc-manager"))?;
    let renew = ["join", "e2e-away-account", "--renew", "--member-context=member"];
    joined.admin.run(&renew)?.failure(&[
        "has no service account kubectl-mc-system/kubectl-mc-manager",
        "join e2e-away-account --member-context=member",
    ])?;
    joined.admin.ok(&["join", "e2e-away-account", "--member-context=member"])?;
    joined.admin.ok(&renew).map(drop)
}

/// A member may grant less than was requested (`--service-account-max-token-expiration`).
#[test]
fn join_warns_of_tokens_shorter_than_a_weekend() -> Result<()> {
    let joined = Joined::under("e2e-away-capped")?;
    let cluster = joined.alone.cluster;
    cluster.restart_apiserver_with(&["--service-account-max-token-expiration=1h"])?;
    let renewed = joined.admin.run(&["join", "e2e-away-capped", "--renew"]);
    cluster.restart_apiserver()?;
    let renewed = renewed?;
    let warning = "warning: e2e-away-capped survives no outage of the host longer than 40m";
    ensure!(renewed.code == 0 && renewed.stderr.contains(warning), "{renewed:?}");
    Ok(())
}

/// Writes one of the member's tokens as it would be if it had been issued `age` ago, and returns
/// it.
fn age(joined: &Joined, which: &str, age: Duration) -> Result<String> {
    let secret = format!("{}.{which}", joined.name);
    let token = aged(joined.alone.cluster, &joined.fleet.token(&secret)?, age)?;
    let path = format!("/api/v1/namespaces/{SYSTEM}/secrets/{secret}");
    joined.fleet.host.merge(&path, &json!({"data": {"token": STANDARD.encode(&token)}}))?;
    Ok(token)
}

const DAY: Duration = Duration::from_secs(24 * 3600);
