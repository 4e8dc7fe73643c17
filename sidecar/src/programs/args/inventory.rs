//! Defines the flags of the inventories, from which the members are read.

use clap::Args;
use kubectl_mc_api::Origin;
use kubectl_mc_api::origin::{KARMADA_NAMESPACE, KUBEADMIRAL_NAMESPACE};

#[derive(Debug, Args)]
pub struct Inventory {
    /// Inventories to read members from: membercluster (MemberClusters and their Secrets), karmada (Clusters of
    /// Karmada), kubeadmiral (FederatedClusters of KubeAdmiral). A name in several of them is served from the first.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "membercluster")]
    pub inventory: Vec<Origin>,
    /// Let Clusters of Karmada name other Secrets than their own. Then everyone who may write a Cluster decides to which
    /// server the token of any Secret in Karmada's namespace is sent.
    #[arg(long)]
    pub inventory_allow_refs: bool,
    /// Namespace of the Secrets of Karmada's Clusters, and of their heartbeat Leases.
    #[arg(long, value_name = "NAME", default_value = KARMADA_NAMESPACE)]
    pub karmada_namespace: String,
    /// Write impersonation rights on Karmada's members, with the accounts in the Secrets of its Clusters, which may do
    /// everything there. Members then accept uid, extra, every group and kubectl-mc:host-admins.
    #[arg(long)]
    pub karmada_member_rbac: bool,
    /// Namespace of the Secrets of KubeAdmiral's FederatedClusters.
    #[arg(long, value_name = "NAME", default_value = KUBEADMIRAL_NAMESPACE)]
    pub kubeadmiral_namespace: String,
}
