//! Determines what a new list of [`super::bindable_roles`] means: warnings, and the bindings to delete.

use std::collections::BTreeSet;

use kubectl_mc_api::access::builtin::is_privileged_namespace;
use kubectl_mc_api::cluster_access::RoleRef;
use kubectl_mc_api::names::ACCESS;
use serde_json::Value;

use super::bindable_roles::listed;
use super::cleanup;
use super::preflight::Finding;
use super::survey::MemberSurvey;
use crate::cluster::connection::{Connection, ConnectionError};

/// The bindings of roles that were removed from the list.
pub(crate) async fn surplus(
    member: &Connection,
    before: &MemberSurvey,
    roles: &BTreeSet<String>,
) -> Result<Vec<Value>, ConnectionError> {
    let names = roles.iter().map(|entry| RoleRef::from_entry(entry).0.binding_name()).collect();
    if listed(before.policy.as_ref()).is_subset(roles) && before.bindings.is_subset(&names) {
        return Ok(Vec::new());
    }
    let bindings = cleanup::labelled(member, &["rolebindings", "clusterrolebindings"], ACCESS).await?;
    Ok(bindings.into_iter().filter(|binding| is_surplus(binding, roles)).collect())
}

fn is_surplus(binding: &Value, roles: &BTreeSet<String>) -> bool {
    let name = binding["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = binding["metadata"]["namespace"].as_str();
    RoleRef::of_binding(name).is_some_and(|role| !roles.contains(&role.entry(namespace)))
}

/// Warnings about roles that give administrator rights, or may do so.
pub(crate) fn findings(roles: &BTreeSet<String>) -> impl Iterator<Item = Finding> {
    roles.iter().filter_map(|entry| {
        let effect = match RoleRef::from_entry(entry).1 {
            Some(namespace) if is_privileged_namespace(namespace) => {
                "gives any user rights in a system namespace"
            }
            None if entry == "cluster-admin" => "makes any user an administrator",
            _ => return None,
        };
        Some(Finding::Warning(format!(
            "with {entry} among the bindable roles, a ClusterAccess of the host {effect} of the member"
        )))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn roles(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn bindings_of_unlisted_roles_are_surplus() {
        let binding = |name: &str| json!({"metadata": {"name": name}});
        assert!(is_surplus(&binding("kubectl-mc-bound:edit"), &roles(&["view"])));
        assert!(!is_surplus(&binding("kubectl-mc-bound:view"), &roles(&["view"])));
        assert!(!is_surplus(&binding("theirs"), &roles(&[])));
        let of_role = json!({"metadata": {"name": "kubectl-mc-bound-role:deployer", "namespace": "web"}});
        assert!(is_surplus(&of_role, &roles(&["shop/deployer", "deployer"])));
        assert!(!is_surplus(&of_role, &roles(&["web/deployer"])));
    }

    #[test]
    fn powerful_roles_cause_a_warning() {
        let warned = |names: &[&str]| findings(&roles(names)).count();
        assert_eq!(warned(&["cluster-admin", "kube-system/deployer", "view", "shop/cluster-admin"]), 2);
        assert_eq!(warned(&["view"]), 0);
    }
}
