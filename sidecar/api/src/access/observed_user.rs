//! Defines the record of a user whom the host authorizes although no binding names them. The records are in
//! ConfigMap `<cluster>.learnt` on the host.
//!
//! A binding to a group names no users, and a user may be in more groups than are bound. Impersonation on a
//! member, however, needs a right on the user's name and on each group. The sidecar therefore records such a
//! user at the first request, and the member's rights include the user as long as the host still authorizes
//! them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::sent;
use super::subject::Subject;
use crate::member_cluster::ServiceAccounts;

/// An observed user: the value of one key of the ConfigMap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedUser {
    pub user: String,
    /// All groups that the host reported, for later reviews by the host.
    #[serde(default)]
    pub groups: Vec<String>,
    pub at: Time,
}

impl ObservedUser {
    /// The subjects that are sent to a member for this user. Each needs a right there.
    pub fn subjects(&self, admin_groups: &[String], accounts: ServiceAccounts) -> Vec<Subject> {
        // Of an identity that is never sent, nothing needs a right.
        let Ok(sent) = sent::identity(admin_groups, accounts, &self.user, &self.groups) else {
            return Vec::new();
        };
        let groups = sent.groups.into_iter().map(|group| Subject::Group(group.into_owned()));
        std::iter::once(Subject::of_user(&sent.user)).chain(groups).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(accounts: ServiceAccounts, user: &str, groups: &[&str]) -> Vec<String> {
        let observed: ObservedUser = serde_json::from_value(
            serde_json::json!({"user": user, "groups": groups, "at": "2026-01-01T00:00:00Z"}),
        )
        .unwrap();
        observed.subjects(&["system:masters".to_owned()], accounts).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn observed_subjects_are_those_sent_to_members() {
        use ServiceAccounts::{Omit, Prefixed, Same};
        assert_eq!(
            subjects(Same, "jane", &["dev", "system:authenticated"]),
            ["user \"jane\"", "group \"dev\""]
        );
        assert_eq!(
            subjects(Omit, "root", &["system:masters"]),
            ["user \"root\"", "group \"kubectl-mc:host-admins\""]
        );
        let derived = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
        let account = |accounts| subjects(accounts, "system:serviceaccount:ns:n", &derived);
        assert_eq!(account(Same), ["service account ns/n"]);
        assert_eq!(
            account(Prefixed),
            [
                "user \"kubectl-mc:host:serviceaccount:ns:n\"",
                "group \"kubectl-mc:host:serviceaccounts\"",
                "group \"kubectl-mc:host:serviceaccounts:ns\"",
            ]
        );
        assert_eq!(account(Omit), [""; 0]);
        assert_eq!(subjects(Prefixed, "kubectl-mc:host:serviceaccount:ns:n", &["dev"]), [""; 0], "forged");
    }
}
