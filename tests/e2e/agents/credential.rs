//! The agent renews its own token for the host, and uses the new one after the old one has expired.

use std::time::Duration;

use anyhow::Result;
use harness::aged_token::aged;
use harness::bed::{SYSTEM, bed, member};
use harness::own_agent::{self, Difference, OwnAgent, own_data, until_connected};

#[test]
fn aged_credential_is_renewed_through_the_tunnel() -> Result<()> {
    let cluster = "e2e-agent-aged";
    own_agent::register(cluster, SYSTEM, &own_data(member("m1")?)?)?;
    let aged = aged(&bed()?.host, &own_agent::token(cluster, 3600)?, Duration::from_secs(3000))?;
    let agent = OwnAgent::start(
        cluster,
        member("m1")?,
        &Difference { keys: &[("token", &aged)], ..Difference::default() },
    )?;
    until_connected(cluster)?;
    agent.until_logged("credential renewed")?;
    assert!(!agent.log()?.contains(&aged[aged.len() - 40..]), "the token is in the log");
    Ok(())
}

#[test]
fn expired_token_is_logged_and_a_new_one_is_used() -> Result<()> {
    let cluster = "e2e-agent-expired";
    own_agent::register(cluster, SYSTEM, &own_data(member("m1")?)?)?;
    let token = own_agent::token(cluster, 3600)?;
    let expired = aged(&bed()?.host, &token, Duration::from_secs(4000))?;
    let keys = [("token", expired.as_str())];
    let agent =
        OwnAgent::start(cluster, member("m1")?, &Difference { keys: &keys, ..Difference::default() })?;
    agent.until_logged("401 Unauthorized")?;
    // The agent reads the folder again at each attempt.
    std::fs::write(agent.connection.join("token"), token)?;
    until_connected(cluster)
}
