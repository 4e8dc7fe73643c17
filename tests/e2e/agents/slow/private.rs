//! A member in a network that accepts no connections can be used through its agent. The agent there
//! is the shared one, with which `upgrades` also tests exec, attach, cp, logs and port-forward.
//! These tests need root, for the network.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::bed::{SYSTEM, bed, member};
use harness::own_agent::{self, own_data, until};
use harness::private_network::{MEMBER, OWN, PrivateNetwork};
use harness::registration::register_in;

#[test]
fn unreachable_member_is_ready_through_its_agent() -> Result<()> {
    let agent = own_agent::shared()?;
    until(&agent.cluster, "Ready", "True")?;
    // The same member without the agent.
    let mut data = own_data(member("m1")?)?;
    data["server"] = format!("https://{MEMBER}").into();
    data["tls-server-name"] = "kubernetes.default.svc".into();
    register_in(SYSTEM, "e2e-private-direct", &data)?;
    until("e2e-private-direct", "Reachable", "False")
}

#[test]
fn agent_network_accepts_no_incoming_connection() -> Result<()> {
    let network = PrivateNetwork::shared()?;
    // A closed port of an open network would refuse at once.
    for port in [6443, 10250] {
        let connected = TcpStream::connect_timeout(&SocketAddr::new(IpAddr::V4(OWN), port), A_SECOND);
        let error = connected.err().map(|error| error.kind());
        ensure!(error == Some(ErrorKind::TimedOut), "port {port}: {error:?}");
    }
    let address = |server: &str| server.trim_start_matches("https://").parse();
    ensure!(network.reaches(address(&bed()?.host.server)?)?, "the agent does not reach the host");
    ensure!(network.reaches(MEMBER)?, "the agent does not reach its member");
    ensure!(!network.reaches(address(&member("m2")?.server)?)?, "the agent reaches another member");
    Ok(())
}

const A_SECOND: Duration = Duration::from_secs(1);
