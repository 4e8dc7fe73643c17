//! The names that join writes and others read.

use kubectl_mc_api::ClusterName;

/// The namespace of the sidecar's accounts on a member, and of itself on the host unless it was installed
/// elsewhere.
pub(crate) const SYSTEM: &str = "kubectl-mc-system";
/// The registry, below the host's root.
pub(crate) const MEMBERCLUSTERS: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters";
/// On the member's namespace: the uid of the host's kube-system.
pub(crate) const HOST: &str = "fleet.kubectl-mc.dev/host";
/// On the member's namespace: the name that it has on that host.
pub(crate) const CLUSTER: &str = "fleet.kubectl-mc.dev/cluster";
/// On a MemberCluster: the uid of the member's kube-system.
pub(crate) const UID: &str = "fleet.kubectl-mc.dev/uid";
/// On a grant's objects on the host: the cluster that they are for.
pub(crate) const HOST_GRANT: &str = "fleet.kubectl-mc.dev/grant-for";
/// On a grant's objects on a member.
pub(crate) const MEMBER_GRANT: &str = "fleet.kubectl-mc.dev/grant";
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub(crate) const KUBECTL_MC: &str = "kubectl-mc";
pub(crate) const IMPERSONATOR: &str = "kubectl-mc-impersonator";
pub(crate) const MANAGER: &str = "kubectl-mc-manager";
pub(crate) const HOST_ADMINS: &str = "kubectl-mc:host-admins";
/// Its binding on a member, below the member's root.
pub(crate) const HOST_ADMINS_BINDING: &str =
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kubectl-mc:host-admins";
/// The type of a member's Secrets.
pub(crate) const SECRET_TYPE: &str = "fleet.kubectl-mc.dev/member";

/// A registered cluster, below the host's root.
pub(crate) fn member_cluster(name: &ClusterName) -> String {
    format!("{MEMBERCLUSTERS}/{name}")
}

/// A Secret of the sidecar's namespace, below the host's root.
pub(crate) fn secret(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{name}")
}
