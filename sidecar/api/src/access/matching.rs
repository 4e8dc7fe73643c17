//! Finds the clusters whose proxy a ClusterRole lets its subjects use, as RBAC's authorizer decides it
//! (kubernetes: `pkg/apis/rbac/v1/evaluation_helpers.go`).
//!
//! A rule matches by API group (`*` is any), by resource (`clusters/proxy`, `*/proxy` and `*`, but neither
//! `clusters` nor `clusters/*`), by verb and by name. A rule without names matches all; `*` is an ordinary
//! name.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::path::{CLUSTERS, PROXY_GROUP};
use crate::{ClusterName, Origin};

/// The clusters whose proxy a role grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The role reaches every cluster.
    pub all: bool,
    pub named: BTreeSet<ClusterName>,
}

impl Reach {
    /// The clusters of an inventory that the rules of a role reach together. Members of a hub are reached by
    /// grants in the hub's API group as well.
    pub fn of(rules: &[PolicyRule], origin: Origin) -> Self {
        let mut reach = Self::default();
        for rule in rules.iter().filter(|rule| is_about_the_proxy(rule, origin)) {
            match rule.resource_names.as_deref() {
                None | Some([]) => reach.all = true,
                // Names that are not valid cluster names match no cluster.
                Some(names) => reach.named.extend(names.iter().filter_map(|name| name.parse().ok())),
            }
        }
        if reach.all {
            reach.named.clear();
        }
        reach
    }

    pub fn is_nothing(&self) -> bool {
        !self.all && self.named.is_empty()
    }

    pub fn includes(&self, cluster: &ClusterName) -> bool {
        self.all || self.named.contains(cluster)
    }
}

fn is_about_the_proxy(rule: &PolicyRule, origin: Origin) -> bool {
    let any_of = |list: &Option<Vec<String>>, wanted: &[&str]| {
        list.iter().flatten().any(|word| wanted.contains(&word.as_str()))
    };
    let resource_of = |group: &str, resource: &str| {
        let resources = rule.resources.iter().flatten();
        any_of(&rule.api_groups, &["*", group])
            && resources.map(String::as_str).any(|found| is_the_proxy(found, resource))
    };
    (resource_of(PROXY_GROUP, CLUSTERS) || resource_of(origin.grant_group(), origin.grant_resource()))
        && rule.verbs.iter().any(|verb| VERBS.contains(&verb.as_str()))
}

fn is_the_proxy(found: &str, resource: &str) -> bool {
    match found.split_once('/') {
        None => found == "*",
        Some((parent, sub)) => sub == PROXY && (parent == "*" || parent == resource),
    }
}

/// The verbs by which requests to a proxy are authorized. A method without a verb here (OPTIONS) needs `*`.
pub const VERBS: &[&str] = &["*", "get", "create", "update", "patch", "delete"];
const PROXY: &str = "proxy";

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> PolicyRule {
        let list = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        PolicyRule {
            api_groups: Some(list(groups)),
            resources: Some(list(resources)),
            verbs: list(verbs),
            resource_names: (!names.is_empty()).then(|| list(names)),
            ..PolicyRule::default()
        }
    }

    fn reached(rule: PolicyRule) -> bool {
        Reach::of(&[rule], Origin::MemberCluster).includes(&"m1".parse().unwrap())
    }

    #[test]
    fn groups_and_resources_match_as_in_the_authorizer() {
        for (group, resource, matches) in [
            ("proxy.kubectl-mc.dev", "clusters/proxy", true),
            ("*", "clusters/proxy", true),
            ("proxy.kubectl-mc.dev", "*/proxy", true),
            ("proxy.kubectl-mc.dev", "*", true),
            ("*", "*", true),
            ("proxy.kubectl-mc.dev", "clusters", false),
            ("proxy.kubectl-mc.dev", "clusters/*", false),
            ("proxy.kubectl-mc.dev", "*/*", false),
            ("proxy.kubectl-mc.dev", "pods/proxy", false),
            ("proxy.kubectl-mc.dev", "clusters/proxy/x", false),
            ("proxy.kubectl-mc.dev", "clusters/Proxy", false),
            ("", "clusters/proxy", false),
            ("kubectl-mc.dev", "*", false),
        ] {
            assert_eq!(reached(rule(&[group], &[resource], &["get"], &[])), matches, "{group} {resource}");
        }
    }

    #[test]
    fn rule_without_a_proxy_verb_reaches_nothing() {
        for (verbs, matches) in [
            (&["list", "watch"][..], false),
            (&["deletecollection", "impersonate", "connect", "GET"], false),
            (&[], false),
            (&["watch", "patch"], true),
            (&["*"], true),
        ] {
            let rule = rule(&["*"], &["*"], verbs, &[]);
            assert_eq!(reached(rule), matches, "{verbs:?}");
        }
    }

    #[test]
    fn named_rule_reaches_only_its_names_and_star_is_a_name() {
        let of = |names: &[&str]| reached(rule(&["*"], &["*"], &["*"], names));
        assert!(of(&["m0", "m1"]));
        assert!(!of(&["m2"]));
        assert!(!of(&["*"]));
    }

    #[test]
    fn rules_of_a_role_add_up() {
        let named = |name| rule(&["*"], &["*/proxy"], &["get"], &[name]);
        let of = |rules: &[PolicyRule]| Reach::of(rules, Origin::MemberCluster);
        assert_eq!(of(&[named("m1"), named("m2")]).named.len(), 2);
        assert!(of(&[named("m1"), rule(&["*"], &["*"], &["*"], &[])]).all);
        assert!(of(&[]).is_nothing());
    }

    #[test]
    fn grants_of_a_hub_reach_only_its_own_members() {
        for (group, resource, reached) in [
            ("proxy.kubectl-mc.dev", "clusters/proxy", Origin::ALL.to_vec()),
            ("cluster.karmada.io", "clusters/proxy", vec![Origin::Karmada]),
            ("cluster.karmada.io", "aggregations/proxy", vec![]),
            ("aggregated.kubeadmiral.io", "aggregations/proxy", vec![Origin::KubeAdmiral]),
            ("aggregated.kubeadmiral.io", "clusters/proxy", vec![]),
        ] {
            let rule = rule(&[group], &[resource], &["get"], &[]);
            let reaches = |origin: &Origin| Reach::of(std::slice::from_ref(&rule), *origin).all;
            let found: Vec<_> = Origin::ALL.into_iter().filter(reaches).collect();
            assert_eq!(found, reached, "{group} {resource}");
        }
    }
}
