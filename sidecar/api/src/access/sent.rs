//! Derives the user and the groups that the sidecar sends to a member. Requests, the member's rights, bindings and
//! the plugin use the same rules.

use std::borrow::Cow;

use super::subject::{Subject, service_account};
use crate::member_cluster::ServiceAccounts;
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

/// The namespace, if a group is that of a namespace's service accounts.
pub fn accounts_of(group: &str) -> Option<&str> {
    let namespace = group.strip_prefix(SERVICE_ACCOUNTS)?.strip_prefix(':')?;
    (!namespace.is_empty() && !namespace.contains(':')).then_some(namespace)
}

/// The groups that a service account of a namespace is in (apiserver: `serviceaccount.MakeGroupNames`).
pub fn service_account_groups(namespace: &str) -> [String; 2] {
    [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// A user of the host as a member sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent<'a> {
    pub user: Cow<'a, str>,
    /// Each needs a right on the member, as the user does.
    pub groups: Vec<Cow<'a, str>>,
}

impl Sent<'_> {
    /// Whether the member takes the user for a service account of its own.
    pub fn is_members_account(&self) -> bool {
        service_account(&self.user).is_some()
    }
}

/// The user and the groups that the sidecar sends to a member for a user of the host.
///
/// - `system:authenticated` and `system:unauthenticated` are left out, because the member adds them.
/// - [`HOST_ADMINS`] replaces the admin groups.
/// - Service accounts and their groups are renamed or refused, as the member's `accounts` says.
/// - The groups of a service account that keeps its name are left out only if they are exactly the derived ones,
///   because the member derives them too.
pub fn identity<'a>(
    admin_groups: &[String],
    accounts: ServiceAccounts,
    user: &'a str,
    groups: &'a [String],
) -> Result<Sent<'a>, NotSent> {
    let is_admin = |group: &str| admin_groups.iter().any(|admin| admin == group);
    // The admin groups come from the host's configuration, not from a caller.
    let forged = groups.iter().map(String::as_str).filter(|group| !is_admin(group));
    if let Some(name) = forged.chain([user]).find(|name| name.starts_with(HOST_ACCOUNTS)) {
        return Err(NotSent::Reserved(name.to_owned()));
    }
    let mut sent = Sent { user: user_on_member(accounts, user)?, groups: Vec::new() };
    let mut admin = false;
    for group in groups.iter().map(String::as_str) {
        match group {
            AUTHENTICATED | UNAUTHENTICATED => {}
            _ if is_admin(group) => admin = true,
            _ => sent.groups.push(group_on_member(accounts, group)?),
        }
    }
    if admin {
        sent.groups.push(HOST_ADMINS.into());
    }
    if let Some((namespace, _)) = service_account(&sent.user) {
        if sent.groups.is_empty() {
            return Err(NotSent::WithoutGroups(user.to_owned()));
        }
        let is_derived =
            |group: &Cow<'_, str>| *group == SERVICE_ACCOUNTS || accounts_of(group) == Some(namespace);
        if sent.groups.len() == 2 && sent.groups.iter().all(is_derived) && sent.groups[0] != sent.groups[1] {
            sent.groups.clear();
        }
    }
    Ok(sent)
}

/// The subject that a binding on a member names for a subject of the host; `None` if the member never sees it.
pub fn subject(accounts: ServiceAccounts, subject: &Subject) -> Option<Subject> {
    let renamed = match subject {
        Subject::User(user) => Subject::of_user(&user_on_member(accounts, user).ok()?),
        Subject::Group(group) => Subject::Group(group_on_member(accounts, group).ok()?.into_owned()),
        Subject::ServiceAccount { namespace, name } => match accounts {
            ServiceAccounts::Same => subject.clone(),
            ServiceAccounts::Prefixed => Subject::User(prefixed_account(namespace, name)),
            ServiceAccounts::Omit => return None,
        },
    };
    Some(renamed)
}

fn user_on_member(accounts: ServiceAccounts, user: &str) -> Result<Cow<'_, str>, NotSent> {
    match (accounts, service_account(user)) {
        (ServiceAccounts::Same, _) | (_, None) => Ok(user.into()),
        (ServiceAccounts::Prefixed, Some((namespace, name))) => Ok(prefixed_account(namespace, name).into()),
        (ServiceAccounts::Omit, Some(_)) => Err(NotSent::Account(user.to_owned())),
    }
}

fn group_on_member(accounts: ServiceAccounts, group: &str) -> Result<Cow<'_, str>, NotSent> {
    let is_of_accounts = group == SERVICE_ACCOUNTS || accounts_of(group).is_some();
    match accounts {
        _ if !is_of_accounts => Ok(group.into()),
        ServiceAccounts::Same => Ok(group.into()),
        ServiceAccounts::Prefixed => Ok(prefixed_group(group).into()),
        ServiceAccounts::Omit => Err(NotSent::Account(group.to_owned())),
    }
}

/// `kubectl-mc:host:serviceaccount:NAMESPACE:NAME`
fn prefixed_account(namespace: &str, name: &str) -> String {
    format!("{HOST_ACCOUNTS}serviceaccount:{namespace}:{name}")
}

/// `kubectl-mc:host:serviceaccounts` or `kubectl-mc:host:serviceaccounts:NAMESPACE`
fn prefixed_group(group: &str) -> String {
    format!("{HOST_ACCOUNTS}{}", group.strip_prefix("system:").unwrap_or(group))
}

/// The prefix of names that members with prefixed service accounts see. No user or group of the
/// host may have it, regardless of the sidecar's flags: it would be the name of another account.
pub const HOST_ACCOUNTS: &str = "kubectl-mc:host:";

