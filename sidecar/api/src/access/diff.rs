//! Compares the rights that a member's impersonator has with those that it should have. Each
//! missing right is listed with the binding that gives it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};

use super::objects::{AUTHENTICATION, IMPERSONATE, Impersonator, Objects};
use super::rules::{MemberRules, Reasons};
use super::subject::Subject;

/// The roles and bindings that a member has now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actual {
    pub cluster_role: Option<ClusterRole>,
    pub cluster_role_binding: Option<ClusterRoleBinding>,
    /// The Roles of the impersonator's name, in any namespace.
    pub roles: Vec<Role>,
    pub role_bindings: Vec<RoleBinding>,
}

/// One right of an impersonator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Impersonate this user, group or service account.
    Be(Subject),
    AnyUser,
    AnyGroup,
    AnyServiceAccount,
    ServiceAccountsOf(String),
    Uids,
    UidsAndExtra,
    /// A right that the sync never writes.
    Other(String),
}

/// What a sync would change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub missing: BTreeMap<Right, Reasons>,
    pub surplus: BTreeSet<Right>,
}

impl Difference {
    pub fn of(rules: &MemberRules, impersonator: &Impersonator, actual: &Actual) -> Self {
        let objects = rules.objects(impersonator);
        let (wanted, has) = (Rights::wanted(&objects), Rights::of(actual, &objects));
        let missing = wanted.0.difference(&has.0).map(|right| (right.clone(), rules.reasons(right)));
        Self { missing: missing.collect(), surplus: has.0.difference(&wanted.0).cloned().collect() }
    }

    pub fn is_none(&self) -> bool {
        self.missing.is_empty() && self.surplus.is_empty()
    }
}

impl MemberRules {
    /// The bindings and other reasons for a right; empty for a right that is not about one subject.
    pub fn reasons(&self, right: &Right) -> Reasons {
        let reasons = match right {
            Right::Be(Subject::User(name)) => self.users.get(name),
            Right::Be(Subject::Group(name)) => self.groups.get(name),
            Right::Be(Subject::ServiceAccount { namespace, name }) => {
                self.accounts.get(namespace).and_then(|accounts| accounts.names.get(name))
            }
            Right::ServiceAccountsOf(namespace) => self.accounts.get(namespace).map(|accounts| &accounts.all),
            _ => None,
        };
        reasons.cloned().unwrap_or_default()
    }
}

struct Rights(BTreeSet<Right>);

impl Rights {
    fn wanted(objects: &Objects) -> Self {
        let mut rights = Self(BTreeSet::new());
        rights.add(objects.cluster_role.rules.as_deref(), None);
        for (namespace, (role, _)) in &objects.roles {
            rights.add(role.rules.as_deref(), Some(namespace));
        }
        rights
    }

    /// A role gives rights only where it is bound. A binding counts as the sync's if it has the subjects and
    /// the role that the sync would write.
    fn of(actual: &Actual, wanted: &Objects) -> Self {
        let mut rights = Self(BTreeSet::new());
        let Actual { cluster_role, cluster_role_binding, roles, role_bindings } = actual;
        let ours = &wanted.cluster_role_binding;
        if let Some(binding) = cluster_role_binding {
            if binding.role_ref == ours.role_ref && binding.subjects == ours.subjects {
                rights.add(cluster_role.as_ref().and_then(|role| role.rules.as_deref()), None);
            } else {
                rights.0.insert(Right::Other("a ClusterRoleBinding that binds others".to_owned()));
            }
        }
        for binding in role_bindings {
            let namespace = binding.metadata.namespace.as_deref().unwrap_or_default();
            let is_here = |role: &&Role| role.metadata.namespace.as_deref() == Some(namespace);
            if binding.subjects == ours.subjects && binding.role_ref.kind == "Role" {
                let role = roles.iter().find(is_here);
                rights.add(role.and_then(|role| role.rules.as_deref()), Some(namespace));
            } else {
                let other = format!("a RoleBinding in namespace {namespace} that binds others");
                rights.0.insert(Right::Other(other));
            }
        }
        rights
    }

    fn add(&mut self, rules: Option<&[PolicyRule]>, namespace: Option<&str>) {
        for rule in rules.unwrap_or_default() {
            let PolicyRule { api_groups, non_resource_urls, resource_names, resources, verbs } = rule;
            let urls = non_resource_urls.iter().flatten().next().is_some();
            if urls || verbs.as_slice() != [IMPERSONATE] {
                self.0.insert(Right::Other(in_words(rule, namespace)));
                continue;
            }
            let names = resource_names.as_deref().unwrap_or_default();
            for group in api_groups.iter().flatten() {
                for resource in resources.iter().flatten() {
                    let rights = of(group, resource, names, namespace);
                    self.0.extend(rights.unwrap_or_else(|| vec![Right::Other(in_words(rule, namespace))]));
                }
            }
        }
    }
}

/// The rights of one resource of a rule, if the sync writes such rules.
fn of(group: &str, resource: &str, names: &[String], namespace: Option<&str>) -> Option<Vec<Right>> {
    let named = |subject: &dyn Fn(String) -> Subject, any: Right| match names {
        [] => vec![any],
        names => names.iter().map(|name| Right::Be(subject(name.clone()))).collect(),
    };
    Some(match (group, resource, namespace) {
        ("", "users", None) => named(&Subject::User, Right::AnyUser),
        ("", "groups", None) => named(&Subject::Group, Right::AnyGroup),
        ("", "serviceaccounts", None) if names.is_empty() => vec![Right::AnyServiceAccount],
        ("", "serviceaccounts", Some(namespace)) => {
            let account = |name| Subject::ServiceAccount { namespace: namespace.to_owned(), name };
            named(&account, Right::ServiceAccountsOf(namespace.to_owned()))
        }
        (AUTHENTICATION, "*", None) if names.is_empty() => vec![Right::UidsAndExtra],
        (AUTHENTICATION, "uids", None) if names.is_empty() => vec![Right::Uids],
        _ => return None,
    })
}

fn in_words(rule: &PolicyRule, namespace: Option<&str>) -> String {
    let list = |words: &Option<Vec<String>>| words.iter().flatten().cloned().collect::<Vec<_>>().join(",");
    let mut text = format!(
        "{} {}{} in API group {:?}",
        rule.verbs.join(","),
        list(&rule.resources),
        list(&rule.non_resource_urls),
        list(&rule.api_groups),
    );
    if let Some(names) = &rule.resource_names {
        text.push_str(&format!(" named {}", names.join(",")));
    }
    if let Some(namespace) = namespace {
        text.push_str(&format!(" in namespace {namespace}"));
    }
    text
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Be(subject) => write!(f, "impersonate {subject}"),
            Self::AnyUser => f.write_str("impersonate any user"),
            Self::AnyGroup => f.write_str("impersonate any group"),
            Self::AnyServiceAccount => f.write_str("impersonate any service account"),
            Self::ServiceAccountsOf(namespace) => {
                write!(f, "impersonate the service accounts of namespace {namespace}")
            }
            Self::Uids => f.write_str("pass the caller's uid on"),
            Self::UidsAndExtra => f.write_str("pass the caller's uid and extra on"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests;
