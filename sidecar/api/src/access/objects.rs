//! Builds the roles and bindings of a member from its rules: one ClusterRole for users, groups, uids and
//! extra, and one Role in each namespace whose service accounts may be impersonated. The names are fixed,
//! because the manager's rights on the member are limited to them.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::MemberRules;
use super::rules::Accounts;
use crate::names::{IMPERSONATOR, KUBECTL_MC, MANAGED_BY, NAMESPACE};

/// The objects that a member should have. Equal rules make equal objects in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects {
    pub cluster_role: ClusterRole,
    pub cluster_role_binding: ClusterRoleBinding,
    /// By namespace.
    pub roles: BTreeMap<String, (Role, RoleBinding)>,
}

impl MemberRules {
    pub fn objects(&self) -> Objects {
        let mut rules = Vec::new();
        if self.any_user {
            rules.push(rule("", "users", Vec::new()));
        } else if !self.users.is_empty() {
            rules.push(rule("", "users", self.users.keys().cloned().collect()));
        }
        if !self.groups.is_empty() {
            rules.push(rule("", "groups", self.groups.keys().cloned().collect()));
        }
        // The host's authenticators choose the keys of extra, and RBAC has no wildcard `userextras/*`. The
        // rule therefore names `*`: for the verb impersonate this group has only uids and userextras.
        match (self.uid, self.extra) {
            (_, true) => rules.push(rule(AUTHENTICATION, "*", Vec::new())),
            (true, false) => rules.push(rule(AUTHENTICATION, "uids", Vec::new())),
            (false, false) => {}
        }
        let roles = self.accounts.iter().map(|(namespace, accounts)| {
            let Accounts { all, names } = accounts;
            let names = if all.is_empty() { names.keys().cloned().collect() } else { Vec::new() };
            let role = Role {
                metadata: metadata(Some(namespace)),
                rules: Some(vec![rule("", "serviceaccounts", names)]),
            };
            let binding = RoleBinding {
                metadata: metadata(Some(namespace)),
                role_ref: role_ref("Role"),
                subjects: Some(vec![impersonator()]),
            };
            (namespace.clone(), (role, binding))
        });
        Objects {
            cluster_role: ClusterRole {
                metadata: metadata(None),
                rules: Some(rules),
                ..ClusterRole::default()
            },
            cluster_role_binding: ClusterRoleBinding {
                metadata: metadata(None),
                role_ref: role_ref("ClusterRole"),
                subjects: Some(vec![impersonator()]),
            },
            roles: roles.collect(),
        }
    }
}

fn metadata(namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(IMPERSONATOR.to_owned()),
        namespace: namespace.map(str::to_owned),
        labels: Some(BTreeMap::from([(MANAGED_BY.to_owned(), KUBECTL_MC.to_owned())])),
        ..ObjectMeta::default()
    }
}

fn rule(group: &str, resource: &str, names: Vec<String>) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: (!names.is_empty()).then_some(names),
        verbs: vec![IMPERSONATE.to_owned()],
        ..PolicyRule::default()
    }
}

fn role_ref(kind: &str) -> RoleRef {
    RoleRef { api_group: RBAC_GROUP.to_owned(), kind: kind.to_owned(), name: IMPERSONATOR.to_owned() }
}

fn impersonator() -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: IMPERSONATOR.to_owned(),
        namespace: Some(NAMESPACE.to_owned()),
        api_group: None,
    }
}

