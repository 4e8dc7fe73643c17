//! Defines the flags of the identities that members see.

use clap::Args;

use crate::identity::impersonation::member::DEFAULT_OMITTED_EXTRA;

#[derive(Debug, Args)]
pub struct Rules {
    /// Additional groups of administrators. Members see group kubectl-mc:host-admins in place of these and of
    /// system:masters, kubeadm:cluster-admins and system:cluster-admins.
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    pub admin_groups: Vec<String>,
    /// Keys of extra fields that the sidecar never sends to members; * at either end matches any text.
    #[arg(long, value_name = "KEY", value_delimiter = ',', default_values = DEFAULT_OMITTED_EXTRA)]
    pub omit_extra: Vec<String>,
    /// Allow identities of the host's control plane on members.
    #[arg(long)]
    pub allow_privileged_identity: bool,
}
