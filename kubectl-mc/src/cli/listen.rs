//! Defines the flags of `listen`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListenArgs {
    /// Clusters, with the syntax of --cluster; the first is the current context
    #[arg(value_name = "CLUSTER")]
    pub(crate) clusters: Vec<String>,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Loopback address to listen on [default: 127.0.0.1 and ::1]
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    pub(crate) address: Option<IpAddr>,
    /// New file for the kubeconfig, removed at the end [default: one in a folder of this run]
    #[arg(long, value_name = "FILE")]
    pub(crate) write_kubeconfig: Option<PathBuf>,
    /// Require no token: every user and program of this machine can act on the clusters as you
    #[arg(long)]
    pub(crate) no_token: bool,
}

/// Parses a loopback address.
fn loopback(text: &str) -> Result<IpAddr, &'static str> {
    let address: IpAddr = text.parse().map_err(|_| "expected an IP address")?;
    let refused = "only a loopback address is allowed, as 127.0.0.1 or ::1";
    address.is_loopback().then_some(address).ok_or(refused)
}

const EXAMPLES: &str = "\
For tools that cannot use a server with a path. Each cluster is a server of
its own: https://NAME.localhost:PORT, or https://127.0.0.1:PORT/NAME. Requests
need the token in the printed kubeconfig, and are sent on with your own
credential. The kubeconfig is removed at the end.

Examples:
  # m1 and m2, on a free port
  kubectl mc listen m1 m2

  # All clusters, with a kubeconfig in a place of your choice
  kubectl mc listen --all-clusters --port=8443 --write-kubeconfig=fleet.yaml
  KUBECONFIG=fleet.yaml TOOL --context=m1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_accepted() {
        for text in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert!(loopback(text).is_ok(), "{text}");
        }
        for text in ["0.0.0.0", "::", "192.168.0.1", "::ffff:127.0.0.1", "localhost", "", "127.0.0.1:80"] {
            assert!(loopback(text).is_err(), "{text}");
        }
    }
}
