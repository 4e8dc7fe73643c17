//! The loss of an agent's network is reported soon. These tests need root, because they need their
//! own IP address.

use std::time::Instant;

use anyhow::{Result, ensure};
use harness::bed::bed;
use harness::own_agent::{Difference, until, until_connected};
use harness::vanishing::Vanishing;

use crate::agents::ends::connected;

/// A network that drops all packets: neither end receives a FIN or RST.
#[test]
fn vanished_agent_is_noticed_within_half_a_minute() -> Result<()> {
    let vanishing = Vanishing::to(&bed()?.host.server, 40)?;
    let server = Some(format!("https://{}", vanishing.address()));
    let name = bed()?.host.server.trim_start_matches("https://").to_owned();
    let name = name.split(':').next().unwrap_or_default();
    let keys = [("tls-server-name", name)];
    let agent = connected("e2e-end-vanished", &Difference { server, keys: &keys, ..Difference::default() })?;
    vanishing.vanish()?;
    let vanished = Instant::now();
    until(&agent.cluster, "Connected", "False")?;
    let noticed = vanished.elapsed().as_secs();
    ensure!((5..40).contains(&noticed), "it was noticed after {noticed} s");
    vanishing.come_back()?;
    until_connected(&agent.cluster)
}
