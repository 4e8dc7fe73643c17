//! The users, groups and namespaces that Kubernetes and its distributions reserve for their own
//! components.
//!
//! A component of the host is not the member's component of the same name. The sidecar never shows
//! such a name to a member, and the member's policy (`sidecar/deploy/member.yaml`) refuses it.
//! Kubernetes reserves every name that begins with `system:`, so all of them are refused except the
//! few below that belong to people or workloads. `docs/reference/identities.md` lists each identity
//! with its source.

use super::sent::accounts_of;
use super::sent::{AUTHENTICATED, SERVICE_ACCOUNTS, UNAUTHENTICATED};
use super::subject::service_account;
use crate::names::{AGENT_NAMESPACE, AGENTS, NAMESPACE, PREFIX};

/// Whether a user name belongs to a control plane, to a node or to kubectl-mc.
pub fn is_privileged_user(user: &str) -> bool {
    match service_account(user) {
        Some((namespace, _)) => is_privileged_namespace(namespace),
        None => {
            PRIVILEGED_USERS.contains(&user)
                || (has_privileged_prefix(user) && !ORDINARY_SYSTEM_USERS.contains(&user))
        }
    }
}

/// Whether a group belongs to a control plane, to nodes or to kubectl-mc. For admin groups it is true;
/// callers replace them before they ask.
pub fn is_privileged_group(group: &str) -> bool {
    match accounts_of(group) {
        Some(namespace) => is_privileged_namespace(namespace),
        None => {
            has_privileged_prefix(group)
                && !ORDINARY_SYSTEM_GROUPS.contains(&group)
                && ![AUTHENTICATED, UNAUTHENTICATED].contains(&group)
        }
    }
}

/// Whether the service accounts of a namespace belong to a control plane or to kubectl-mc.
pub fn is_privileged_namespace(namespace: &str) -> bool {
    PRIVILEGED_NAMESPACES.contains(&namespace)
}

fn has_privileged_prefix(name: &str) -> bool {
    PRIVILEGED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Prefixes of names that Kubernetes, kubectl-mc, EKS or GKE reserve.
pub const PRIVILEGED_PREFIXES: &[&str] = &["system:", PREFIX, "eks:", "gke:"];
/// Users under `system:` that are not components: callers without a credential, and the user of the k3s
/// administrator's certificate, which is also in `system:masters`.
pub const ORDINARY_SYSTEM_USERS: &[&str] = &["system:anonymous", "system:admin"];
/// Groups of Kubernetes, OpenShift and Rancher under `system:` that have people and workloads as members.
pub const ORDINARY_SYSTEM_GROUPS: &[&str] =
    &["system:monitoring", SERVICE_ACCOUNTS, "system:authenticated:oauth", "system:cattle:authenticated"];
/// Users of a control plane or of nodes whose names have no reserved prefix.
pub const PRIVILEGED_USERS: &[&str] = &[
    "kubelet",
    "kubelet-bootstrap",
    "kubelet-nodepool-bootstrap",
    "kube-apiserver",
    "kube-apiserver-kubelet-client",
    "cluster-autoscaler",
];
/// Namespaces whose service accounts are components of Kubernetes, of OpenShift or of kubectl-mc.
pub const PRIVILEGED_NAMESPACES: &[&str] = &[
    "kube-system",
    "kube-public",
    "kube-node-lease",
    NAMESPACE,
    AGENTS,
    AGENT_NAMESPACE,
    "openshift-infra",
    "openshift-cluster-version",
    "openshift-machine-config-operator",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Every user of `docs/reference/identities.md`, written out so that a change of the rule fails the test.
    const USERS: &[&str] = &[
        "system:node:n1",
        "system:kube-controller-manager",
        "system:kube-scheduler",
        "system:kube-proxy",
        "system:kube-aggregator",
        "system:aggregator",
        "system:apiserver",
        "system:unsecured",
        "system:bootstrap:abcdef",
        "system:konnectivity-server",
        "system:node-problem-detector",
        "system:cloud-controller-manager",
        "system:controller:glbc",
        "system:gcp-controller-manager",
        "system:k3s-controller",
        "system:karmada:agent:m1",
        "system:karmada:agent:rbac-generator",
        "system:open-cluster-management:m1:agent",
        "system:serviceaccount:kube-system:x",
        "system:serviceaccount:kube-public:default",
        "system:serviceaccount:kube-node-lease:default",
        "system:serviceaccount:kubectl-mc-system:kubectl-mc-manager",
        "system:serviceaccount:kubectl-mc-agents:m1",
        "system:serviceaccount:kubectl-mc-agent:mc-agent",
        "system:serviceaccount:openshift-infra:build-controller",
        "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper",
        "system:serviceaccount:openshift-cluster-version:default",
        "system:serviceaccount:a:b:c",
        "kubectl-mc:host-admins",
        "eks:node-manager",
        "gke:nodepool",
        "kubelet",
        "kubelet-bootstrap",
        "kubelet-nodepool-bootstrap",
        "kube-apiserver",
        "kube-apiserver-kubelet-client",
        "cluster-autoscaler",
    ];

    #[test]
    fn component_users_are_privileged() {
        for user in USERS {
            assert!(is_privileged_user(user), "{user}");
        }
    }

    #[test]
    fn component_groups_are_privileged() {
        for group in [
            "system:nodes",
            "system:node:n1",
            "system:kube-anything",
            "system:bootstrappers",
            "system:bootstrappers:kubeadm:default-node-token",
            "system:node-proxier",
            "system:karmada:agents",
            "system:masters",
            "system:cluster-admins",
            "system:cluster-readers",
            "system:authenticated:other",
            "system:serviceaccounts:",
            "system:serviceaccounts:kube-system",
            "system:serviceaccounts:kube-public",
            "system:serviceaccounts:kube-node-lease",
            "system:serviceaccounts:kubectl-mc-system",
            "system:serviceaccounts:kubectl-mc-agents",
            "system:serviceaccounts:kubectl-mc-agent",
            "system:serviceaccounts:openshift-infra",
            "kubectl-mc:host-admins",
            "eks:kube-proxy-windows",
            "gke:nodepool:name:pool-1",
        ] {
            assert!(is_privileged_group(group), "{group}");
        }
    }

    #[test]
    fn people_and_workloads_are_not_privileged() {
        for user in [
            "jane",
            "system:anonymous",
            "system:admin",
            "kube:admin",
            "kubernetes-admin",
            "nodes",
            "kubectl-mc",
            "system:serviceaccount:ns:n",
            "arn:aws:iam::111122223333:user/jane",
        ] {
            assert!(!is_privileged_user(user), "{user}");
        }
        for group in [
            "dev",
            "kubelet",
            "kubeadm:cluster-admins",
            "system:monitoring",
            "system:authenticated",
            "system:unauthenticated",
            "system:authenticated:oauth",
            "system:cattle:authenticated",
            "system:serviceaccounts",
            "system:serviceaccounts:ns",
        ] {
            assert!(!is_privileged_group(group), "{group}");
        }
    }
}
