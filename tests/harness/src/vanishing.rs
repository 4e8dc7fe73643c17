//! A server at an address that can vanish from the network, like a machine that loses power:
//! packets that are sent there get no answer, not even on open connections. It needs root, and the
//! bed's own network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::relay::Relay;

/// The address, until this is dropped.
pub struct Vanishing {
    address: Ipv4Addr,
    relay: Relay,
}

impl Vanishing {
    /// A relay to `https://address:port`, at its own address; `number` must be unique.
    pub fn to(server: &str, number: u8) -> Result<Self> {
        let address = Ipv4Addr::new(10, 88, 200, number);
        ip("add", address)?;
        Ok(Self { address, relay: Relay::at(IpAddr::V4(address), server)? })
    }

    pub fn address(&self) -> SocketAddr {
        self.relay.address
    }

    pub fn vanish(&self) -> Result<()> {
        ip("del", self.address)
    }

    pub fn come_back(&self) -> Result<()> {
        ip("add", self.address)
    }
}

impl Drop for Vanishing {
    fn drop(&mut self) {
        // It may already have vanished.
        let _ = ip("del", self.address);
    }
}

fn ip(what: &str, address: Ipv4Addr) -> Result<()> {
    let address = format!("{address}/32");
    let output = Command::new("ip").args(["addr", what, &address, "dev", "bridge0"]).output();
    let output = output.context("cannot start: ip")?;
    ensure!(output.status.success(), "ip addr {what} {address}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
