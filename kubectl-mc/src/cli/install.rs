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
    /// Namespace of the sidecar and of the members' Secrets
    #[arg(long, short = 'n', value_name = "NAME", default_value = NAMESPACE, value_parser = namespace)]
    pub(crate) namespace: String,
    /// Image of mc-sidecar
    #[arg(long, value_name = "IMAGE", required = IMAGE.is_none(), default_value = IMAGE, value_parser = image)]
    pub(crate) image: Option<String>,
    /// Image pull policy [default: Kubernetes' own, by the image's tag]
    #[arg(long, value_name = "POLICY")]
    pub(crate) image_pull_policy: Option<PullPolicy>,
    /// Number of sidecar replicas
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) replicas: u32,
    /// Port of the sidecars [default: 10250; with --host-network 10260]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) secure_port: Option<u16>,
    /// Use the nodes' network, for hosts whose kube-apiserver cannot reach pods (EKS with an overlay network)
    #[arg(long)]
    pub(crate) host_network: bool,
    /// Issuer of the sidecars' serving certificate
    #[arg(long, value_name = "ISSUER", default_value = "self")]
    pub(crate) certificates: Certificates,
    /// Additional flag of `mc-sidecar serve`, as in --sidecar-flag=--max-tunnels=500; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true, require_equals = true)]
    pub(crate) sidecar_flag: Vec<String>,
    /// Context of the cluster that runs the sidecars, for hosts without nodes of their own
    #[arg(long, value_name = "CONTEXT", requires = "reach")]
    pub(crate) run_on: Option<String>,
    /// With --run-on: DNS name at which the host's kube-apiserver reaches the sidecars
    #[arg(long, value_name = "NAME", group = "reach", requires = "run_on")]
    pub(crate) external_name: Option<String>,
    /// With --run-on: address at which the host's kube-apiserver reaches the sidecars; may be repeated
    #[arg(long, value_name = "IP:PORT", group = "reach", requires = "run_on")]
    pub(crate) endpoint: Vec<SocketAddr>,
    /// With --run-on: URL of the host as the sidecars reach it [default: that of the context]
    #[arg(long, value_name = "URL", requires = "run_on")]
    pub(crate) host_server: Option<String>,

    /// Validate with a server-side dry run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show a diff; change nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) diff: bool,
    /// Print the manifests without contacting a cluster
    #[arg(long, short = 'o', value_name = "FORMAT", conflicts_with_all = ["dry_run", "diff", "run_on"])]
    pub(crate) output: Option<Output>,
    /// Take over fields that other field managers own
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// Timeout for the sidecars to become available; 0 disables it
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_flag)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = UNINSTALL_EXAMPLES)]
pub(crate) struct UninstallArgs {
    /// Namespace of the sidecar
    #[arg(long, short = 'n', value_name = "NAME", default_value = NAMESPACE, value_parser = namespace)]
    pub(crate) namespace: String,
    /// Context of the cluster that runs the sidecars, if it is not the host
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) run_on: Option<String>,
    /// Remove the members' registrations without asking for confirmation
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Validate with a server-side dry run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Timeout for the deletion of each object
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
    /// The sidecar itself, with its own certificate authority
    #[value(name = "self")]
    SelfManaged,
    /// cert-manager, which must be installed
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
  # On the cluster of the current context
  kubectl mc install --image=registry.example/mc-sidecar:0.1.0

  # Show what would change; print the manifests for a repository
  kubectl mc install --image=registry.example/mc-sidecar:0.1.0 --diff
  kubectl mc install --image=registry.example/mc-sidecar:0.1.0 -o yaml";

const UNINSTALL_EXAMPLES: &str = "\
Examples:
  # Remove the members first, each on both sides
  kubectl mc unjoin m1 --member-context=m1-admin
  kubectl mc uninstall";
