//! Parses the role of a grant: `NAME` is a ClusterRole, `role/NAME` is a Role of a namespace. A role's name
//! never contains a slash.

use std::fmt;

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::access::subject::RBAC_GROUP;
use kubectl_mc_api::cluster_access::RoleKind;
use serde_json::{Value, json};

use crate::error::Failure;

/// A role and the namespace of the grant; without a namespace the grant is cluster-wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GrantedRole<'a> {
    pub(super) kind: RoleKind,
    pub(super) name: &'a str,
    pub(super) namespace: Option<&'a str>,
}

impl<'a> GrantedRole<'a> {
    /// Parses the argument. The name becomes a path segment and part of an object's name, so it is
    /// restricted.
    pub(super) fn parse(text: &'a str, namespace: Option<&'a str>) -> Result<Self, Failure> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) if kind.eq_ignore_ascii_case("role") => (RoleKind::Role, name),
            _ => (RoleKind::ClusterRole, text),
        };
        let is_segment =
            !matches!(name, "" | "." | "..") && !name.contains(|c: char| c.is_control() || "/%?".contains(c));
        if !is_segment || name.chars().count() > 200 {
            return Err(Failure::usage(format!("invalid name of a role: {text:?}")).with_hint(
                "view, edit and admin are Kubernetes' own ClusterRoles; a Role is role/NAME, with -n",
            ));
        }
        if kind == RoleKind::Role && namespace.is_none() {
            return Err(Failure::usage(format!("Role {name} needs the namespace that has it"))
                .with_hint(format!("role/{name} -n NAMESPACE; for a ClusterRole: {name}")));
        }
        Ok(Self { kind, name, namespace })
    }

    /// The path of the role on a member.
    pub(super) fn path(&self) -> String {
        let Self { kind, name, namespace } = self;
        match (kind, namespace) {
            (RoleKind::Role, Some(namespace)) => {
                format!("/apis/{RBAC_GROUP}/v1/namespaces/{namespace}/roles/{name}")
            }
            _ => format!("/apis/{RBAC_GROUP}/v1/clusterroles/{name}"),
        }
    }

    /// The `roleRef` of a binding on a member.
    pub(super) fn reference(&self) -> Value {
        json!({"apiGroup": RBAC_GROUP, "kind": self.kind.as_str(), "name": self.name})
    }

    /// The name of the host's role for the subjects of this role on a cluster. A ClusterRole has one host
    /// role for all namespaces; a Role has one for each namespace.
    pub(super) fn host_role(&self, cluster: &ClusterName) -> String {
        let Self { kind, name, namespace } = self;
        match kind {
            RoleKind::ClusterRole => {
                format!("{}{name}", host_prefix(RoleKind::ClusterRole, cluster.as_str()))
            }
            RoleKind::Role => {
                let namespace = namespace.unwrap_or_default();
                format!("{}{namespace}:{name}", host_prefix(RoleKind::Role, cluster.as_str()))
            }
        }
    }

    /// The name of the role's binding to a subject on a member.
    pub(super) fn member_binding(&self, subject: &str) -> String {
        let prefix = match self.kind {
            RoleKind::ClusterRole => "kubectl-mc",
            RoleKind::Role => "kubectl-mc-role",
        };
        format!("{prefix}:{}:{subject}", self.name)
    }

    /// The assumed verbs on the proxy if the role cannot be read: the right to bind a role does not include
    /// the right to read it.
    pub(super) fn assumed_reach(&self) -> Reach {
        match self {
            Self { kind: RoleKind::ClusterRole, name: "view", .. } => Reach::Read,
            _ => Reach::Write,
        }
    }
}

/// The name prefix of the host's roles for one kind of role on a cluster.
pub(super) fn host_prefix(kind: RoleKind, cluster: &str) -> String {
    match kind {
        RoleKind::ClusterRole => format!("kubectl-mc:{cluster}:"),
        RoleKind::Role => format!("kubectl-mc-role:{cluster}:"),
    }
}

/// The notation of the command line.
impl fmt::Display for GrantedRole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RoleKind::ClusterRole => f.write_str(self.name),
            RoleKind::Role => write!(f, "role/{}", self.name),
        }
    }
}

/// The verbs on `clusters/proxy` that a role needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Read,
    Write,
}

impl Reach {
    /// Reads a ClusterRole or a Role; get, list and watch are all GET requests.
    pub(super) fn of(role: &Value) -> Self {
        let verbs =
            role["rules"].as_array().into_iter().flatten().filter_map(|rule| rule["verbs"].as_array());
        let reads = |verb: &Value| matches!(verb.as_str(), Some("get" | "list" | "watch"));
        if verbs.flatten().all(reads) { Self::Read } else { Self::Write }
    }

    pub(super) fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Read => &["get"],
            Self::Write => &["*"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_role_differs_from_role() {
        let view = GrantedRole::parse("view", Some("shop")).unwrap();
        let role = GrantedRole::parse("Role/view", Some("shop")).unwrap();
        assert_eq!((view.kind, role.kind), (RoleKind::ClusterRole, RoleKind::Role));
        assert_eq!((view.to_string(), role.to_string()), ("view".to_owned(), "role/view".to_owned()));
        assert_eq!(role.path(), "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles/view");
        assert_eq!(role.reference()["kind"], "Role");
        // The contents of a Role with the name `view` are unknown.
        assert_eq!((view.assumed_reach(), role.assumed_reach()), (Reach::Read, Reach::Write));
    }

    #[test]
    fn role_needs_a_namespace_and_a_name() {
        let error = |text, namespace| GrantedRole::parse(text, namespace).unwrap_err().to_string();
        assert_eq!(error("role/deployer", None), "Role deployer needs the namespace that has it");
        for text in ["", "role/", "role/a/b", "clusterrole/view", "a%b", "..", &"x".repeat(201)] {
            assert_eq!(error(text, Some("shop")), format!("invalid name of a role: {text:?}"));
        }
    }

    #[test]
    fn names_of_a_cluster_role_and_of_a_role_differ() {
        let cluster: ClusterName = "m1".parse().unwrap();
        let role = |text, namespace| GrantedRole::parse(text, Some(namespace)).unwrap();
        let names = |role: GrantedRole<'_>| (role.host_role(&cluster), role.member_binding("user:jane"));
        let of_role = names(role("role/view", "shop"));
        assert_eq!(of_role.0, "kubectl-mc-role:m1:shop:view");
        assert_eq!(of_role.1, "kubectl-mc-role:view:user:jane");
        assert_eq!(names(role("view", "shop")).0, "kubectl-mc:m1:view");
        assert_ne!(names(role("role/view", "web")).0, of_role.0);
    }
}
