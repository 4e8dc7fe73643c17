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
    /// Grant a user, a group or a service account access to a cluster, and a ClusterRole there
    #[command(after_help = GRANT_EXAMPLES)]
    Grant(GrantArgs),
    /// Revoke what grant has granted
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(GrantArgs),
    /// Show which rights of the sidecar are missing or surplus on a cluster, and why
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// Explain hop by hop whether a request would be allowed on a cluster, and what is missing
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// ClusterRole on the cluster: view, edit, admin or any other
    #[arg(value_name = "ROLE")]
    pub(crate) role: String,
    #[command(flatten)]
    pub(crate) who: WhoArgs,
    /// Namespace on the cluster [default: all namespaces]
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Validate with a server-side dry run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Clone, Debug, Default, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct WhoArgs {
    /// User name on the host
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Vec<String>,
    /// Group on the host
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Vec<String>,
    /// Service account of the host
    #[arg(long, value_name = "NAMESPACE:NAME")]
    pub(crate) serviceaccount: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Name of the cluster
    #[arg(value_name = "NAME")]
    pub(crate) name: ClusterName,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// User to explain the access of [default: yourself]
    #[arg(long = "as", value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Group of that user; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    pub(crate) groups: Vec<String>,
    /// Namespace on the cluster
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Verb of RBAC or kubectl: get, list, create, exec, logs …
    #[arg(value_name = "VERB")]
    pub(crate) verb: String,
    /// Resource (pods, deployments.apps, pods/log), object (pod/web) or a path such as /healthz
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: String,
    /// Name of the object
    #[arg(value_name = "OBJECT")]
    pub(crate) object: Option<String>,
}

const GRANT_EXAMPLES: &str = "\
Examples:
  # jane may read everything in m1 except Secrets
  kubectl mc access grant view --user=jane -C m1

  # The group dev may edit one namespace of m1
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

  # May I open a shell in this pod?
  kubectl mc access explain -C m1 exec pod/web -n shop

  # May jane, who is in the group dev?
  kubectl mc access explain --as=jane --as-group=dev -C m1 create deployments.apps -n shop";
