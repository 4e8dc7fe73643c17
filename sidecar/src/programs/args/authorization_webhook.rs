//! Defines the flags of the webhooks for Karmada's agents, and of the agents' RBAC.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kubectl_mc_api::ownership::AGENT_NAMESPACE;

#[derive(Debug, Args)]
#[command(next_help_heading = "Agents of Karmada")]
pub struct AuthorizationWebhook {
    /// Port on which to serve POST /authorize: an authorization webhook that keeps each Karmada agent to the objects
    /// of its own cluster. Default: off.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub authorization_webhook_port: Option<u16>,
    /// CA of the client certificate that the host's kube-apiserver shows to the webhook. Default: the CA of the front
    /// proxy's client certificate, with the names that it may have.
    #[arg(long, value_name = "FILE", requires = "authorization_webhook_client_name")]
    pub authorization_webhook_client_ca_file: Option<PathBuf>,
    /// Common name that this client certificate must have.
    #[arg(long, value_name = "NAME", requires = "authorization_webhook_client_ca_file")]
    pub authorization_webhook_client_name: Option<String>,
    /// Whether agents may list and watch the Cluster objects of all clusters. karmada-agent needs it unless it selects
    /// its own.
    #[arg(long, value_enum, default_value_t = ListClusters::Deny)]
    pub agents_list_clusters: ListClusters,
    /// Port on which to serve admission webhooks: they judge requests for certificates of agents, and write owners
    /// where the host has no MutatingAdmissionPolicy. Callers need no certificate. Default: off.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub admission_webhook_port: Option<u16>,
    /// Namespace of the agents' election Leases in Karmada.
    #[arg(long, value_name = "NAME", default_value = AGENT_NAMESPACE)]
    pub karmada_agent_namespace: String,
    /// Keep the RBAC of the agents: the leader writes it for each Cluster in pull mode, and deletes it with the
    /// Cluster. The sidecar needs the rights that `kubectl mc authz apply --kept-by-sidecar` gives it.
    #[arg(long)]
    pub karmada_agent_rbac: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum ListClusters {
    Deny,
    Allow,
}
