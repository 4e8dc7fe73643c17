//! Defines the flags of the plugin and their help, without behavior. The arguments of kubectl do
//! not go through this parser, because [`crate::argv`] removes them first.

mod access;
mod agent;
mod audit;
mod authz;
mod compare;
mod completion;
mod doctor;
mod hub;
mod hub_api;
mod install;
mod join;
mod kubeconfig;
mod listen;
mod login;
mod tail;
mod use_cluster;
mod values;
mod version;
mod wrap;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::go_duration::parse_flag;

use self::values::{count, not_blank};
pub(crate) use access::{
    AccessArgs, AccessCommand, AccessFormat, AccessListArgs, DiffArgs, ExplainArgs, GrantArgs, WhoArgs,
};
pub(crate) use agent::{AgentArgs, AgentTokenLife};
pub(crate) use audit::AuditArgs;
pub(crate) use authz::{
    AuthzApplyArgs, AuthzArgs, AuthzCommand, AuthzGenerateArgs, AuthzRemoveArgs, AuthzTokenArgs,
    AuthzVerifyArgs, Hub, HubArgs, ObjectsArgs, Part,
};
pub(crate) use compare::CompareArgs;
pub(crate) use completion::{CompletionArgs, CompletionCommand, Shell, ShimArgs};
pub(crate) use doctor::DoctorArgs;
pub(crate) use hub::HubChoice;
pub(crate) use hub_api::{HubApiApplyArgs, HubApiArgs, HubApiCommand, HubApiRemoveArgs};
pub(crate) use install::{Certificates, Expose, InstallArgs, PullPolicy, RELEASED_IMAGE, UninstallArgs};
pub(crate) use join::{ConnectionArgs, JoinArgs, MemberArgs, UnjoinArgs};
pub(crate) use kubeconfig::{EnvArgs, KubeconfigArgs, ShellArgs, ShellSyntax};
pub(crate) use listen::ListenArgs;
pub(crate) use login::{CredentialArgs, CredentialStore, LoginArgs, LogoutArgs, OidcArgs};
pub(crate) use tail::TailArgs;
pub(crate) use use_cluster::UseArgs;
pub(crate) use version::{DataFormat, GIT_COMMIT, GIT_VERSION, VersionArgs, version, with_commit};
pub(crate) use wrap::wrap;

