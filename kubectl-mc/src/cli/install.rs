//! Defines the flags of `install` and `uninstall`.

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kubectl_mc_api::direct::Server;
use kubectl_mc_api::go_duration::parse_flag;
use kubectl_mc_api::names::NAMESPACE;
use kubectl_mc_api::{ClusterName, Origin};
use serde_json::{Map, Value};

use super::values::{count, host_server, image};

#[derive(Debug, Args)]
#[command(after_help = INSTALL_EXAMPLES)]
pub(crate) struct InstallArgs {
    /// Namespace of the sidecar and of the members' Secrets
    #[arg(long, short = 'n', value_name = "NAME", default_value = NAMESPACE, value_parser = namespace)]
    pub(crate) namespace: String,
    /// Image of mc-sidecar [default: that of --values, else the image of this release]
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    pub(crate) image: Option<String>,
    /// File of values, with the names of the Helm chart's values.yaml; flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) values: Option<PathBuf>,
    /// Image pull policy [default: Kubernetes' own, by the image's tag]
    #[arg(long, value_name = "POLICY")]
    pub(crate) image_pull_policy: Option<PullPolicy>,
    /// Secret with the credential of the registry; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) image_pull_secret: Vec<String>,
    /// Number of sidecar replicas [default: 2]
    #[arg(long, value_name = "NUMBER", value_parser = count::<NonZeroU32>)]
    pub(crate) replicas: Option<NonZeroU32>,
    /// Port of the sidecars [default: 10250; with --host-network 10260]
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub(crate) secure_port: Option<NonZeroU16>,
    /// Use the nodes' network, for hosts whose kube-apiserver cannot reach pods (EKS with an overlay network)
    #[arg(long)]
    pub(crate) host_network: bool,
    /// Issuer of the sidecars' serving certificate [default: self]
    #[arg(long, value_name = "ISSUER")]
    pub(crate) certificates: Option<Certificates>,
    /// Service that exposes the sidecars to clients, past the host's kube-apiserver [default: none]
    #[arg(long, value_name = "TYPE")]
    pub(crate) expose: Option<Expose>,
    /// URL at which clients reach the exposed sidecars [default: the address of the load balancer]
    #[arg(long, value_name = "URL", requires = "expose")]
    pub(crate) direct_server: Option<Server>,
    /// Groups that may list clusters, or none; each caller sees only those they may enter [default: system:authenticated]
    #[arg(long, value_name = "GROUP,...", value_delimiter = ',', value_parser = group)]
    pub(crate) list_for: Vec<String>,
    /// Serve the members as one cluster (clusters/*/proxy)
    #[arg(long)]
    pub(crate) fleet_view: bool,
    /// Inventories to read members from: membercluster, and karmada or kubeadmiral; a name in both is served from
    /// the first [default: membercluster]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) inventory: Vec<Origin>,
    /// PriorityClass of the pods
    #[arg(long, value_name = "NAME")]
    pub(crate) priority_class: Option<String>,
    /// Resource requests, as in cpu=100m,memory=64Mi
    #[arg(long, value_name = "RESOURCE=QUANTITY", value_delimiter = ',', value_parser = pair)]
    pub(crate) requests: Vec<(String, String)>,
    /// Resource limits, as in memory=1Gi
    #[arg(long, value_name = "RESOURCE=QUANTITY", value_delimiter = ',', value_parser = pair)]
    pub(crate) limits: Vec<(String, String)>,
    /// Labels of the nodes that may run the pods
    #[arg(long, value_name = "LABEL=VALUE", value_delimiter = ',', value_parser = pair)]
    pub(crate) node_selector: Vec<(String, String)>,
    /// Toleration of the pods; may be repeated
    #[arg(long, value_name = "KEY[=VALUE][:EFFECT]", value_parser = toleration)]
    pub(crate) toleration: Vec<Map<String, Value>>,
    /// Additional flag of `mc-sidecar serve`, as in --sidecar-flag=--max-tunnels=500; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true, require_equals = true, value_parser = sidecar_flag)]
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
    #[arg(long, value_name = "URL", requires = "run_on", value_parser = host_server)]
    pub(crate) host_server: Option<String>,

