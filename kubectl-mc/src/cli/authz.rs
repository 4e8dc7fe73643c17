//! The flags of `authz`.

use std::num::NonZeroU16;

use clap::{Args, Subcommand, ValueEnum};
use kubectl_mc_api::names::NAMESPACE;
use kubectl_mc_api::ownership::{AGENT_NAMESPACE, CLUSTER_NAMESPACE, InvalidLayout, Layout};

#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct AuthzArgs {
    #[command(subcommand)]
    pub(crate) command: AuthzCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthzCommand {
    /// Print what keeps each agent to its own cluster: RBAC, admission policies, and the host's configuration
    #[command(after_help = GENERATE_EXAMPLES)]
    Generate(AuthzGenerateArgs),
    /// Check on the host what each agent may do, and show what is too wide or missing
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(AuthzVerifyArgs),
}

/// Whose agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hub {
    Karmada,
}

#[derive(Debug, Args)]
pub(crate) struct HubArgs {
    /// Names of the hub's clusters [default: all clusters of the hub]
    #[arg(value_name = "CLUSTER")]
    pub(crate) names: Vec<String>,
    /// Hub whose agents are meant
    #[arg(long = "for", value_name = "HUB")]
    pub(crate) agents_of: Hub,
    /// Whether agents may list and watch all Cluster objects, as karmada-agent does today
    #[arg(long, value_name = "POLICY", default_value = "Deny")]
    pub(crate) agents_list_clusters: ListClusters,
    /// Namespace of the clusters' Secrets and heartbeat Leases
    #[arg(long, value_name = "NAME", default_value = CLUSTER_NAMESPACE)]
    pub(crate) cluster_namespace: String,
    /// Namespace of the agents' election Leases
    #[arg(long, value_name = "NAME", default_value = AGENT_NAMESPACE)]
    pub(crate) agent_namespace: String,
    /// A host without the webhook: its kube-apiserver's flags cannot be set
    #[arg(long)]
    pub(crate) without_webhook: bool,
}

impl HubArgs {
    pub(crate) fn layout(&self) -> Result<Layout, InvalidLayout> {
        let layout = Layout {
            cluster_namespace: self.cluster_namespace.clone(),
            agent_namespace: self.agent_namespace.clone(),
            agents_list_clusters: self.agents_list_clusters == ListClusters::Allow,
        };
        layout.checked()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum ListClusters {
    Deny,
    Allow,
}

#[derive(Debug, Args)]
pub(crate) struct AuthzGenerateArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    /// Print only the objects of the host, or one of the two files of its kube-apiserver
    #[arg(long, value_name = "PART")]
    pub(crate) only: Option<Part>,
    /// Namespace of the sidecar
    #[arg(long, short = 'n', value_name = "NAME", default_value = NAMESPACE)]
    pub(crate) namespace: String,
    /// Port of the webhook, as the sidecars have it in authorization-webhook-port
    #[arg(long, value_name = "PORT", default_value = "10270")]
    pub(crate) webhook_port: NonZeroU16,
    /// URL at which the kube-apiserver reaches the webhook [default: the address of the printed Service]
    #[arg(long, value_name = "URL")]
    pub(crate) webhook_server: Option<String>,
}

/// A part of what `authz generate` prints: objects, the AuthorizationConfiguration, or the kubeconfig of the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Objects,
    Config,
    Kubeconfig,
}

#[derive(Debug, Args)]
pub(crate) struct AuthzVerifyArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

const GENERATE_EXAMPLES: &str = "\
Examples:
  # Everything, to read
  kubectl mc authz generate --for karmada

  # The objects of the host; roles of `karmadactl register` are narrowed
  kubectl mc authz generate --for karmada --only=objects |
    kubectl apply --server-side --force-conflicts -f -

  # The files of a kube-apiserver whose flags can be set
  kubectl mc authz generate --for karmada --only=config >mc-authz.yaml
  kubectl mc authz generate --for karmada --only=kubeconfig >authz.kubeconfig

  # A managed host: RBAC and admission policies only
  kubectl mc authz generate --for karmada --without-webhook

Nothing is changed. See docs/how-to/cluster-authorization.md.";

const VERIFY_EXAMPLES: &str = "\
Asks the host by SubjectAccessReviews what the agent of each cluster may do to
its own objects and to those of another cluster.

Exit codes: 0 exactly what an agent needs, 1 something is too wide or missing.

Examples:
  # The agents of all clusters
  kubectl mc authz verify --for karmada

  # One of them
  kubectl mc authz verify --for karmada m1";
