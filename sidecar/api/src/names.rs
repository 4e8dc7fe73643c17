//! Defines the names of the objects that the plugin and the sidecar create and read. Each name is defined
//! once here; the manifests in `sidecar/deploy` repeat the names, and a test compares them.

/// The namespace of the sidecar on the host, unless it is installed elsewhere, and of its accounts on every
/// member.
pub const NAMESPACE: &str = "kubectl-mc-system";
/// The sidecar's Deployment, Service, account and Lease on the host.
pub const SIDECAR: &str = "mc-sidecar";
/// The account that impersonates callers on a member, and the roles and bindings that allow it.
pub const IMPERSONATOR: &str = "kubectl-mc-impersonator";
/// The roles and bindings on a member of Karmada that let Karmada's account impersonate callers as well, if
/// the sidecar writes them.
pub const KARMADA_RIGHTS: &str = "kubectl-mc-karmada-impersonator";
/// The account that maintains the impersonator's rights on a member, and the ConfigMap and the policy that
/// limit it.
pub const MANAGER: &str = "kubectl-mc-manager";
/// The group that takes the place of the host's admin groups on members; a join binds it to cluster-admin
/// there.
pub const HOST_ADMINS: &str = "kubectl-mc:host-admins";
/// The prefix of users and groups that belong to kubectl-mc.
pub const PREFIX: &str = "kubectl-mc:";
/// The APIService of the aggregated API.
pub const API_SERVICE: &str = "v1alpha1.proxy.kubectl-mc.dev";

/// The ValidatingAdmissionPolicy that refuses to delete the registry while there are members, and its binding.
pub const DELETION_POLICY: &str = "kubectl-mc-deletion";

/// The namespace of the agents' accounts on the host. An account has the name of its cluster.
pub const AGENTS: &str = "kubectl-mc-agents";
/// The ClusterRole that lets the accounts of [`AGENTS`] attach to clusters, and its binding.
pub const AGENT_ROLE: &str = "kubectl-mc-agent";
/// The namespace of the agent on a member.
pub const AGENT_NAMESPACE: &str = "kubectl-mc-agent";
/// The agent's Deployment, account, Secret, Role and NetworkPolicy on a member.
pub const AGENT: &str = "mc-agent";

/// The agent's rights on a member until it has enrolled: a Role, a ClusterRole and their bindings.
pub const ENROLLMENT: &str = "mc-agent-enrollment";
/// The Role on an enrolled member that names the audiences of the tokens that the manager may
/// request.
pub const AUDIENCES: &str = "kubectl-mc-audiences";

/// The API group of the registry.
pub const FLEET_GROUP: &str = "fleet.kubectl-mc.dev";
/// `<group>/<version>` of the registry.
pub const FLEET_GROUP_VERSION: &str = "fleet.kubectl-mc.dev/v1alpha1";
/// The type of a member's Secrets.
pub const SECRET_TYPE: &str = "fleet.kubectl-mc.dev/member";

/// The label of every object that the plugin and the sidecar create, with the value [`KUBECTL_MC`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`], and the plugin's field manager.
pub const KUBECTL_MC: &str = "kubectl-mc";
/// Label of a grant's objects on the host: the name of the cluster that they grant access to.
pub const HOST_GRANT: &str = "fleet.kubectl-mc.dev/grant-for";
/// Label of a grant's objects on a member.
pub const MEMBER_GRANT: &str = "fleet.kubectl-mc.dev/grant";
/// Label of the RBAC objects of ClusterAccesses: `true` on members, the namespace of the sidecar on the host.
pub const ACCESS: &str = "fleet.kubectl-mc.dev/access";
/// Label of the ConfigMaps that list users who were granted access on demand.
pub const ON_DEMAND: &str = "fleet.kubectl-mc.dev/learnt";
/// Label of a MemberCluster that the leader maintains for a member of another inventory: the name of that
/// inventory.
pub const INVENTORY: &str = "fleet.kubectl-mc.dev/inventory";
/// Label of the RBAC of a Karmada agent on the host: the name of its cluster.
pub const KARMADA_AGENT: &str = "fleet.kubectl-mc.dev/karmada-agent";
/// Label of the RBAC of a Karmada agent that the leader maintains: the namespace of the sidecar.
pub const KEPT_BY: &str = "fleet.kubectl-mc.dev/kept-by";
/// Annotation of a Karmada Cluster: with the value [`NO_AGENT_RBAC`] its agent gets no RBAC from the leader.
pub const AGENT_RBAC: &str = "fleet.kubectl-mc.dev/agent-rbac";
/// The value of [`AGENT_RBAC`].
pub const NO_AGENT_RBAC: &str = "None";
/// Annotation of the member's namespace: the uid of the host's kube-system.
pub const HOST_UID: &str = "fleet.kubectl-mc.dev/host";
/// Annotation of the member's namespace, and of objects that the plugin merges: the name of the cluster on
/// the host.
pub const CLUSTER: &str = "fleet.kubectl-mc.dev/cluster";
/// Annotation of a MemberCluster: the uid of the member's kube-system. An enrollment writes it on Secret
/// `<name>.member`, and the leader copies it into the status.
pub const MEMBER_UID: &str = "fleet.kubectl-mc.dev/uid";
/// Annotation of an object that a command of the plugin applies: the flags of that command, as a JSON list.
pub const FLAGS: &str = "fleet.kubectl-mc.dev/flags";
/// Annotation of Secret `<name>.member`: the labels, annotations and spec of its MemberCluster, as JSON. The
/// leader writes it, and `join --restore` reads it.
pub const REGISTRATION: &str = "fleet.kubectl-mc.dev/registration";
/// Annotation of an object that policy [`DELETION_POLICY`] protects: with the value [`DELETION_ALLOWED`] it
/// may be deleted.
pub const ALLOW_DELETION: &str = "fleet.kubectl-mc.dev/allow-deletion";
/// The value of [`ALLOW_DELETION`].
pub const DELETION_ALLOWED: &str = "yes";
/// Annotation of an APIService that refers to the sidecar: the backend that it referred to before.
pub const REPLACED: &str = "fleet.kubectl-mc.dev/replaced";
/// Annotation of a member's Secrets: when the enrollment of its agent ends (RFC 3339).
pub const ENROLLMENT_UNTIL: &str = "fleet.kubectl-mc.dev/enrollment-until";

