//! Defines the record of a user whom the host authorizes although no binding names them. The records are in
//! ConfigMap `<cluster>.learnt` on the host.
//!
//! A binding to a group names no users, and a user may be in more groups than are bound. Impersonation on a
//! member, however, needs a right on the user's name and on each group. The sidecar therefore records such a
//! user at the first request, and the member's rights include the user as long as the host still authorizes
//! them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::{Subject, sent};

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
    pub fn subjects(&self, admin_groups: &[String]) -> Vec<Subject> {
        let groups = sent::groups(admin_groups, &self.user, &self.groups).unwrap_or_default();
        let groups = groups.into_iter().map(|group| Subject::Group(group.to_owned()));
        std::iter::once(Subject::of_user(&self.user)).chain(groups).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(user: &str, groups: &[&str]) -> Vec<String> {
        let observed: ObservedUser = serde_json::from_value(
            serde_json::json!({"user": user, "groups": groups, "at": "2026-01-01T00:00:00Z"}),
        )
        .unwrap();
        observed.subjects(&["system:masters".to_owned()]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn observed_subjects_are_those_sent_to_members() {
        assert_eq!(subjects("jane", &["dev", "system:authenticated"]), ["user \"jane\"", "group \"dev\""]);
        assert_eq!(
            subjects("root", &["system:masters"]),
            ["user \"root\"", "group \"kubectl-mc:host-admins\""]
        );
        let derived = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
        assert_eq!(subjects("system:serviceaccount:ns:n", &derived), ["service account ns/n"]);
    }
}
