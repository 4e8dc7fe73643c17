//! Computes the desired bindings of one member from its grants, and the state of each ClusterAccess there. No
//! IO happens here.

use std::collections::{BTreeMap, BTreeSet};

use kubectl_mc_api::access::{Policy, Subject};
use kubectl_mc_api::cluster_access::RoleRef;
use kubectl_mc_api::member_cluster::ServiceAccounts;

use super::wanted::{Grants, on_member};
use crate::controllers::kube_error::printable;

/// A role, and the namespace in which it is bound; `None` means everywhere.
pub(super) type Place = (RoleRef, Option<String>);

/// The desired bindings of a member, and the states of the ClusterAccesses.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    pub(super) wanted: BTreeMap<Place, BTreeSet<Subject>>,
    /// The ClusterAccesses of each binding.
    pub(super) of: BTreeMap<Place, BTreeSet<String>>,
    pub(super) states: States,
}

/// The states by the name of the ClusterAccess.
pub(super) type States = BTreeMap<String, State>;

/// The state of a ClusterAccess on one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// `None` if it is not known yet.
    pub(super) granted: Option<bool>,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl State {
    pub(super) fn granted() -> Self {
        Self { granted: Some(true), reason: "Granted", message: String::new() }
    }

    pub(super) fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Some(false), reason, message.into())
    }

    pub(super) fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(None, reason, message.into())
    }

    /// Truncates the member's message: every grant has a copy, and the states of a thousand members must fit
    /// into one object.
    fn new(granted: Option<bool>, reason: &'static str, message: String) -> Self {
        let message = printable(&message, MAX_MESSAGE);
        Self { granted, reason, message }
    }
}

impl Bindings {
    pub(super) fn new(grants: &Grants, policy: &Policy, accounts: ServiceAccounts) -> Self {
        let mut bindings = Self::default();
        for (access, grant) in grants {
            let places: Vec<Option<String>> = match &grant.namespaces {
                Some(namespaces) => namespaces.iter().cloned().map(Some).collect(),
                None => vec![None],
            };
            let entry = |place: &Option<String>| grant.role.entry(place.as_deref());
            let (listed, unlisted): (Vec<_>, Vec<_>) =
                places.into_iter().partition(|place| policy.bindable_roles.contains(&entry(place)));
            let (mut subjects, mut left_out) = (Vec::new(), Vec::new());
            for subject in &grant.subjects {
                match on_member(subject, policy, accounts) {
                    Ok(there) => subjects.push(there),
                    Err(why) => left_out.push(format!("{subject}: {why}")),
                }
            }
            let state = if !unlisted.is_empty() {
                not_bindable(&grant.role, &unlisted.iter().map(entry).collect())
            } else if left_out.is_empty() {
                State::granted()
            } else {
                State::no("SubjectRefused", left_out.join("; "))
            };
            bindings.states.insert(access.clone(), state);
            for place in listed.into_iter().filter(|_| !subjects.is_empty()) {
                let place = (grant.role.clone(), place);
                bindings.wanted.entry(place.clone()).or_default().extend(subjects.iter().cloned());
                bindings.of.entry(place).or_default().insert(access.clone());
            }
        }
        bindings
    }

    /// Sets the state of every ClusterAccess of a binding that could not be written.
    pub(super) fn failed(&mut self, place: &Place, state: &State) {
        for access in self.of.get(place).into_iter().flatten() {
            self.states.insert(access.clone(), state.clone());
        }
    }
}

fn not_bindable(role: &RoleRef, entries: &BTreeSet<String>) -> State {
    let kind = role.kind.as_str();
    let entries: Vec<_> = entries.iter().map(|entry| format!("{entry:?}")).collect();
    let message = format!(
        "the member's ConfigMap kubectl-mc-manager does not list {kind} {} in bindable-roles; its administrators can, \
         with --bindable-roles of kubectl mc join",
        entries.join(", ")
    );
    State::no("RoleNotBindable", message)
}

