//! The flags of `access`.

use clap::{Args, Subcommand};
use kubectl_mc_api::ClusterName;

#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct AccessArgs {
    #[command(subcommand)]
    pub(crate) command: AccessCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    /// Let somebody into a cluster, and give them a ClusterRole there
    #[command(after_help = GRANT_EXAMPLES)]
    Grant(GrantArgs),
    /// Take back what grant gave
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(GrantArgs),
    /// Show what the sidecar would change on a cluster to let in who may be let in, and why
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// Tell hop by hop whether somebody may do something on a cluster, and what is missing
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// A ClusterRole of the cluster: view, edit, admin, or one of its own
    #[arg(value_name = "ROLE")]
    pub(crate) role: String,
    #[command(flatten)]
    pub(crate) who: WhoArgs,
    /// Only in this namespace of the cluster
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Say what would change
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Clone, Debug, Default, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct WhoArgs {
    /// A user, as the host knows them
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Vec<String>,
    /// A group, as the host knows it
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Vec<String>,
    /// A service account of the host
    #[arg(long, value_name = "NAMESPACE:NAME")]
    pub(crate) serviceaccount: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The cluster
    #[arg(value_name = "NAME")]
    pub(crate) name: ClusterName,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The user to tell of, instead of yourself
    #[arg(long = "as", value_name = "USER")]
    pub(crate) user: Option<String>,
    /// A group of that user; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    pub(crate) groups: Vec<String>,
    /// The namespace on the cluster
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// get, list, create, exec, logs …, as kubectl or RBAC call it
    #[arg(value_name = "VERB")]
    pub(crate) verb: String,
    /// pods, deployments.apps, pods/log, or a path such as /healthz
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: String,
    /// The object's name
    #[arg(value_name = "OBJECT")]
    pub(crate) object: Option<String>,
}

const GRANT_EXAMPLES: &str = "\
Examples:
  # jane reads everything in m1 but Secrets
  kubectl mc access grant view --user=jane -C m1

  # The group dev changes things in one namespace of m1
  kubectl mc access grant edit --group=dev -n shop -C m1

  # A service account of the host
  kubectl mc access grant edit --serviceaccount=ci:deployer -n shop -C m1";

const REVOKE_EXAMPLES: &str = "\
Examples:
  kubectl mc access revoke view --user=jane -C m1";

const DIFF_EXAMPLES: &str = "\
Examples:
  kubectl mc access diff m1";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  # May I?
  kubectl mc access explain -C m1 get pods -n shop

  # May jane, who is in the group dev?
  kubectl mc access explain --as=jane --as-group=dev -C m1 create deployments.apps -n shop";
