//! Defines the flags of `hub-api`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use kubectl_mc_api::go_duration::parse_flag;
use kubectl_mc_api::names::NAMESPACE;

use super::authz::Hub;

#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct HubApiArgs {
    #[command(subcommand)]
    pub(crate) command: HubApiCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HubApiCommand {
    /// Put the sidecar in front of the hub's server: its APIService leads to the sidecar
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(HubApiApplyArgs),
    /// Put the APIService back as it was
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove(HubApiRemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct HubApiApplyArgs {
    /// Hub whose API group is meant
    #[arg(long = "for", value_name = "HUB")]
    pub(crate) group_of: Hub,
    /// Service of the sidecar [default: that of APIService v1alpha1.proxy.kubectl-mc.dev, with its CA]
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]")]
    pub(crate) service: Option<String>,
    /// Namespace of the sidecar
    #[arg(long, short = 'n', value_name = "NAME", default_value = NAMESPACE)]
    pub(crate) namespace: String,
    /// CA of the serving certificate of that Service [default: the CAs of the host]
    #[arg(long, value_name = "FILE", requires = "service")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Validate with a server-side dry run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long to wait for the sidecar to serve the group, before the APIService is put back
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_flag)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct HubApiRemoveArgs {
    /// Hub whose API group is meant
    #[arg(long = "for", value_name = "HUB")]
    pub(crate) group_of: Hub,
    /// Validate with a server-side dry run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long to wait for the hub's own server to answer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_flag)]
    pub(crate) timeout: Duration,
}

const APPLY_EXAMPLES: &str = "\
With its flags --inventory=membercluster,karmada and --karmada-server the
sidecar answers requests for clusters/proxy of group cluster.karmada.io, and
forwards all others to karmada-aggregated-apiserver. If it does not serve the
group in time, the APIService is put back.

Examples:
  # Validate, and show what would change
  kubectl mc hub-api apply --for karmada --dry-run

  # karmadactl and kubeconfigs with Karmada's paths go through the sidecar
  kubectl mc hub-api apply --for karmada

See docs/how-to/karmada-in-place.md.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  # Karmada's own server has its path again
  kubectl mc hub-api remove --for karmada";