/// Run kubectl against the member clusters behind a host cluster
#[derive(Debug, Parser)]
#[command(
    name = "kubectl mc",
    bin_name = "kubectl mc",
    version,
    override_usage = USAGE,
    help_template = "{about}\n\n{before-help}Usage:\n  {usage}\n\nCommands of the plugin:\n{subcommands}\n\n\
                     Flags (before or after kubectl's verb, but not after `--`):\n{options}{after-help}",
    before_help = EXAMPLES,
    after_help = AFTER,
    args_override_self = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// The flags of our own.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Flags {
    /// Clusters to run against: names, globs, /regexes/, @sets, !exclusions; repeated or separated by commas
    /// [env: KUBECTL_MC_CLUSTER]
    #[arg(long, short = 'C', value_name = "CLUSTERS", global = true, help_heading = CHOICE)]
    pub(crate) cluster: Vec<String>,
    /// Clusters by label, as in env=prod,tier!=dev
    #[arg(long, value_name = "SELECTOR", value_parser = not_blank, global = true, help_heading = CHOICE)]
    pub(crate) cluster_selector: Option<String>,
    /// Clusters by field, as in 'status.version>=v1.34,ready!=False'; narrows every other choice
    #[arg(long, value_name = "FIELDS", global = true, help_heading = CHOICE)]
    pub(crate) r#where: Vec<String>,
    /// All clusters behind the host
    #[arg(long, global = true, help_heading = CHOICE)]
    pub(crate) all_clusters: bool,
    /// Clusters to exclude; same syntax as --cluster
    #[arg(long, value_name = "CLUSTERS", global = true, help_heading = CHOICE)]
    pub(crate) exclude: Vec<String>,
    /// Contexts of the kubeconfig in place of clusters behind a host: -C chooses among them
    #[arg(long, global = true, help_heading = CHOICE)]
    pub(crate) contexts: bool,
    /// Contexts by server, user or namespace, as in 'user=admin,server!=*.dev.*'; narrows -C
    #[arg(long, value_name = "FIELDS", global = true, help_heading = CHOICE)]
    pub(crate) context_selector: Option<String>,
    /// Kubeconfig files for --contexts, each with its own users and clusters: folders, globs or files; repeated or separated
    /// by commas [default: the configuration's, then the files of --kubeconfig]
    #[arg(long, value_name = "DIR_OR_GLOB", value_delimiter = ',', global = true, help_heading = CHOICE)]
    pub(crate) kubeconfig_dir: Vec<OsString>,
    /// Clusters on which the last command failed
    #[arg(long, global = true, help_heading = CHOICE)]
    pub(crate) retry_failed: bool,
    /// Reconnect `port-forward` after a lost connection: a rollout, or a restart of the host
    #[arg(long)]
    pub(crate) keep: bool,
    /// Maximum number of clusters processed in parallel [default: 64; where kubectl runs, 4 to 16 by the number of cores]
    #[arg(long, value_name = "NUMBER", value_parser = count::<NonZeroUsize>, global = true, help_heading = SEVERAL)]
    pub(crate) cluster_concurrency: Option<NonZeroUsize>,
    /// Timeout of a command on each of several clusters, as in 30s or 2m; 0 disables it
    /// [default: 30s for reads that end by themselves]
    #[arg(long, value_name = "DURATION", value_parser = parse_flag, global = true, help_heading = SEVERAL)]
    pub(crate) cluster_timeout: Option<Duration>,
    /// Roll out in batches, by count or percentage of the clusters, as in 1,25%,rest
    #[arg(long, value_name = "BATCHES", global = true, help_heading = SEVERAL)]
    pub(crate) batch: Option<String>,
    /// Start no further batch after a cluster has failed
    #[arg(long, requires = "batch", global = true, help_heading = SEVERAL)]
    pub(crate) pause_on_failure: bool,
    /// Wait after each batch until the workloads have rolled out, and begin no further one if they do not [default: for
    /// apply, patch, replace, scale, set and rollout]
    #[arg(long, requires = "batch", global = true, help_heading = SEVERAL)]
    pub(crate) batch_wait: bool,
    /// Begin the next batch when the change is accepted
    #[arg(long, requires = "batch", conflicts_with = "batch_wait", global = true, help_heading = SEVERAL)]
    pub(crate) no_batch_wait: bool,
    /// Timeout of the rollout of a batch, as in 2m [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse_flag, requires = "batch", global = true, help_heading = SEVERAL)]
    pub(crate) batch_timeout: Option<Duration>,
    /// A kubectl command that must succeed on each cluster of a batch before the next one begins, as in
    /// 'kubectl get --raw /readyz'
    #[arg(long, value_name = "COMMAND", requires = "batch", global = true, help_heading = SEVERAL)]
    pub(crate) batch_check: Option<String>,
    /// Time between two batches, as in 30s
    #[arg(long, value_name = "DURATION", value_parser = parse_flag, requires = "batch", global = true, help_heading = SEVERAL)]
    pub(crate) batch_pause: Option<Duration>,
    /// Change several clusters without asking for confirmation
    #[arg(long, short = 'y', global = true, help_heading = SEVERAL)]
    pub(crate) yes: bool,
    /// Show the clusters and the commands, and run nothing (kubectl's own --dry-run is not affected)
    #[arg(long, value_name = "WHAT", require_equals = true, help_heading = SEVERAL)]
    pub(crate) dry_run: Option<DryRun>,
    /// Color the output of several clusters [default: on a terminal, unless NO_COLOR is set]
    #[arg(long, value_name = "WHEN", global = true, help_heading = SEVERAL)]
    pub(crate) color: Option<Color>,
    /// Route to members: through the host, or straight to the sidecar where the host publishes its address; auto takes the
    /// latter if it is reached [env: KUBECTL_MC_ROUTE; default: the configuration's, then auto]
    #[arg(long, value_name = "ROUTE", global = true, help_heading = OF_ALL)]
    pub(crate) route: Option<RouteChoice>,
    /// Project of the host's hub: auto, own, karmada, kubeadmiral, clusternet, cluster-gateway, rancher, ocm,
    /// clusterprofile[=NAMESPACE] or template=/PATH/{cluster}; auto takes kubectl-mc's own sidecar, else what the host serves
    /// [env: KUBECTL_MC_HUB; default: the configuration's, then auto]
    #[arg(long, value_name = "HUB", value_parser = HubChoice::from_str, global = true, help_heading = OF_ALL)]
    pub(crate) hub: Option<HubChoice>,
    /// Kubeconfig context of the host [env: KUBECTL_MC_CONTEXT; default: the configuration's, then the current context]
    #[arg(long, value_name = "NAME", global = true, help_heading = OF_ALL)]
    pub(crate) context: Option<String>,
    /// Kubeconfig file of the host [default: KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE", global = true, help_heading = OF_ALL)]
    pub(crate) kubeconfig: Option<OsString>,
    /// Log level: 1 logs what the plugin reads and decides, 6 its requests too [env: KUBECTL_MC_LOG]
    #[arg(long, short = 'v', value_name = "LEVEL", global = true, help_heading = OF_ALL)]
    pub(crate) v: Option<u8>,
}

