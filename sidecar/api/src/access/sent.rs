//! Whom the sidecar shows to a member: the sidecar builds a request's identity by these rules, and a
//! member's rights are derived by the same ones.

/// Every authenticated user is in this group; each server adds it for itself.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everybody who gave no credential.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group that a kube-apiserver allows everything.
pub const MASTERS: &str = "system:masters";
/// Every service account.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// Takes the place of the admin groups on members; a join binds it to cluster-admin there.
pub const HOST_ADMINS: &str = "kubectl-mc:host-admins";
/// Groups that are never sent; [`HOST_ADMINS`] is sent in their place (`--admin-groups`).
pub const DEFAULT_ADMIN_GROUPS: &[&str] = &[MASTERS, "kubeadm:cluster-admins"];
/// Names of the host's control plane, and our own. They mean another program on a member, and are
/// refused.
pub const PRIVILEGED_PREFIXES: &[&str] = &["system:node:", "system:kube-", "kubectl-mc:"];
/// The same, as whole names.
pub const PRIVILEGED_NAMES: &[&str] = &["system:nodes"];
/// Namespaces whose service accounts are a control plane's or our own, and are refused.
pub const PRIVILEGED_NAMESPACES: &[&str] = &["kube-system", MEMBER_NAMESPACE];
/// Where the sidecar's accounts live on a member.
pub const MEMBER_NAMESPACE: &str = "kubectl-mc-system";

/// Whether a user or a group bears a name of the control plane's, or one of ours.
pub fn is_privileged(name: &str) -> bool {
    PRIVILEGED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || PRIVILEGED_NAMES.contains(&name)
}

/// Whether the service accounts of a namespace are a control plane's or ours.
pub fn is_privileged_namespace(namespace: &str) -> bool {
    PRIVILEGED_NAMESPACES.contains(&namespace)
}

/// The namespace and the name, if a user is a service account.
pub fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// The namespace, if a group is that of a namespace's service accounts.
pub fn accounts_of(group: &str) -> Option<&str> {
    let namespace = group.strip_prefix(SERVICE_ACCOUNTS)?.strip_prefix(':')?;
    (!namespace.is_empty() && !namespace.contains(':')).then_some(namespace)
}

/// The groups that a service account of a namespace is in (apiserver: `serviceaccount.MakeGroupNames`).
pub fn service_account_groups(namespace: &str) -> [String; 2] {
    [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// The groups that a member is shown of a user in these ones.
///
/// `system:authenticated` and `system:unauthenticated` are left out: the member adds them. For the admin
/// groups [`HOST_ADMINS`] is sent. A service account's groups are left out exactly when they are the
/// derived ones: the member derives them too.
pub fn groups<'a>(
    admin_groups: &[String],
    user: &str,
    groups: &'a [String],
) -> Result<Vec<&'a str>, WithoutGroups> {
    let is_admin = |group: &str| admin_groups.iter().any(|admin| admin == group);
    let mut sent: Vec<&str> = Vec::new();
    let mut admin = false;
    for group in groups.iter().map(String::as_str) {
        match group {
            AUTHENTICATED | UNAUTHENTICATED => {}
            _ if is_admin(group) => admin = true,
            _ => sent.push(group),
        }
    }
    if admin {
        sent.push(HOST_ADMINS);
    }
    if let Some((namespace, _)) = service_account(user) {
        if sent.is_empty() {
            return Err(WithoutGroups);
        }
        let derived = service_account_groups(namespace);
        let is_derived = |group: &&str| derived.iter().any(|d| d == group);
        if sent.len() == derived.len() && sent.iter().all(is_derived) && sent[0] != sent[1] {
            sent.clear();
        }
    }
    Ok(sent)
}

/// A service account without the groups of one: a member would add them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithoutGroups;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_planes_names_are_told_from_users() {
        for name in ["system:node:n1", "system:nodes", "system:kube-scheduler", "kubectl-mc:host-admins"] {
            assert!(is_privileged(name), "{name}");
        }
        for name in ["jane", "system:monitoring", "system:anonymous", "nodes", "kubectl-mc"] {
            assert!(!is_privileged(name), "{name}");
        }
    }

    #[test]
    fn a_service_accounts_groups_are_read_as_its_name_is() {
        assert_eq!(service_account("system:serviceaccount:ns:n"), Some(("ns", "n")));
        assert_eq!(service_account("system:serviceaccount:ns:n:x"), None);
        assert_eq!(accounts_of("system:serviceaccounts:ns"), Some("ns"));
        assert_eq!(accounts_of("system:serviceaccounts"), None);
        assert_eq!(accounts_of("system:serviceaccounts:"), None);
        assert_eq!(accounts_of("system:serviceaccountsx:ns"), None);
    }
}
