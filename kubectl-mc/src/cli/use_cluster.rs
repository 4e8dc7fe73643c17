//! Defines the flags of `use`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UseArgs {
    /// Name of the cluster; - for the one before; without it the chosen cluster is printed
    #[arg(value_name = "CLUSTER")]
    pub(crate) name: Option<String>,
    /// Choose no cluster
    #[arg(long, conflicts_with = "name")]
    pub(crate) unset: bool,
}

const EXAMPLES: &str = "\
The choice belongs to the kubeconfig context of the host and is kept in
~/.local/state/kubectl-mc. Flags that choose clusters and KUBECTL_MC_CLUSTER
come first.

Examples:
  # Commands without a choice of clusters go to m1
  kubectl mc use m1
  kubectl mc get pods

  # Back to the cluster before
  kubectl mc use -";
