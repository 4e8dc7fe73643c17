//! The flags and verbs that are our own, and their help. No behaviour here. kubectl's argv does
//! not pass through this parser: [`crate::argv`] takes it apart first.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Run kubectl against a cluster that is reached through this one
#[derive(Debug, Parser)]
#[command(
    name = "kubectl mc",
    bin_name = "kubectl mc",
    version,
    override_usage = USAGE,
    help_template = "{about}\n\n{before-help}Usage:\n  {usage}\n\nCommands of its own:\n{subcommands}\n\n\
                     Flags (before kubectl's verb; those that choose clusters also after it):\n{options}{after-help}",
    before_help = EXAMPLES,
    after_help = AFTER,
    args_override_self = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) flags: Flags,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The flags of our own.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Flags {
    /// The cluster to run against [env: KUBECTL_MC_CLUSTER]
    #[arg(long, short = 'C', value_name = "NAME", global = true)]
    pub(crate) cluster: Vec<String>,
    /// The kubeconfig context of the host [env: KUBECTL_MC_CONTEXT; default: the current context]
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) context: Option<String>,
    /// The kubeconfig file of the host [default: KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) kubeconfig: Option<OsString>,

    /// Not there yet: reserved, so that it is never passed on to kubectl.
    #[arg(long, value_name = "SELECTOR", global = true, hide = true)]
    pub(crate) cluster_selector: Option<String>,
    /// Not there yet: reserved, so that it is never passed on to kubectl.
    #[arg(long, global = true, hide = true)]
    pub(crate) all_clusters: bool,
}

/// The verbs of our own.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the clusters behind the host
    Clusters(ClustersArgs),
    /// Print the version of this plugin (with a cluster chosen: kubectl's version)
    Version,
}

#[derive(Debug, Args)]
pub(crate) struct ClustersArgs {
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", value_enum)]
    pub(crate) output: Option<Output>,
    /// Label selector
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Leave the line of column names out
    #[arg(long)]
    pub(crate) no_headers: bool,
}

/// The output formats of `kubectl mc clusters`; a table when none is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Wide,
    Json,
    Yaml,
    Name,
}

const USAGE: &str = "kubectl mc [--cluster=NAME] COMMAND [ARGUMENTS of kubectl]";

const EXAMPLES: &str = "\
Examples:
  # What is behind the current context
  kubectl mc clusters

  # Any kubectl command, against the cluster m1
  kubectl mc --cluster=m1 get pods -A
  kubectl mc get pods -A --cluster=m1
  kubectl mc -C m1 exec -it deploy/web -- sh

  # Through another host
  kubectl mc --context=eu-host --cluster=m1 get nodes

  # The same cluster for a while
  export KUBECTL_MC_CLUSTER=m1
  kubectl mc logs -f deploy/web";

const AFTER: &str = "\
Words past `--` and every flag not named here reach kubectl as they are.
Environment:
  KUBECTL_MC_CLUSTER   the cluster when no --cluster is given
  KUBECTL_MC_CONTEXT   the host's context when no --context is given
  KUBECTL_MC_KUBECTL   the kubectl to run (else KUBECTL_PATH, else the one in PATH)
Exit codes:
  kubectl's own; 2 wrong usage, 3 no such cluster, 127 no kubectl";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn help_says_kubectl_mc_and_gives_examples_first() {
        let help = <Cli as clap::CommandFactory>::command().render_help().to_string();
        let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text:?} is missing in {help}"));
        assert!(place("Examples:") < place("Usage:\n  kubectl mc [--cluster=NAME]"));
        assert!(place("Usage:") < place("--cluster <NAME>"));
        assert!(!help.contains("kubectl-mc "), "{help}");
        assert!(!help.contains("cluster-selector"), "{help}");
    }

    #[test]
    fn a_flag_given_twice_counts_the_last_time_as_for_kubectl() {
        let cli = Cli::try_parse_from(["kubectl mc", "--context=a", "--context=b"]).unwrap();
        assert_eq!(cli.flags.context.as_deref(), Some("b"));
    }
}