/// The Service of the sidecar's webhooks for the agents of Karmada, and its NetworkPolicy.
pub const WEBHOOK_SERVICE: &str = "mc-sidecar-authorization";

/// The DNS name of the Service of the webhooks, which the serving certificate also covers.
pub fn webhook_service(namespace: &str) -> String {
    format!("{WEBHOOK_SERVICE}.{namespace}.svc")
}

/// The DNS name of the sidecar's Service, which its serving certificate covers.
pub fn service(namespace: &str) -> String {
    format!("{SIDECAR}.{namespace}.svc")
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::Value;

    use super::*;
    use crate::{MemberCluster, direct, manifests, path};

    fn has(objects: &[Value], kind: &str, name: &str) -> bool {
        objects.iter().any(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    }

    #[test]
    fn manifests_use_the_defined_names() {
        let member = manifests::objects(manifests::MEMBER).unwrap();
        for (kind, name) in [
            ("Namespace", NAMESPACE),
            ("ServiceAccount", IMPERSONATOR),
            ("ServiceAccount", MANAGER),
            ("ConfigMap", MANAGER),
            ("ClusterRoleBinding", HOST_ADMINS),
        ] {
            assert!(has(&member, kind, name), "{kind}/{name}");
        }
        let agent = manifests::Agent::new("m1".parse().unwrap(), "image").objects().unwrap();
        for (kind, name) in [
            ("Namespace", AGENT_NAMESPACE),
            ("ServiceAccount", AGENT),
            ("Deployment", AGENT),
            ("NetworkPolicy", AGENT),
        ] {
            assert!(has(&agent, kind, name), "{kind}/{name}");
        }
        let enrollment = manifests::objects(manifests::ENROLLMENT).unwrap();
        for (kind, name) in [
            ("Role", ENROLLMENT),
            ("RoleBinding", ENROLLMENT),
            ("ClusterRole", ENROLLMENT),
            ("ClusterRoleBinding", ENROLLMENT),
            ("Role", AUDIENCES),
        ] {
            assert!(has(&enrollment, kind, name), "{kind}/{name}");
        }
        let host = manifests::Parameters::new("image").with_direct_endpoint().host().unwrap();
        for (kind, name) in [
            ("Namespace", NAMESPACE),
            ("Deployment", SIDECAR),
            ("Service", SIDECAR),
            ("APIService", API_SERVICE),
            ("ValidatingAdmissionPolicy", DELETION_POLICY),
            ("ValidatingAdmissionPolicyBinding", DELETION_POLICY),
            ("Namespace", AGENTS),
            ("ClusterRole", AGENT_ROLE),
            ("Service", direct::SERVICE),
            ("ConfigMap", direct::CONFIG_MAP),
        ] {
            assert!(has(&host, kind, name), "{kind}/{name}");
        }
    }

    #[test]
    fn names_are_consistent_with_their_groups() {
        assert_eq!(MemberCluster::group(&()), FLEET_GROUP);
        assert_eq!(MemberCluster::api_version(&()), FLEET_GROUP_VERSION);
        assert_eq!(API_SERVICE, format!("{}.{}", path::PROXY_VERSION, path::PROXY_GROUP));
        assert!(HOST_ADMINS.starts_with(PREFIX));
        let annotations = [
            HOST_UID,
            CLUSTER,
            MEMBER_UID,
            ENROLLMENT_UNTIL,
            REPLACED,
            AGENT_RBAC,
            FLAGS,
            REGISTRATION,
            ALLOW_DELETION,
        ];
        let labels = [HOST_GRANT, MEMBER_GRANT, ACCESS, ON_DEMAND, INVENTORY, KARMADA_AGENT, KEPT_BY];
        for name in [SECRET_TYPE].into_iter().chain(labels).chain(annotations) {
            assert!(name.starts_with(&format!("{FLEET_GROUP}/")), "{name}");
        }
    }
}
