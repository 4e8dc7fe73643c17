//! Defines the flags of `authz`.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use kubectl_mc_api::go_duration::parse_flag;
use kubectl_mc_api::names::NAMESPACE;
use kubectl_mc_api::ownership::{AGENT_NAMESPACE, CLUSTER_NAMESPACE, InvalidLayout, Layout};

use super::values::life;

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
    /// Apply the objects that `generate` prints
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(AuthzApplyArgs),
    /// Check on the host what each agent may do, and show what is too wide or missing
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(AuthzVerifyArgs),
    /// Create a bootstrap token for one cluster, and print the command that registers it
    #[command(after_help = TOKEN_EXAMPLES)]
    Token(AuthzTokenArgs),
    /// Remove the objects of the host, or all rights of the agents of some clusters
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove(AuthzRemoveArgs),
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
    /// A host without the admission webhooks of the sidecar: certificates of agents are not judged
    #[arg(long)]
    pub(crate) without_admission_webhook: bool,
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

/// Which objects the host gets.
#[derive(Debug, Args)]
pub(crate) struct ObjectsArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    /// Namespace of the sidecar
    #[arg(long, short = 'n', value_name = "NAME", default_value = NAMESPACE)]
    pub(crate) namespace: String,
    /// Port of the webhook, as the sidecars have it in authorization-webhook-port
    #[arg(long, value_name = "PORT", default_value = "10270")]
    pub(crate) webhook_port: NonZeroU16,
    /// Port of the admission webhooks, as the sidecars have it in admission-webhook-port
    #[arg(long, value_name = "PORT", default_value = "10271")]
    pub(crate) admission_webhook_port: NonZeroU16,
    /// URL at which the kube-apiserver reaches the admission webhooks [default: the Service of the webhooks]
    #[arg(long, value_name = "URL")]
    pub(crate) admission_webhook_server: Option<String>,
    /// CA of the sidecars' serving certificates [default: that of the aggregated API on the host]
    #[arg(long, value_name = "FILE")]
    pub(crate) admission_webhook_ca_file: Option<PathBuf>,
    /// Let the sidecars keep the RBAC of agents: grant their account the rights for it, limited by a policy
    #[arg(long)]
    pub(crate) kept_by_sidecar: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuthzApplyArgs {
    #[command(flatten)]
    pub(crate) objects: ObjectsArgs,
    /// Validate with a server-side dry run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show a diff; change nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) diff: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuthzRemoveArgs {
    /// Clusters whose agents lose all rights on the host [default: remove the protection, and leave agents their rights]
    #[arg(value_name = "CLUSTER")]
    pub(crate) names: Vec<String>,
    /// Hub whose agents are meant
    #[arg(long = "for", value_name = "HUB")]
    pub(crate) agents_of: Hub,
    /// Namespace of the clusters' Secrets and heartbeat Leases
    #[arg(long, value_name = "NAME", default_value = CLUSTER_NAMESPACE)]
    pub(crate) cluster_namespace: String,
    /// Namespace of the agents' election Leases
    #[arg(long, value_name = "NAME", default_value = AGENT_NAMESPACE)]
    pub(crate) agent_namespace: String,
    /// Namespace of the sidecar
    #[arg(long, short = 'n', value_name = "NAME", default_value = NAMESPACE)]
    pub(crate) namespace: String,
    /// Remove without asking for confirmation
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Validate with a server-side dry run; delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Timeout for the deletion of each object; 0 disables it
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_flag)]
    pub(crate) timeout: Duration,
}

impl AuthzRemoveArgs {
    pub(crate) fn layout(&self) -> Result<Layout, InvalidLayout> {
        let (cluster_namespace, agent_namespace) =
            (self.cluster_namespace.clone(), self.agent_namespace.clone());
        Layout { cluster_namespace, agent_namespace, agents_list_clusters: false }.checked()
    }
}

#[derive(Debug, Args)]
pub(crate) struct AuthzTokenArgs {
    /// Cluster that is to be registered
    #[arg(value_name = "CLUSTER")]
    pub(crate) name: String,
    /// Hub of the cluster
    #[arg(long = "for", value_name = "HUB", default_value = "karmada")]
    pub(crate) agents_of: Hub,
    /// Lifetime of the token
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = life)]
    pub(crate) ttl: Duration,
    /// Address of the host in the printed command, HOST:PORT [default: that of ConfigMap kube-public/cluster-info, else of the kubeconfig]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) server: Option<String>,
    /// Validate with a server-side dry run; create and print no token
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuthzGenerateArgs {
    #[command(flatten)]
    pub(crate) objects: ObjectsArgs,
    /// Print only the objects of the host, or one of the two files of its kube-apiserver
    #[arg(long, value_name = "PART")]
    pub(crate) only: Option<Part>,
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

  # A managed host: RBAC, admission policies, and admission webhooks
  kubectl mc authz generate --for karmada --without-webhook

Nothing is changed. See docs/how-to/cluster-authorization.md.";

const APPLY_EXAMPLES: &str = "\
Takes over the rules of roles that `karmadactl register` wrote. The files of
the kube-apiserver are not among the objects: `authz generate` prints them.

Examples:
  # What would change
  kubectl mc authz apply --for karmada --diff

  # RBAC, admission policies, and the way to the webhooks of the sidecars
  kubectl mc authz apply --for karmada

  # The same, and the sidecars keep the RBAC of agents from now on
  kubectl mc authz apply --for karmada --kept-by-sidecar

  # A managed host: RBAC, admission policies, and admission webhooks
  kubectl mc authz apply --for karmada --without-webhook";

const TOKEN_EXAMPLES: &str = "\
The token is of groups system:bootstrappers:karmada:default-cluster-token and
system:bootstrappers:karmada:cluster:CLUSTER. It is printed once. Karmada does
not read the second group: the admission webhook of the sidecars refuses the
token the certificate of another cluster's agent.

Examples:
  # A token for cluster m1, and the command that registers it
  kubectl mc authz token m1 --ttl=1h";

const REMOVE_EXAMPLES: &str = "\
Without names, the agents keep the RBAC that they need. First put the
authorization mode of the kube-apiserver back: it denies agents while it
cannot ask the webhook. With names, annotation fleet.kubectl-mc.dev/agent-rbac
of the Cluster stops sidecars that keep the RBAC of agents.

Examples:
  # All rights and enrollment tokens of a stolen agent
  kubectl mc authz remove --for karmada m1

  # Admission policies and webhooks, and the way to the webhooks
  kubectl mc authz remove --for karmada";

const VERIFY_EXAMPLES: &str = "\
Asks the host by SubjectAccessReviews what the agent of each cluster may do to
its own objects and to those of another cluster.

Exit codes: 0 exactly what an agent needs, 1 something is too wide, missing or
not checked.

Examples:
  # The agents of all clusters
  kubectl mc authz verify --for karmada

  # One of them
  kubectl mc authz verify --for karmada m1";
