//! Writes the objects of one grant: a ClusterRole and its binding on the host, and a binding on the member.

use kubectl_mc_api::access::subject::RBAC_GROUP;
use kubectl_mc_api::cluster_access::RoleKind;
use kubectl_mc_api::names::{FLEET_ROLE, HOST_GRANT, KUBECTL_MC, MANAGED_BY, MEMBER_GRANT};
use kubectl_mc_api::{ClusterName, path};
use serde_json::{Value, json};

use crate::access::role::{GrantedRole, Reach};
use crate::access::subject::GrantSubject;

/// One role for one subject on one cluster.
pub(super) struct Grant<'a> {
    pub(super) cluster: &'a ClusterName,
    pub(super) role: GrantedRole<'a>,
    pub(super) subject: &'a GrantSubject,
}

impl Grant<'_> {
    pub(super) fn host_role(&self, reach: Reach) -> Value {
        let cluster = self.cluster.as_str();
        let mut role = object("ClusterRole", &self.role.host_role(self.cluster), None);
        role["metadata"]["labels"] = json!({MANAGED_BY: KUBECTL_MC, HOST_GRANT: cluster});
        role["rules"] = json!([
            {"apiGroups": [path::PROXY_GROUP], "resources": ["clusters"], "resourceNames": [cluster], "verbs": ["get"]},
            {
                "apiGroups": [path::PROXY_GROUP], "resources": ["clusters/proxy"],
                "resourceNames": [cluster], "verbs": reach.verbs(),
            },
        ]);
        role
    }

    pub(super) fn host_binding(&self) -> Value {
        let role = self.role.host_role(self.cluster);
        // The name of a Role already contains its namespace.
        let namespace = self.role.namespace.filter(|_| self.role.kind == RoleKind::ClusterRole);
        let namespace = namespace.map(|namespace| format!("@{namespace}")).unwrap_or_default();
        let name = format!("{role}{namespace}:{}", self.subject.tag());
        let labels = json!({MANAGED_BY: KUBECTL_MC, HOST_GRANT: self.cluster.as_str()});
        let role = json!({"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role});
        binding("ClusterRoleBinding", &name, None, &labels, role, self.subject.rbac())
    }

    /// The binding on the member, for the subject as the member sees it.
    pub(super) fn on_member(&self, subject: Value) -> Value {
        let GrantedRole { namespace, .. } = self.role;
        let name = self.role.member_binding(&self.subject.tag());
        let labels = json!({MANAGED_BY: KUBECTL_MC, MEMBER_GRANT: "true"});
        let kind = if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" };
        binding(kind, &name, namespace, &labels, self.role.reference(), subject)
    }
}

/// The host's binding for the members as one cluster. It does not depend on the clusters that are granted, because it
/// grants access to none.
pub(super) fn fleet_binding(subject: &GrantSubject) -> Value {
    let name = format!("{FLEET_ROLE}:{}", subject.tag());
    let role = json!({"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": FLEET_ROLE});
    binding("ClusterRoleBinding", &name, None, &json!({MANAGED_BY: KUBECTL_MC}), role, subject.rbac())
}

fn binding(
    kind: &str,
    name: &str,
    namespace: Option<&str>,
    labels: &Value,
    role: Value,
    subject: Value,
) -> Value {
    let mut binding = object(kind, name, namespace);
    binding["metadata"]["labels"] = labels.clone();
    binding["roleRef"] = role;
    binding["subjects"] = json!([subject]);
    binding
}

pub(super) fn object(kind: &str, name: &str, namespace: Option<&str>) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata})
}
