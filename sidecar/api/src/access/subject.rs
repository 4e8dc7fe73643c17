//! Defines the subjects of RBAC, and the reasons why the sidecar may impersonate them.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1;

/// A user, a group or a service account, as RBAC distinguishes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

impl Subject {
    /// A binding's subject, if RBAC's authorizer knows its kind. A service account matches by its user name
    /// there, so a User with such a name is a service account.
    pub fn of(subject: &v1::Subject) -> Option<Self> {
        let name = || Some(subject.name.clone()).filter(|name| !name.is_empty());
        match subject.kind.as_str() {
            "User" => Some(Self::of_user(&name()?)),
            "Group" => Some(Self::Group(name()?)),
            "ServiceAccount" => {
                let namespace = subject.namespace.clone().filter(|namespace| !namespace.is_empty())?;
                Some(Self::ServiceAccount { namespace, name: name()? })
            }
            _ => None,
        }
    }

    /// The subject as a binding writes it.
    pub fn to_rbac(&self) -> v1::Subject {
        let (kind, name, namespace) = match self {
            Self::User(name) => ("User", name, None),
            Self::Group(name) => ("Group", name, None),
            Self::ServiceAccount { namespace, name } => ("ServiceAccount", name, Some(namespace.clone())),
        };
        let api_group = namespace.is_none().then(|| RBAC_GROUP.to_owned());
        v1::Subject { kind: kind.to_owned(), name: name.clone(), namespace, api_group }
    }

    /// The subject of a user name: a service account or a user.
    pub fn of_user(user: &str) -> Self {
        match service_account(user) {
            Some((namespace, name)) => {
                Self::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
            }
            None => Self::User(user.to_owned()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user {name:?}"),
            Self::Group(name) => write!(f, "group {name:?}"),
            Self::ServiceAccount { namespace, name } => write!(f, "service account {namespace}/{name}"),
        }
    }
}

/// The namespace and the name, if a user is a service account.
pub fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// Why a subject may be impersonated on a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Because {
    /// A binding on the host to a role that reaches the cluster's proxy.
    Binding { binding: Arc<str>, role: Arc<str> },
    /// `spec.impersonation.subjects` of the MemberCluster.
    Spec,
    /// The host authorized a user whom no binding names.
    Observed,
    /// The host allows its administrators everything, without a binding.
    Administrators,
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binding { binding, role } => {
                write!(f, "ClusterRoleBinding {binding:?} to ClusterRole {role:?}")
            }
            Self::Spec => f.write_str("spec.impersonation.subjects of the MemberCluster"),
            Self::Observed => f.write_str("the host let it in"),
            Self::Administrators => f.write_str("the host allows its administrators everything"),
        }
    }
}

/// The API group of RBAC.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(kind: &str, namespace: &str, name: &str) -> Option<Subject> {
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Subject::of(&v1::Subject { kind: kind.to_owned(), name: name.to_owned(), namespace, api_group: None })
    }

    #[test]
    fn service_account_keeps_its_namespace_in_either_form() {
        let robot = Subject::ServiceAccount { namespace: "ns".to_owned(), name: "robot".to_owned() };
        assert_eq!(subject("ServiceAccount", "ns", "robot"), Some(robot.clone()));
        assert_eq!(subject("User", "", "system:serviceaccount:ns:robot"), Some(robot));
        assert_eq!(subject("ServiceAccount", "", "robot"), None);
    }

    #[test]
    fn binding_of_a_subject_names_the_same_subject() {
        for (kind, namespace) in [("User", ""), ("Group", ""), ("ServiceAccount", "ns")] {
            let of = subject(kind, namespace, "jane").unwrap();
            let written = of.to_rbac();
            assert_eq!((written.kind.as_str(), Subject::of(&written)), (kind, Some(of)));
            let api_group = namespace.is_empty().then(|| RBAC_GROUP.to_owned());
            assert_eq!(written.api_group, api_group, "{kind}");
        }
    }

    #[test]
    fn unknown_subject_kinds_are_ignored() {
        assert_eq!(subject("Robot", "", "jane"), None);
        assert_eq!(subject("user", "", "jane"), None);
        assert_eq!(subject("User", "", ""), None);
    }
}