pub const IMPERSONATE: &str = "impersonate";
pub const AUTHENTICATION: &str = "authentication.k8s.io";
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::{Because, Policy, Subject};
    use crate::member_cluster::{Forwarding, Impersonation};

    fn objects(impersonation: &Impersonation, subjects: &[Subject]) -> Objects {
        let entitled = subjects.iter().map(|subject| (subject, Because::Spec));
        MemberRules::new(&[], impersonation, &Policy::default(), entitled, &[]).objects()
    }

    fn account(namespace: &str, name: &str) -> Subject {
        Subject::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn users_and_groups_are_listed_in_order_and_once() {
        let user = |name: &str| Subject::User(name.to_owned());
        let group = |name: &str| Subject::Group(name.to_owned());
        let subjects = [user("zoe"), group("dev"), user("jane"), user("zoe")];
        let role = objects(&Impersonation::default(), &subjects).cluster_role;
        assert_eq!(
            serde_json::to_value(role.rules).unwrap(),
            json!([
                {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["jane", "zoe"]},
                {"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"],
                 "resourceNames": ["dev", "kubectl-mc:host-admins"]},
                {"apiGroups": ["authentication.k8s.io"], "resources": ["*"], "verbs": ["impersonate"]},
            ])
        );
    }

    #[test]
    fn objects_have_the_names_and_labels_that_the_manager_may_write() {
        let objects = objects(&Impersonation::default(), &[account("a", "robot")]);
        let (role, binding) = &objects.roles["a"];
        let of_cluster = [&objects.cluster_role.metadata, &objects.cluster_role_binding.metadata];
        for metadata in [of_cluster, [&role.metadata, &binding.metadata]].concat() {
            assert_eq!(metadata.name.as_deref(), Some(IMPERSONATOR));
            assert_eq!(metadata.labels.as_ref().unwrap()[MANAGED_BY], KUBECTL_MC);
        }
        for subjects in [&objects.cluster_role_binding.subjects, &binding.subjects] {
            let subjects = serde_json::to_value(subjects).unwrap();
            let account = json!({"kind": "ServiceAccount", "name": IMPERSONATOR, "namespace": NAMESPACE});
            assert_eq!(subjects, json!([account]));
        }
    }

    #[test]
    fn service_accounts_are_named_in_their_own_namespace() {
        let group = Subject::Group("system:serviceaccounts:all".to_owned());
        let subjects = [account("a", "robot"), account("b", "robot"), account("all", "one"), group];
        let Objects { cluster_role, roles, .. } = objects(&Impersonation::default(), &subjects);
        assert!(!format!("{cluster_role:?}").contains("robot"));
        let names = |namespace: &str| {
            let (role, binding) = &roles[namespace];
            assert_eq!(binding.metadata.namespace.as_deref(), Some(namespace));
            role.rules.as_ref().unwrap()[0].resource_names.clone()
        };
        assert_eq!(names("a"), Some(vec!["robot".to_owned()]));
        assert_eq!(names("b"), Some(vec!["robot".to_owned()]));
        assert_eq!(names("all"), None, "the whole namespace");
        assert_eq!(roles.len(), 3);
    }

    #[test]
    fn uid_and_extra_get_a_rule_only_if_they_are_forwarded() {
        let resources = |uid, extra| {
            let impersonation = Impersonation { uid, extra, ..Impersonation::default() };
            let rules = objects(&impersonation, &[]).cluster_role.rules.unwrap();
            rules
                .into_iter()
                .find(|rule| rule.api_groups == Some(vec![AUTHENTICATION.to_owned()]))
                .and_then(|rule| rule.resources)
        };
        assert_eq!(resources(Forwarding::Forward, Forwarding::Omit), Some(vec!["uids".to_owned()]));
        assert_eq!(resources(Forwarding::Omit, Forwarding::Forward), Some(vec!["*".to_owned()]));
        assert_eq!(resources(Forwarding::Omit, Forwarding::Omit), None);
    }

    #[test]
    fn no_subject_leaves_an_empty_role() {
        let impersonation =
            Impersonation { uid: Forwarding::Omit, extra: Forwarding::Omit, ..Impersonation::default() };
        let refused =
            Policy { refused_groups: ["kubectl-mc:host-admins".to_owned()].into(), ..Policy::default() };
        let objects = MemberRules::new(&[], &impersonation, &refused, [], &[]).objects();
        assert_eq!(objects.cluster_role.rules, Some(Vec::new()));
        assert!(objects.roles.is_empty());
    }
}
