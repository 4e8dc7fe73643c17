//! The errors of a grant and of a revocation.

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::cluster_access::RoleKind;
use serde_json::Value;

use crate::access::role::GrantedRole;
use crate::access::subject::GrantSubject;
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;

/// The member does not have the role.
#[derive(Debug, thiserror::Error)]
#[error("cluster {cluster} has no {role}")]
pub(super) struct NoRole {
    /// The role with its kind and its namespace.
    role: String,
    cluster: ClusterName,
    /// The arguments of kubectl that list the roles of that kind.
    list: String,
}

impl NoRole {
    pub(super) fn new(role: GrantedRole<'_>, cluster: &ClusterName) -> Self {
        let GrantedRole { kind, name, namespace } = role;
        let (role, list) = match (kind, namespace) {
            (RoleKind::Role, Some(namespace)) => {
                (format!("Role {name:?} in namespace {namespace:?}"), format!("roles -n {namespace}"))
            }
            _ => (format!("ClusterRole {name:?}"), "clusterroles".to_owned()),
        };
        Self { role, cluster: cluster.clone(), list }
    }
}

impl Explain for NoRole {
    fn hint(&self) -> Option<String> {
        let Self { cluster, list, .. } = self;
        Some(format!(
            "view, edit and admin are Kubernetes' own ClusterRoles; see: kubectl mc --cluster={cluster} get {list}"
        ))
    }
}

/// The member does not let service accounts of the host in.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot grant access to {subject} on {cluster}: spec.impersonation.serviceAccounts of MemberCluster {cluster} is \
     Omit"
)]
pub(super) struct NeverSeen {
    subject: String,
    cluster: ClusterName,
}

impl NeverSeen {
    pub(super) fn new(subject: &GrantSubject, cluster: &ClusterName) -> Self {
        Self { subject: subject.to_string(), cluster: cluster.clone() }
    }
}

impl Explain for NeverSeen {
    fn hint(&self) -> Option<String> {
        Some("`kubectl mc join --service-accounts=prefixed` of that member lets them in as users".to_owned())
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Failed
    }
}

/// The host has a newer setting than the plugin knows.
#[derive(Debug, thiserror::Error)]
#[error(
    "spec.impersonation.serviceAccounts of MemberCluster {cluster} is {setting}, which this plugin does not know"
)]
pub(super) struct UnknownSetting {
    pub(super) cluster: ClusterName,
    pub(super) setting: Value,
}

impl Explain for UnknownSetting {
    fn hint(&self) -> Option<String> {
        Some("use a plugin of the sidecar's version: kubectl mc version".to_owned())
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Failed
    }
}

/// The host's binding is deleted, and the member's is not.
#[derive(Debug, thiserror::Error)]
#[error("{ended}, and the binding on {cluster} is left: {cause}")]
pub(super) struct LeftOnMember {
    ended: &'static str,
    cluster: ClusterName,
    cause: String,
    hint: Option<String>,
    status: ExitStatus,
}

impl LeftOnMember {
    pub(super) fn new(cluster: &ClusterName, cause: &Failure, dry_run: bool) -> Self {
        let again = "run the same command again when the member answers";
        Self {
            ended: if dry_run {
                "access through the host would end"
            } else {
                "access through the host has ended"
            },
            cluster: cluster.clone(),
            cause: cause.to_string(),
            hint: Some(
                cause.hint.as_ref().map_or_else(|| again.to_owned(), |hint| format!("{hint}; {again}")),
            ),
            status: cause.status,
        }
    }
}

impl Explain for LeftOnMember {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }

    fn status(&self) -> ExitStatus {
        self.status
    }
}
