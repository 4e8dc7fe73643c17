//! An agent reconnects after a restart of the host's kube-apiserver, which carries its tunnel. The test runs
//! alone because every other test needs the host.

use anyhow::Result;
use harness::bed::{bed, host};
use harness::http1::member_path;
use harness::own_agent::until;
use harness::wait::{SOON, eventually};

use crate::agents::ends::connected;

#[test]
fn agent_reconnects_after_a_host_restart() -> Result<()> {
    let agent = connected("e2e-agent-host-restart", &harness::own_agent::Difference::default())?;
    until(&agent.cluster, "Reachable", "True")?;
    bed()?.host.restart_apiserver()?;
    agent.until_logged("disconnected")?;
    let path = member_path(&agent.cluster, "/api/v1/namespaces/default");
    eventually("the member answers through its agent", SOON, || host()?.get(&path).map(Some))?;
    Ok(())
}
