//! The flags and verbs that are our own, and their help. No behaviour here. kubectl's argv does
//! not pass through this parser: [`crate::argv`] takes it apart first.

mod access;
mod install;
mod join;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use kubectl_mc_api::go_duration::parse_flag;

pub(crate) use access::{AccessArgs, AccessCommand, DiffArgs, ExplainArgs, GrantArgs, WhoArgs};
pub(crate) use install::{Certificates, InstallArgs, PullPolicy, UninstallArgs};
pub(crate) use join::{ConnectionArgs, JoinArgs, MemberArgs, UnjoinArgs};

/// Run kubectl against clusters that are reached through this one
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
    /// The clusters to run against: names, globs, /regexes/, @sets, !exclusions; repeated or with commas
    /// [env: KUBECTL_MC_CLUSTER]
    #[arg(long, short = 'C', value_name = "CLUSTERS", global = true, help_heading = CHOICE)]
    pub(crate) cluster: Vec<String>,
    /// Clusters by their labels, as in env=prod,tier!=dev
    #[arg(long, value_name = "SELECTOR", global = true, help_heading = CHOICE)]
    pub(crate) cluster_selector: Option<String>,
    /// All clusters behind the host
    #[arg(long, global = true, help_heading = CHOICE)]
    pub(crate) all_clusters: bool,
    /// Clusters to leave out; written as for --cluster
    #[arg(long, value_name = "CLUSTERS")]
    pub(crate) exclude: Vec<String>,
    /// The clusters that the last command failed on
    #[arg(long)]
    pub(crate) retry_failed: bool,
    /// At how many clusters to work at once [default: by the number of cores]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cluster_concurrency: Option<NonZeroUsize>,
    /// How long a command may take on each of several clusters, as in 30s or 2m; 0 is without end
    /// [default: 30s for reads that end by themselves]
    #[arg(long, value_name = "DURATION", value_parser = parse_flag)]
    pub(crate) cluster_timeout: Option<Duration>,
    /// Change several clusters in turns of so many or such a share of them, as in 1,25%,rest
    #[arg(long, value_name = "TURNS")]
    pub(crate) batch: Option<String>,
    /// Begin no further turn when a cluster has failed
    #[arg(long, requires = "batch")]
    pub(crate) pause_on_failure: bool,
    /// Do not ask before several clusters are changed
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show the clusters and what would be run, and run nothing (kubectl's own --dry-run is not touched)
    #[arg(long, value_name = "WHAT", require_equals = true)]
    pub(crate) dry_run: Option<DryRun>,
    /// Whether to colour what several clusters say [default: on a terminal, unless NO_COLOR is set]
    #[arg(long, value_name = "WHEN")]
    pub(crate) color: Option<Color>,
    /// The kubeconfig context of the host [env: KUBECTL_MC_CONTEXT; default: the configuration's, then the current context]
    #[arg(long, value_name = "NAME", global = true, help_heading = OF_ALL)]
    pub(crate) context: Option<String>,
    /// The kubeconfig file of the host [default: KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE", global = true, help_heading = OF_ALL)]
    pub(crate) kubeconfig: Option<OsString>,
}

/// What is only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    Clusters,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// The verbs of our own.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the clusters behind the host
    Clusters(ClustersArgs),
    /// Say who may do what on a cluster, and why not
    Access(AccessArgs),
    /// Tell what differs between clusters, field by field, as in: compare get deploy/web -C m1,m2
    Compare,
    /// Make a cluster a member of the host
    Join(JoinArgs),
    /// Take a member away from the host
    Unjoin(UnjoinArgs),
    /// Put the sidecar on the host, or bring it up to date
    Install(Box<InstallArgs>),
    /// Take the sidecar off the host
    Uninstall(UninstallArgs),
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

/// Where the help of a verb has the flags that are not its own.
const CHOICE: &str = "Flags that choose clusters, for verbs that work on them";
const OF_ALL: &str = "Flags of every verb";
const USAGE: &str = "kubectl mc [--cluster=CLUSTERS] COMMAND [ARGUMENTS of kubectl]";

const EXAMPLES: &str = "\
Examples:
  # What is behind the current context
  kubectl mc clusters

  # Any kubectl command, against the cluster m1
  kubectl mc --cluster=m1 get pods -A
  kubectl mc get pods -A --cluster=m1
  kubectl mc -C m1 exec -it deploy/web -- sh

  # On several at once, each line or row with its cluster
  kubectl mc --cluster=m1,m2 get pods
  kubectl mc --cluster='eu-*' --exclude=eu-9 get nodes
  kubectl mc --cluster-selector=env=prod rollout restart deploy/web
  kubectl mc --all-clusters --dry-run=clusters delete pod web

  # Through another host
  kubectl mc --context=eu-host --cluster=m1 get nodes

  # The same cluster for a while
  export KUBECTL_MC_CLUSTER=m1
  kubectl mc logs -f deploy/web";

const AFTER: &str = "\
Words past `--` and every flag not named here reach kubectl as they are.
Environment:
  KUBECTL_MC_CLUSTER   the clusters when none are chosen by flags
  KUBECTL_MC_CONTEXT   the host's context when no --context is given
  KUBECTL_MC_READONLY  1 refuses every command that changes something
  KUBECTL_MC_KUBECTL   the kubectl to run (else KUBECTL_PATH, else the one in PATH)
Exit codes:
  one cluster: kubectl's own; several: 0 all succeeded, 4 some failed, 5 all failed;
  2 wrong usage, 3 no such cluster, 127 no kubectl, 130 interrupted";

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
        assert!(place("Examples:") < place("Usage:\n  kubectl mc [--cluster=CLUSTERS]"));
        assert!(place("Usage:") < place("--cluster <CLUSTERS>"));
        assert!(!help.contains("kubectl-mc "), "{help}");
    }

    #[test]
    fn a_flag_given_twice_counts_the_last_time_as_for_kubectl() {
        let cli = Cli::try_parse_from(["kubectl mc", "--context=a", "--context=b"]).unwrap();
        assert_eq!(cli.flags.context.as_deref(), Some("b"));
    }
}
