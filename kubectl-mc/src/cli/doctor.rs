//! Defines the flags of `doctor`.

use clap::Args;

use super::version::DataFormat;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Clusters: names, globs, /regexes/, @sets, !exclusions [default: all that you may enter; with --contexts all contexts]
    #[arg(value_name = "CLUSTER")]
    pub(crate) clusters: Vec<String>,
    /// Output format; every check is in it
    #[arg(long, short = 'o', value_name = "FORMAT")]
    pub(crate) output: Option<DataFormat>,
    /// Open no WebSocket and no SPDY connection to a pod of each cluster
    #[arg(long)]
    pub(crate) no_streams: bool,
}

const EXAMPLES: &str = "\
Checks this machine, the host, and each cluster through the same hops as a
command: exec, logs and port-forward as well, by a port-forward to a running
pod that carries no data. Nothing is changed.

Exit codes: 0 without a problem, 1 with one. Warnings are no problems.

Examples:
  # This machine, the host and all clusters
  kubectl mc doctor

  # Two clusters, for a program
  kubectl mc doctor m1 m2 -o json

  # The contexts of the kubeconfig in place of the host and its clusters
  kubectl mc doctor --contexts";
