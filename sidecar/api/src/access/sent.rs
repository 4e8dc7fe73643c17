//! Derives the groups that the sidecar sends to a member. Requests and the member's rights use the same
//! rules.

use crate::names::HOST_ADMINS;

/// Every authenticated user is in this group; each server adds it for itself.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of every caller without a credential.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group to which a kube-apiserver allows everything.
pub const MASTERS: &str = "system:masters";
/// The group of every service account.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// Groups of administrators of Kubernetes, kubeadm and OpenShift. They are never sent; [`HOST_ADMINS`] is
/// sent in their place. `--admin-groups` adds to them.
pub const BUILTIN_ADMIN_GROUPS: &[&str] = &[MASTERS, "kubeadm:cluster-admins", "system:cluster-admins"];

/// The built-in admin groups and these.
pub fn admin_groups(more: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut groups: Vec<String> = BUILTIN_ADMIN_GROUPS.iter().map(|&group| group.to_owned()).collect();
    for group in more {
        if !group.is_empty() && !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
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

/// The groups that the sidecar sends to a member for a user with these groups.
///
/// `system:authenticated` and `system:unauthenticated` are left out, because the member adds them.
/// [`HOST_ADMINS`] replaces the admin groups. A service account's groups are left out only if they are
/// exactly the derived ones, because the member derives them too.
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
        let is_derived = |group: &&str| *group == SERVICE_ACCOUNTS || accounts_of(group) == Some(namespace);
        if sent.len() == 2 && sent.iter().all(is_derived) && sent[0] != sent[1] {
            sent.clear();
        }
    }
    Ok(sent)
}

/// A service account without its derived groups. It is refused, because a member would add them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithoutGroups;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_admin_groups_extend_the_builtin_ones() {
        let groups = |more: &[&str]| admin_groups(more.iter().map(|&group| group.to_owned()));
        let builtin = ["system:masters", "kubeadm:cluster-admins", "system:cluster-admins"];
        assert_eq!(groups(&[]), builtin);
        assert_eq!(groups(&["", "system:masters"]), builtin);
        assert_eq!(groups(&["platform"]), [&builtin[..], &["platform"]].concat());
    }

    #[test]
    fn only_exactly_derived_groups_of_an_account_are_left_out() {
        let (all, own) = ("system:serviceaccounts", "system:serviceaccounts:ns");
        let sent = |of: &[&str]| {
            let of: Vec<_> = of.iter().map(|&group| group.to_owned()).collect();
            groups(&[], "system:serviceaccount:ns:n", &of).map(|sent| sent.join(" "))
        };
        for (of, expected) in [
            (&[all, own][..], ""),
            (&[own, AUTHENTICATED, all], ""),
            (&["a", "b"], "a b"),
            (&[all, "b"], "system:serviceaccounts b"),
            (&[own, own], "system:serviceaccounts:ns system:serviceaccounts:ns"),
            (&[own], "system:serviceaccounts:ns"),
            (&[all, own, "b"], "system:serviceaccounts system:serviceaccounts:ns b"),
        ] {
            assert_eq!(sent(of).as_deref(), Ok(expected), "{of:?}");
        }
        assert_eq!(sent(&[]), Err(WithoutGroups));
    }

    #[test]
    fn service_account_names_and_groups_are_parsed() {
        assert_eq!(service_account("system:serviceaccount:ns:n"), Some(("ns", "n")));
        assert_eq!(service_account("system:serviceaccount:ns:n:x"), None);
        assert_eq!(accounts_of("system:serviceaccounts:ns"), Some("ns"));
        assert_eq!(accounts_of("system:serviceaccounts"), None);
        assert_eq!(accounts_of("system:serviceaccounts:"), None);
        assert_eq!(accounts_of("system:serviceaccountsx:ns"), None);
    }
}
