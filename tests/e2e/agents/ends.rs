//! A tunnel ends with its account, its member or its agent's process. A tunnel that breaks is
//! opened again.

use anyhow::Result;
use harness::bed::{SYSTEM, bed, host, member};
use harness::own_agent::{self, Difference, OwnAgent, own_data, until, until_connected};

pub(crate) fn connected(cluster: &str, difference: &Difference<'_>) -> Result<OwnAgent> {
    own_agent::register(cluster, SYSTEM, &own_data(member("m1")?)?)?;
    let agent = OwnAgent::start(cluster, member("m1")?, difference)?;
    until_connected(cluster)?;
    Ok(agent)
}

#[test]
fn deleted_account_ends_its_tunnel() -> Result<()> {
    let agent = connected("e2e-end-account", &Difference::default())?;
    host()?.delete(&own_agent::account_path(&agent.cluster))?;
    until(&agent.cluster, "Connected", "False")?;
    agent.until_logged("disconnected")
}

#[test]
fn deleted_member_ends_its_tunnel() -> Result<()> {
    let agent = connected("e2e-end-member", &Difference::default())?;
    harness::registration::remove(&agent.cluster)?;
    agent.until_logged("disconnected")?;
    agent.until_logged("cannot connect to the host")
}

#[test]
fn killed_agent_is_noticed() -> Result<()> {
    let mut agent = connected("e2e-end-killed", &Difference::default())?;
    agent.kill()?;
    until(&agent.cluster, "Connected", "False")
}

#[test]
fn agent_reconnects_by_itself() -> Result<()> {
    let relay = harness::relay::Relay::to(&bed()?.host.server)?;
    let server = Some(format!("https://{}", relay.address));
    let name = bed()?.host.server.trim_start_matches("https://").to_owned();
    let name = name.split(':').next().unwrap_or_default();
    let keys = [("tls-server-name", name)];
    let agent = connected("e2e-end-cut", &Difference { server, keys: &keys, ..Difference::default() })?;
    relay.cut();
    until(&agent.cluster, "Connected", "False")?;
    relay.mend();
    until_connected(&agent.cluster)
}