    /// Validate with a server-side dry run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show a diff; change nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) diff: bool,
    /// Print the manifests without contacting a cluster
    #[arg(long, short = 'o', value_name = "FORMAT", conflicts_with_all = ["dry_run", "diff", "run_on", "external_name", "endpoint", "host_server"])]
    pub(crate) output: Option<Output>,
    /// Install without flags of the last run that this command lacks
    #[arg(long)]
    pub(crate) reset_flags: bool,
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
    /// Timeout for the deletion of each object; 0 disables it
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_flag)]
    pub(crate) timeout: Duration,
}

/// Parses a DNS label, with the rules of a cluster's name.
fn namespace(text: &str) -> Result<String, &'static str> {
    text.parse::<ClusterName>().map(Into::into).map_err(|error| error.reason)
}

fn port(text: &str) -> Result<NonZeroU16, &'static str> {
    text.parse().map_err(|_| "a port is 1 to 65535")
}

fn sidecar_flag(text: &str) -> Result<String, &'static str> {
    match text.strip_prefix("--") {
        Some(flag) if !flag.is_empty() => Ok(text.to_owned()),
        _ => Err("a flag begins with --, as in --sidecar-flag=--max-tunnels=500"),
    }
}

fn group(text: &str) -> Result<String, &'static str> {
    if text.is_empty() { Err("the name of a group is missing") } else { Ok(text.to_owned()) }
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE"),
    }
}

/// Parses a toleration in the syntax of `kubectl taint`; without an effect it matches all effects.
fn toleration(text: &str) -> Result<Map<String, Value>, String> {
    let (taint, effect) = text.split_once(':').map_or((text, None), |(taint, effect)| (taint, Some(effect)));
    if effect.is_some_and(|effect| !EFFECTS.contains(&effect)) {
        return Err(format!("the effect must be one of {}", EFFECTS.join(", ")));
    }
    let (key, value) = taint.split_once('=').map_or((taint, None), |(key, value)| (key, Some(value)));
    if key.is_empty() {
        return Err("expected KEY[=VALUE][:EFFECT]".to_owned());
    }
    let operator = if value.is_some() { "Equal" } else { "Exists" };
    let fields = [("key", Some(key)), ("operator", Some(operator)), ("value", value), ("effect", effect)];
    Ok(fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?.into()))).collect())
}

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

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

/// The type of the Service of the direct endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Expose {
    #[value(name = "LoadBalancer")]
    LoadBalancer,
    #[value(name = "NodePort")]
    NodePort,
    /// No Service: clients reach the sidecars through the host only
    None,
}

/// The one format of what would be applied.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Output {
    Yaml,
}

/// The image of this release, pinned by digest.
pub(crate) const RELEASED_IMAGE: Option<&str> = option_env!("KUBECTL_MC_IMAGE");

const INSTALL_EXAMPLES: &str = "\
Examples:
  # On the cluster of the current context
  kubectl mc install --image=registry.example/mc-sidecar:0.1.0

  # Show what would change; print the manifests for a repository
  kubectl mc install --image=registry.example/mc-sidecar:0.1.0 --diff
  kubectl mc install --image=registry.example/mc-sidecar:0.1.0 -o yaml

  # With an address of its own for clients and agents
  kubectl mc install --values=values.yaml --expose=LoadBalancer

  # With the values of the Helm chart
  kubectl mc install --image=registry.example/mc-sidecar --values=values.yaml";

const UNINSTALL_EXAMPLES: &str = "\
Examples:
  # Remove the members first, each on both sides
  kubectl mc unjoin m1 --member-context=m1-admin
  kubectl mc uninstall";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn toleration_is_parsed_as_a_taint() {
        let parsed = |text| toleration(text).map(Value::from);
        let whole = json!({"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"});
        assert_eq!(parsed("a=b:NoSchedule"), Ok(whole));
        assert_eq!(parsed("a"), Ok(json!({"key": "a", "operator": "Exists"})));
        let effect = json!({"key": "a", "operator": "Exists", "effect": "NoExecute"});
        assert_eq!(parsed("a:NoExecute"), Ok(effect));
        assert!(parsed("a:Never").is_err() && parsed("=b").is_err() && parsed("").is_err());
    }
}