impl Flags {
    /// Whether clusters are chosen by a flag.
    pub(crate) fn chooses_clusters(&self) -> bool {
        !self.r#where.is_empty() || self.chooses_contexts() || self.chooses_besides_where()
    }

    /// Whether members are chosen by a flag other than `--where`.
    pub(crate) fn chooses_besides_where(&self) -> bool {
        let excludes = !self.exclude.is_empty() || self.retry_failed;
        let by_list = self.cluster_selector.is_some() || self.all_clusters;
        !self.cluster.is_empty() || by_list || excludes
    }

    /// Whether contexts are chosen instead of members.
    pub(crate) fn chooses_contexts(&self) -> bool {
        self.contexts || self.context_selector.is_some()
    }

    /// The first given flag that only a kubectl command supports.
    pub(crate) fn of_kubectl_only(&self) -> Option<&'static str> {
        [
            (self.batch.is_some(), "--batch"),
            (self.pause_on_failure, "--pause-on-failure"),
            (self.dry_run.is_some(), "--dry-run=clusters"),
        ]
        .into_iter()
        .find_map(|(is_given, name)| is_given.then_some(name))
    }
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

/// The route to members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) enum RouteChoice {
    #[default]
    Auto,
    Host,
    Direct,
}

#[derive(Debug, Args)]
#[command(after_help = CLUSTERS_EXAMPLES)]
pub(crate) struct ClustersArgs {
    /// Names of clusters [default: all]
    #[arg(value_name = "CLUSTER")]
    pub(crate) names: Vec<ClusterName>,
    /// Output format: wide, json, yaml, name, or a template of kubectl (jsonpath=, custom-columns=, go-template=)
    #[arg(long, short = 'o', value_name = "FORMAT", value_parser = Output::parse)]
    pub(crate) output: Option<Output>,
    /// Label selector
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Omit the line of column names
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Show all labels as the last column
    #[arg(long)]
    pub(crate) show_labels: bool,
    /// Sort by a field, as in .status.lastSeen
    #[arg(long, value_name = "JSONPATH")]
    pub(crate) sort_by: Option<String>,
    /// Watch for changes after the list
    #[arg(long, short = 'w')]
    pub(crate) watch: bool,
}

/// The output formats of `kubectl mc clusters`; a table when none is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Wide,
    Json,
    Yaml,
    Name,
    /// A template, which is kubectl's.
    Template(String),
}

impl Output {
    fn parse(text: &str) -> Result<Self, String> {
        let kind = text.split('=').next().unwrap_or_default();
        Ok(match kind {
            "wide" | "json" | "yaml" | "name" if kind != text => return Err("it takes no value".to_owned()),
            "wide" => Self::Wide,
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            "name" => Self::Name,
            _ if TEMPLATES.contains(&kind) => Self::Template(text.to_owned()),
            _ => return Err(format!("expected wide, json, yaml, name, or one of {}", TEMPLATES.join(", "))),
        })
    }