const MAX_MESSAGE: usize = 300;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::wanted::Grant;
    use super::*;

    /// `NAME` of a ClusterRole, `/NAME` of a Role.
    fn role_ref(role: &str) -> RoleRef {
        RoleRef::from_entry(role).0
    }

    fn grant(role: &str, namespaces: Option<&[&str]>, users: &[&str]) -> Arc<Grant> {
        Arc::new(Grant {
            role: role_ref(role),
            namespaces: namespaces.map(|all| all.iter().map(|&name| name.to_owned()).collect()),
            subjects: users.iter().map(|&name| Subject::User(name.to_owned())).collect(),
        })
    }

    fn policy(bindable: &[&str]) -> Policy {
        Policy {
            bindable_roles: bindable.iter().map(|&name| name.to_owned()).collect(),
            refused_users: ["root".to_owned()].into(),
            ..Policy::default()
        }
    }

    #[test]
    fn grants_of_one_role_share_a_binding() {
        let grants = Grants::from([
            ("a".to_owned(), grant("view", None, &["jane"])),
            ("b".to_owned(), grant("view", None, &["jane", "theo"])),
            ("c".to_owned(), grant("view", Some(&["shop"]), &["zoe"])),
        ]);
        let Bindings { wanted, states, .. } =
            Bindings::new(&grants, &policy(&["view"]), ServiceAccounts::Same);
        let user = |name: &str| Subject::User(name.to_owned());
        let view = role_ref("view");
        assert_eq!(wanted[&(view.clone(), None)], BTreeSet::from([user("jane"), user("theo")]));
        assert_eq!(wanted[&(view, Some("shop".to_owned()))], BTreeSet::from([user("zoe")]));
        assert_eq!(wanted.len(), 2);
        assert!(states.values().all(|state| *state == State::granted()), "{states:?}");
    }

    #[test]
    fn fault_84_binding_names_accounts_as_the_member_sees_them() {
        let account = Subject::ServiceAccount { namespace: "ci".to_owned(), name: "deployer".to_owned() };
        let group = |name: &str| Subject::Group(name.to_owned());
        let own = group("system:serviceaccounts:ci");
        let forged = Subject::User("kubectl-mc:host:serviceaccount:ci:forged".to_owned());
        let subjects = BTreeSet::from([account.clone(), own.clone(), forged]);
        let grant = Grant { role: role_ref("view"), namespaces: None, subjects };
        let grants = Grants::from([("a".to_owned(), Arc::new(grant))]);
        let refusals = Policy {
            refused_namespaces: ["own".to_owned()].into(),
            refused_groups: ["kubectl-mc:host:serviceaccounts:refused".to_owned()].into(),
            ..policy(&["view"])
        };
        let bound = |accounts| {
            let Bindings { wanted, states, .. } = Bindings::new(&grants, &refusals, accounts);
            assert!(states["a"].message.contains(":forged"), "{states:?}");
            (wanted.into_values().next().unwrap_or_default(), states["a"].message.clone())
        };
        assert_eq!(bound(ServiceAccounts::Same).0, BTreeSet::from([account, own]));
        let user = Subject::User("kubectl-mc:host:serviceaccount:ci:deployer".to_owned());
        let expected = BTreeSet::from([user, group("kubectl-mc:host:serviceaccounts:ci")]);
        assert_eq!(bound(ServiceAccounts::Prefixed).0, expected);
        let (none, why) = bound(ServiceAccounts::Omit);
        assert!(none.is_empty() && why.contains("spec.impersonation.serviceAccounts"), "{why}");
    }

    #[test]
    fn role_is_bound_in_its_listed_namespaces_only() {
        let grants = Grants::from([
            ("a".to_owned(), grant("/deployer", Some(&["shop", "web", "pay"]), &["jane"])),
            ("b".to_owned(), grant("deployer", Some(&["shop"]), &["theo"])),
            ("c".to_owned(), grant("/view", Some(&["shop"]), &["zoe"])),
        ]);
        // A ClusterRole and a Role of the same name are different roles.
        let Bindings { wanted, states, .. } =
            Bindings::new(&grants, &policy(&["shop/deployer", "view"]), ServiceAccounts::Same);
        let places: Vec<_> = wanted.keys().cloned().collect();
        assert_eq!(places, [(role_ref("/deployer"), Some("shop".to_owned()))]);
        assert!(states.values().all(|state| state.reason == "RoleNotBindable"), "{states:?}");
        assert!(states["a"].message.contains(r#"Role "pay/deployer", "web/deployer" in"#), "{states:?}");
        assert!(states["b"].message.contains(r#"ClusterRole "deployer" in"#), "{states:?}");
    }

    #[test]
    fn unlisted_roles_and_refused_subjects_are_not_bound() {
        let grants = Grants::from([
            ("a".to_owned(), grant("edit", None, &["jane"])),
            ("b".to_owned(), grant("view", None, &["jane", "root", "system:node:n1"])),
            ("c".to_owned(), grant("view", Some(&["shop"]), &["root"])),
        ]);
        let Bindings { wanted, states, .. } =
            Bindings::new(&grants, &policy(&["view"]), ServiceAccounts::Same);
        assert_eq!(wanted.into_values().collect::<Vec<_>>(), [[Subject::User("jane".to_owned())].into()]);
        assert_eq!(states["a"].reason, "RoleNotBindable");
        for access in ["b", "c"] {
            assert_eq!(states[access].reason, "SubjectRefused");
            assert!(states[access].message.contains("\"root\""), "{states:?}");
        }
    }
}
