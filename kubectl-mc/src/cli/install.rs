//! The flags of `install` and `uninstall`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::go_duration::parse_flag;
use kubectl_mc_api::names::NAMESPACE;

#[derive(Debug, Args)]
#[command(after_help = INSTALL_EXAMPLES)]
pub(crate) struct InstallArgs {
    /// The namespace of the sidecar and of the members' Secrets
    #[arg(long, short = 'n', value_name = "NAME", default_value = NAMESPACE, value_parser = namespace)]
    pub(crate) namespace: String,
    /// The image of mc-sidecar
    #[arg(long, value_name = "IMAGE", required = IMAGE.is_none(), default_value = IMAGE, value_parser = image)]
    pub(crate) image: Option<String>,
    /// When nodes pull the image [default: as Kubernetes decides by the image's tag]
    #[arg(long, value_name = "POLICY")]
    pub(crate) image_pull_policy: Option<PullPolicy>,
    /// How many sidecars serve
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) replicas: u32,
    /// The port that the sidecars serve on [default: 10250, which private nodes of GKE admit; with
    /// --host-network 10260]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) secure_port: Option<u16>,
    /// Run on the nodes' network, where the host's kube-apiserver cannot reach pods (EKS with an overlay network)
    #[arg(long)]
    pub(crate) host_network: bool,
    /// Who makes the sidecars' serving certificate
    #[arg(long, value_name = "WHO", default_value = "self")]
    pub(crate) certificates: Certificates,
    /// A further flag of `mc-sidecar serve`, as in --sidecar-flag=--max-tunnels=500; repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true, require_equals = true)]
    pub(crate) sidecar_flag: Vec<String>,
    /// Run the sidecars in the cluster of this context, where the host has no nodes of its own
    #[arg(long, value_name = "CONTEXT", requires = "reach")]
    pub(crate) run_on: Option<String>,
    /// With --run-on: the name by which the host's kube-apiserver reaches the sidecars
    #[arg(long, value_name = "NAME", group = "reach", requires = "run_on")]
    pub(crate) external_name: Option<String>,
    /// With --run-on: an address by which the host's kube-apiserver reaches the sidecars; repeated
    #[arg(long, value_name = "IP:PORT", group = "reach", requires = "run_on")]
    pub(crate) endpoint: Vec<SocketAddr>,
    /// With --run-on: the host's server as the sidecars reach it [default: that of the context]
    #[arg(long, value_name = "URL", requires = "run_on")]
    pub(crate) host_server: Option<String>,

    /// Let the cluster judge and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show what would change, and change nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) diff: bool,
    /// Print what would be applied, and ask no cluster
    #[arg(long, short = 'o', value_name = "FORMAT", conflicts_with_all = ["dry_run", "diff", "run_on"])]
    pub(crate) output: Option<Output>,
    /// Take over fields that others have set
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// How long to wait until it is available
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_flag)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = UNINSTALL_EXAMPLES)]
pub(crate) struct UninstallArgs {
    /// The namespace of the sidecar
    #[arg(long, short = 'n', value_name = "NAME", default_value = NAMESPACE, value_parser = namespace)]
    pub(crate) namespace: String,
    /// The context of the cluster that the sidecars run in, where it is not the host
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) run_on: Option<String>,
    /// Do not ask before the members' registrations are removed
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Let the cluster judge and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long to wait until everything is gone
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_flag)]
    pub(crate) timeout: Duration,
}

/// A DNS label, as a cluster's name is.
fn namespace(text: &str) -> Result<String, &'static str> {
    text.parse::<ClusterName>().map(Into::into).map_err(|error| error.reason)
}

/// What is no image at all; the rest is the nodes' to judge.
fn image(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("it is empty"),
        _ if text.contains(char::is_whitespace) => Err("it has white space in it"),
        _ => Ok(text.to_owned()),
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PullPolicy {
    #[value(name = "Always")]
    Always,
    #[value(name = "IfNotPresent")]
    IfNotPresent,
    #[value(name = "Never")]
    Never,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Certificates {
    /// The sidecar itself, from an authority of its own
    #[value(name = "self")]
    SelfManaged,
    /// cert-manager, which must be there
    CertManager,
}

/// The one format of what would be applied.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Output {
    Yaml,
}

/// A release names its image.
const IMAGE: Option<&str> = option_env!("KUBECTL_MC_IMAGE");

const INSTALL_EXAMPLES: &str = "\
Examples:
  # Onto the cluster of the current context
  kubectl mc install --image=registry.example/mc-sidecar:0.1.0

  # What would change; and what to keep in a repository
  kubectl mc install --image=registry.example/mc-sidecar:0.1.0 --diff
  kubectl mc install --image=registry.example/mc-sidecar:0.1.0 -o yaml";

const UNINSTALL_EXAMPLES: &str = "\
Examples:
  # Take the members away first, each on both sides
  kubectl mc unjoin m1
  kubectl mc uninstall";
