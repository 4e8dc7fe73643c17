//! A network without inbound connections: a network namespace whose firewall drops every packet
//! except for those of connections that began inside. Two addresses can be reached from there: the
//! host's and, under an address that exists nowhere else, one member's. It needs root, and the
//! bed's own network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use testbed::Cluster;

use crate::bed::{bed, member};

/// The namespace, which ends with the bed.
pub struct PrivateNetwork {
    name: String,
}

impl PrivateNetwork {
    /// The network of member m1.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<PrivateNetwork, String>> = OnceLock::new();
        let make = || Self::of(member("m1")?).map_err(|error| error.context("the private network"));
        let made = SHARED.get_or_init(|| make().map_err(|error| format!("{error:#}")));
        made.as_ref().map_err(|error| anyhow!("{error}"))
    }

    fn of(member: &Cluster) -> Result<Self> {
        let bed_name = bed()?.netns.as_ref().context("the bed has no network of its own")?;
        let network = Self { name: format!("{bed_name}-private") };
        let (host, member) = (address(&bed()?.host)?, address(member)?);
        ip(&["netns", "add", &network.name])?;
        let link = ["link", "add", LINK, "type", "veth", "peer", "name", "eth0", "netns", &network.name];
        ip(&link)?;
        ip(&["link", "set", LINK, "master", "bridge0", "up"])?;
        let own = format!("{OWN}/16");
        let inside = [
            &["link", "set", "lo", "up"][..],
            &["addr", "add", &own, "dev", "eth0"],
            &["link", "set", "eth0", "up"],
            // The address is translated on output, so it needs a route.
            &["route", "add", &format!("{}/32", MEMBER.ip()), "dev", "eth0"],
        ];
        for words in inside {
            network.run("ip", words)?;
        }
        let rules = format!(
            "table inet private {{
                chain input {{
                    type filter hook input priority 0; policy drop;
                    ct state established,related accept
                    iif lo accept
                }}
                chain output {{
                    type filter hook output priority 0; policy drop;
                    ct state established,related accept
                    oif lo accept
                    ip daddr {} tcp dport {} accept
                    ip daddr {} tcp dport {} accept
                }}
            }}
            table ip private-member {{
                chain output {{
                    type nat hook output priority -100;
                    ip daddr {} tcp dport {} dnat to {member}
                }}
            }}",
            host.ip(),
            host.port(),
            member.ip(),
            member.port(),
            MEMBER.ip(),
            MEMBER.port(),
        );
        network.run("nft", &[&rules])?;
        Ok(network)
    }

    /// The words to put before a program that should run in it.
    pub fn within(&self) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net=/run/netns/{}", self.name)]
    }

    /// Whether a connection to this address can be opened in it.
    pub fn reaches(&self, address: SocketAddr) -> Result<bool> {
        let open = format!("exec 3<>/dev/tcp/{}/{}", address.ip(), address.port());
        Ok(self.output("timeout", &["3", "bash", "-c", &open])?.status.success())
    }

    fn run(&self, program: &str, words: &[&str]) -> Result<()> {
        succeeded(&self.output(program, words)?, program, words)
    }

    fn output(&self, program: &str, words: &[&str]) -> Result<Output> {
        let [nsenter, namespace] = self.within();
        let mut command = Command::new(nsenter);
        let output = command.args([&namespace, program]).args(words).stdin(Stdio::null()).output();
        output.with_context(|| format!("cannot start: {program}"))
    }
}

/// The member's address, as seen from inside.
pub const MEMBER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1)), 6443);
/// The namespace's own address. Packets that are sent there are dropped.
pub const OWN: Ipv4Addr = Ipv4Addr::new(10, 88, 201, 1);
const LINK: &str = "private0";

fn address(cluster: &Cluster) -> Result<SocketAddr> {
    let address = cluster.server.trim_start_matches("https://").parse();
    address.with_context(|| format!("no address: {}", cluster.server))
}

fn ip(words: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(words).output().context("cannot start: ip")?;
    succeeded(&output, "ip", words)
}

fn succeeded(output: &Output, program: &str, words: &[&str]) -> Result<()> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {}", words.join(" "), said.trim());
    Ok(())
}
