//! The subjects that a member's administrators refuse: ConfigMap `kubectl-mc-manager` on the member, which
//! the sidecar's accounts cannot write. The member's ValidatingAdmissionPolicy has the same lists.

use std::collections::{BTreeMap, BTreeSet};

#[cfg(doc)]
use crate::cluster_access::RoleRef;

/// The choices of a member's administrators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whether the host may choose `users: Any`, a rule that names no users.
    pub any_user: bool,
    pub refused_users: BTreeSet<String>,
    pub refused_groups: BTreeSet<String>,
    /// Namespaces whose service accounts may not be impersonated.
    pub refused_namespaces: BTreeSet<String>,
    /// The roles that a ClusterAccess may bind, as [`RoleRef::from_entry`] reads them.
    pub bindable_roles: BTreeSet<String>,
}

impl Policy {
    /// Reads the ConfigMap's data. A list has one name per line.
    pub fn parse(data: &BTreeMap<String, String>) -> Self {
        let list = |key: &str| {
            let lines = data.get(key).map(String::as_str).unwrap_or_default().split('\n');
            lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
        };
        Self {
            any_user: data.get(USERS).is_some_and(|users| users == ANY),
            refused_users: list(REFUSED_USERS),
            refused_groups: list(REFUSED_GROUPS),
            refused_namespaces: list(REFUSED_NAMESPACES),
            bindable_roles: list(BINDABLE_ROLES),
        }
    }
}

/// `Listed` or `Any`.
pub const USERS: &str = "users";
pub const ANY: &str = "Any";
pub const REFUSED_USERS: &str = "refused-users";
pub const REFUSED_GROUPS: &str = "refused-groups";
pub const REFUSED_NAMESPACES: &str = "refused-namespaces";
pub const BINDABLE_ROLES: &str = "bindable-roles";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_policy_grants_nothing() {
        assert_eq!(Policy::parse(&BTreeMap::new()), Policy::default());
        assert!(!Policy::default().any_user);
        let data = |users: &str| BTreeMap::from([(USERS.to_owned(), users.to_owned())]);
        assert!(Policy::parse(&data("Any")).any_user);
        assert!(!Policy::parse(&data("any")).any_user);
    }

    #[test]
    fn name_list_has_one_name_per_line() {
        let data =
            BTreeMap::from([(REFUSED_GROUPS.to_owned(), "platform admins\n\nroot,wheel\n".to_owned())]);
        let refused = Policy::parse(&data).refused_groups;
        assert_eq!(refused.into_iter().collect::<Vec<_>>(), ["platform admins", "root,wheel"]);
    }
}
