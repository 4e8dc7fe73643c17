//! Builds the roles and bindings of a member from its rules: one ClusterRole for users, groups, uids and
//! extra, and one Role in each namespace whose service accounts may be impersonated. The names are fixed,
//! because the manager's rights on the member are limited to them.
//!
//! A member of Karmada that is a member of kubectl-mc as well has both accounts, so the objects for
//! Karmada's account have a separate name.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::rules::{Accounts, MemberRules};
use super::subject::RBAC_GROUP;
use crate::names::{IMPERSONATOR, KARMADA_RIGHTS, KUBECTL_MC, MANAGED_BY, NAMESPACE};

/// The service account on a member with which the sidecar impersonates callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonator {
    pub namespace: String,
    pub account: &'static str,
    /// The name of the roles and bindings that allow it.
    pub rights: &'static str,
}

impl Impersonator {
    /// The account of Karmada, in the namespace that has the Cluster's Secrets on the host
    /// (karmada-io/karmada: `pkg/controllers/unifiedauth`).
    pub fn of_karmada(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), account: KARMADA_ACCOUNT, rights: KARMADA_RIGHTS }
    }

    /// The name of the account as a user of the member.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.account)
    }
}

impl Default for Impersonator {
    /// The account that a join creates.
    fn default() -> Self {
        Self { namespace: NAMESPACE.to_owned(), account: IMPERSONATOR, rights: IMPERSONATOR }
    }
}

/// The objects that a member should have. Equal rules make equal objects in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects {
    pub cluster_role: ClusterRole,
    pub cluster_role_binding: ClusterRoleBinding,
    /// By namespace.
    pub roles: BTreeMap<String, (Role, RoleBinding)>,
}

impl MemberRules {
    pub fn objects(&self, impersonator: &Impersonator) -> Objects {
        let metadata = |namespace: Option<&str>| metadata(impersonator.rights, namespace);
        let role_ref = |kind: &str| role_ref(impersonator.rights, kind);
        let subjects = || Some(vec![subject(impersonator)]);
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
                subjects: subjects(),
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
                subjects: subjects(),
            },
            roles: roles.collect(),
        }
    }
}

fn metadata(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
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

fn role_ref(name: &str, kind: &str) -> RoleRef {
    RoleRef { api_group: RBAC_GROUP.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}

fn subject(impersonator: &Impersonator) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: impersonator.account.to_owned(),
        namespace: Some(impersonator.namespace.clone()),
        api_group: None,
    }
}

pub const IMPERSONATE: &str = "impersonate";
pub const AUTHENTICATION: &str = "authentication.k8s.io";
/// The account whose token is in Secret `<cluster>-impersonator`.
const KARMADA_ACCOUNT: &str = "karmada-impersonator";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::{Because, Policy, Subject};
    use crate::member_cluster::{Forwarding, Impersonation};

    fn objects(impersonation: &Impersonation, subjects: &[Subject]) -> Objects {
        let entitled = subjects.iter().map(|subject| (subject, Because::Spec));
        let rules = MemberRules::new(&[], impersonation, &Policy::default(), entitled, &[]);
        rules.objects(&Impersonator::default())
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
    fn account_of_karmada_has_objects_of_its_own() {
        let subjects = [account("a", "robot")];
        let entitled = subjects.iter().map(|subject| (subject, Because::Spec));
        let rules = MemberRules::new(&[], &Impersonation::default(), &Policy::default(), entitled, &[]);
        let karmada = Impersonator::of_karmada("clusters");
        let Objects { cluster_role, cluster_role_binding, roles } = rules.objects(&karmada);
        let (role, binding) = &roles["a"];
        let metadata =
            [&cluster_role.metadata, &cluster_role_binding.metadata, &role.metadata, &binding.metadata];
        for metadata in metadata {
            assert_eq!(metadata.name.as_deref(), Some("kubectl-mc-karmada-impersonator"));
        }
        for (role_ref, subjects) in [
            (&cluster_role_binding.role_ref, &cluster_role_binding.subjects),
            (&binding.role_ref, &binding.subjects),
        ] {
            assert_eq!(role_ref.name, "kubectl-mc-karmada-impersonator");
            let subjects = serde_json::to_value(subjects).unwrap();
            let account =
                json!({"kind": "ServiceAccount", "name": "karmada-impersonator", "namespace": "clusters"});
            assert_eq!(subjects, json!([account]));
        }
        assert_eq!(karmada.user(), "system:serviceaccount:clusters:karmada-impersonator");
        let own = rules.objects(&Impersonator::default());
        assert_eq!(own.cluster_role.rules, cluster_role.rules);
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
        let rules = MemberRules::new(&[], &impersonation, &refused, [], &[]);
        let objects = rules.objects(&Impersonator::default());
        assert_eq!(objects.cluster_role.rules, Some(Vec::new()));
        assert!(objects.roles.is_empty());
    }
}