    /// The format's name in kubectl.
    pub(crate) fn word(&self) -> &str {
        match self {
            Self::Wide => "wide",
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Name => "name",
            Self::Template(template) => template,
        }
    }
}

const TEMPLATES: &[&str] = &[
    "jsonpath",
    "jsonpath-as-json",
    "jsonpath-file",
    "custom-columns",
    "custom-columns-file",
    "go-template",
    "go-template-file",
];

/// Heading in the help of a verb for flags that are not its own.
const CHOICE: &str = "Flags that choose clusters";
const SEVERAL: &str = "Flags for several clusters";
const OF_ALL: &str = "Flags of every verb";
const USAGE: &str = "kubectl mc [--cluster=CLUSTERS] COMMAND [ARGUMENTS]";

const EXAMPLES: &str = "\
Examples:
  # The clusters behind the current context
  kubectl mc clusters

  # Any kubectl command, against the cluster m1
  kubectl mc --cluster=m1 get pods -A
  kubectl mc get pods -A --cluster=m1
  kubectl mc -C m1 exec -it deploy/web -- sh

  # On several clusters; each line or row names its cluster
  kubectl mc --cluster=m1,m2 get pods
  kubectl mc --cluster='eu-*' --exclude=eu-9 get nodes
  kubectl mc --cluster-selector=env=prod rollout restart deploy/web
  kubectl mc --all-clusters --dry-run=clusters delete pod web

  # The logs of all pods that match, as they go on
  kubectl mc tail '^web-' -f --all-clusters

  # Through another host
  kubectl mc --context=eu-host --cluster=m1 get nodes

  # helm, k9s and other tools on m1
  kubectl mc shell m1

  # The same cluster for a while
  kubectl mc use m1
  kubectl mc logs -f deploy/web";

/// What the plugin prints without arguments.
pub(crate) const OVERVIEW: &str = "\
Run kubectl against the member clusters behind a host cluster

  kubectl mc clusters                       the clusters behind this host
  kubectl mc -C m1 get pods                 any kubectl command, on one cluster
  kubectl mc -C m1,m2 get pods              on several; 'eu-*', --all-clusters
  kubectl mc use m1                         the cluster of the next commands
  kubectl mc shell m1                       helm, k9s and other tools on m1
  kubectl mc access explain -C m1 get pods  which hop refuses a request, and why
  kubectl mc doctor                         what is wrong, and how to fix it
";

/// Its last lines.
pub(crate) const OVERVIEW_END: &str = "\
Flags and examples: kubectl mc --help; one command: kubectl mc COMMAND --help
";

const CLUSTERS_EXAMPLES: &str = "\
Examples:
  # All clusters, with every column
  kubectl mc clusters -o wide

  # Those that are not ready, or older than Kubernetes 1.34
  kubectl mc clusters --where='ready!=True'
  kubectl mc clusters --where='status.version<v1.34'

  # The contexts of the kubeconfig, in place of the clusters behind a host
  kubectl mc clusters --contexts";

const AFTER: &str = "\
Words after `--` and flags that are not listed here reach kubectl unchanged.

Environment:
  KUBECTL_MC_CLUSTER   the clusters when none are chosen by flags
  KUBECTL_MC_CONTEXT   the host's context when no --context is given
  KUBECTL_MC_HUB       the project of the host's hub when no --hub is given
  KUBECTL_MC_ROUTE     the route to members when no --route is given
  KUBECTL_MC_LOG       the log level when no -v is given
  KUBECTL_MC_READONLY  1 refuses every command that may change something
  KUBECTL_MC_DIRECT    0 makes kubectl run every command
  KUBECTL_MC_KUBECTL   the kubectl to run (else KUBECTL_PATH, then PATH)
  KUBECTL_MC_COMPLETION_TIMEOUT  time limit of a completion [default: 800ms]

Exit codes:
  one cluster: kubectl's own; several: 0 all succeeded, 4 some, 5 all failed;
  2 wrong usage, 3 no such cluster, 127 no kubectl, 130 interrupted";

#[cfg(test)]
mod tests;