/// Why an identity is not sent to a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    #[error(
        "{0:?} lacks the groups of a service account, which a member would add: impersonate it without \
         --as-group, or with all of its groups"
    )]
    WithoutGroups(String),
    #[error(
        "{0:?} belongs to service accounts of the host, and spec.impersonation.serviceAccounts of this MemberCluster is \
         Omit: log in as another user, or let the host's administrators set the field to Prefixed"
    )]
    Account(String),
    #[error("{0:?} begins with kubectl-mc:host:, which names the host's service accounts on members")]
    Reserved(String),
}

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

    const ACCOUNT: &str = "system:serviceaccount:ns:n";
    const DERIVED: [&str; 3] = ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED];

    /// The user, then the groups.
    fn sent(accounts: ServiceAccounts, user: &str, groups: &[&str]) -> Result<String, NotSent> {
        let groups: Vec<_> = groups.iter().map(|&group| group.to_owned()).collect();
        let sent = identity(&[MASTERS.to_owned()], accounts, user, &groups)?;
        Ok([&[sent.user], &sent.groups[..]].concat().join(" "))
    }

    #[test]
    fn only_exactly_derived_groups_of_an_account_are_left_out() {
        let (all, own) = ("system:serviceaccounts", "system:serviceaccounts:ns");
        for (of, expected) in [
            (&[all, own][..], ""),
            (&[own, AUTHENTICATED, all], ""),
            (&["a", "b"], " a b"),
            (&[all, "b"], " system:serviceaccounts b"),
            (&[own, own], " system:serviceaccounts:ns system:serviceaccounts:ns"),
            (&[own], " system:serviceaccounts:ns"),
            (&[all, own, "b"], " system:serviceaccounts system:serviceaccounts:ns b"),
        ] {
            let expected = format!("{ACCOUNT}{expected}");
            assert_eq!(sent(ServiceAccounts::Same, ACCOUNT, of), Ok(expected), "{of:?}");
        }
        let without = NotSent::WithoutGroups(ACCOUNT.to_owned());
        assert_eq!(sent(ServiceAccounts::Same, ACCOUNT, &[]), Err(without));
    }

    #[test]
    fn prefixed_account_is_no_account_of_the_member() {
        let prefixed = |user, groups| sent(ServiceAccounts::Prefixed, user, groups).unwrap();
        assert_eq!(
            prefixed(ACCOUNT, &DERIVED),
            "kubectl-mc:host:serviceaccount:ns:n kubectl-mc:host:serviceaccounts kubectl-mc:host:serviceaccounts:ns"
        );
        // A member derives no groups for it, so it can be sent without them.
        assert_eq!(prefixed(ACCOUNT, &[AUTHENTICATED]), "kubectl-mc:host:serviceaccount:ns:n");
        // The group is handled by itself, for every user in it.
        assert_eq!(
            prefixed("jane", &["dev", "system:serviceaccounts:ns", MASTERS]),
            "jane dev kubectl-mc:host:serviceaccounts:ns kubectl-mc:host-admins"
        );
        let no_account = "system:serviceaccount:a:b:c";
        assert_eq!(
            prefixed(no_account, &["system:serviceaccounts:"]),
            format!("{no_account} system:serviceaccounts:")
        );
    }

    #[test]
    fn omitted_accounts_and_their_groups_are_refused() {
        for (user, groups, name) in [
            (ACCOUNT, &DERIVED[..], ACCOUNT),
            (ACCOUNT, &["dev"], ACCOUNT),
            ("jane", &["dev", "system:serviceaccounts"], "system:serviceaccounts"),
            ("jane", &["system:serviceaccounts:ns"], "system:serviceaccounts:ns"),
        ] {
            let refused = sent(ServiceAccounts::Omit, user, groups).unwrap_err();
            assert_eq!(refused, NotSent::Account(name.to_owned()), "{user} {groups:?}");
            assert!(refused.to_string().contains("spec.impersonation.serviceAccounts"));
        }
        assert_eq!(sent(ServiceAccounts::Omit, "jane", &["dev"]).as_deref(), Ok("jane dev"));
    }

    #[test]
    fn fault_84_prefix_of_accounts_comes_from_nobody() {
        const FORGED: &str = "kubectl-mc:host:serviceaccount:ns:n";
        for accounts in [ServiceAccounts::Same, ServiceAccounts::Prefixed, ServiceAccounts::Omit] {
            for (user, groups) in
                [(FORGED, &["dev"][..]), ("jane", &["dev", "kubectl-mc:host:serviceaccounts"])]
            {
                let refused = sent(accounts, user, groups);
                assert!(matches!(refused, Err(NotSent::Reserved(_))), "{user} {groups:?}: {refused:?}");
            }
        }
    }

    #[test]
    fn binding_names_what_the_member_sees() {
        let account = Subject::ServiceAccount { namespace: "ns".to_owned(), name: "n".to_owned() };
        let group = |name: &str| Subject::Group(name.to_owned());
        let (jane, own) = (Subject::User("jane".to_owned()), group("system:serviceaccounts:ns"));
        use ServiceAccounts::{Omit, Prefixed, Same};
        for (accounts, of, expected) in [
            (Same, &account, Some(account.clone())),
            (Prefixed, &account, Some(Subject::User("kubectl-mc:host:serviceaccount:ns:n".to_owned()))),
            (Omit, &account, None),
            (Same, &own, Some(own.clone())),
            (Prefixed, &own, Some(group("kubectl-mc:host:serviceaccounts:ns"))),
            (Omit, &own, None),
            (Prefixed, &jane, Some(jane.clone())),
            (Omit, &jane, Some(jane.clone())),
        ] {
            assert_eq!(subject(accounts, of), expected, "{accounts:?} {of}");
        }
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
