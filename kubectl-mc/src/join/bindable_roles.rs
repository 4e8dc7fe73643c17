//! Maintains the list of ClusterRoles and Roles of a member that a ClusterAccess may bind: in the member's
//! ConfigMap, in the manager's rights to the bindings of these roles, and in the member's policy.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use kubectl_mc_api::access::policy::{BINDABLE_ROLES, Policy};
use kubectl_mc_api::cluster_access::{RoleKind, RoleRef};
use kubectl_mc_api::names::{ACCESS, MANAGER, NAMESPACE};
use serde_json::{Value, json};

use super::token_policy;
use crate::cluster::connection::{Connection, ConnectionError, FIELD_MANAGER};

/// Writes the list into an object of the manifest that contains it.
pub(crate) fn set(object: &mut Value, roles: &BTreeSet<String>) {
    if object["metadata"]["name"] != MANAGER {
        return;
    }
    match object["kind"].as_str() {
        Some("ConfigMap") => object["data"][BINDABLE_ROLES] = lines(roles).into(),
        Some("ClusterRole") => {
            if let Some(rules) = object["rules"].as_array_mut() {
                rules.extend(rules_for(roles));
            }
        }
        // A JSON string is also a CEL string.
        Some("ValidatingAdmissionPolicy") => {
            token_policy::set(object, "bindableRoles", &json!(roles).to_string());
        }
        _ => {}
    }
}

/// The manager's rules for the bindings of these roles.
fn rules_for(roles: &BTreeSet<String>) -> Vec<Value> {
    let roles: BTreeSet<RoleRef> = roles.iter().map(|entry| RoleRef::from_entry(entry).0).collect();
    let rule = |resource: &str, names: Vec<String>, verbs: &[&str]| {
        // A rule without names would apply to all objects.
        (!names.is_empty()).then(|| {
            json!({
                "apiGroups": ["rbac.authorization.k8s.io"], "resources": [resource], "resourceNames": names,
                "verbs": verbs,
            })
        })
    };
    let of = |kind: RoleKind| roles.iter().filter(move |role| role.kind == kind);
    let names = |kind| of(kind).map(|role| role.name.clone()).collect();
    let bindings = of(RoleKind::ClusterRole).map(RoleRef::binding_name).collect();
    let all_bindings = roles.iter().map(RoleRef::binding_name).collect();
    let rules = [
        rule("clusterrolebindings", bindings, &["get", "create", "patch", "delete"]),
        rule("rolebindings", all_bindings, &["get", "list", "create", "patch", "delete"]),
        rule("clusterroles", names(RoleKind::ClusterRole), &["bind"]),
        rule("roles", names(RoleKind::Role), &["bind"]),
    ];
    rules.into_iter().flatten().collect()
}

/// The roles in the member's ConfigMap.
pub(crate) fn listed(config_map: Option<&Value>) -> BTreeSet<String> {
    let data = config_map.and_then(|map| map["data"].as_object()).into_iter().flatten();
    let data = data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    Policy::parse(&data.collect()).bindable_roles
}

/// The names of the bindings that the manager may write, from its ClusterRole of an earlier join.
pub(crate) fn bindings(manager: Option<&Value>) -> BTreeSet<String> {
    let rules = manager.and_then(|role| role["rules"].as_array()).into_iter().flatten();
    let names = rules.filter_map(|rule| rule["resourceNames"].as_array()).flatten().filter_map(Value::as_str);
    names.filter(|name| RoleRef::of_binding(name).is_some()).map(str::to_owned).collect()
}

/// The patch of an existing ConfigMap, if its list changes.
pub(crate) fn patch(config_map: Option<&Value>, roles: &BTreeSet<String>) -> Option<Value> {
    let is_changed = config_map.is_some() && listed(config_map) != *roles;
    is_changed.then(|| json!({"data": {BINDABLE_ROLES: lines(roles)}}))
}

/// Applies the patch, which keeps the other keys of the ConfigMap, and returns a line of output.
pub(crate) async fn write(
    member: &Connection,
    patch: &Value,
    dry_run: bool,
) -> Result<String, ConnectionError> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{MANAGER}");
    let (parameter, remark) = if dry_run { ("&dryRun=All", " (server dry run)") } else { ("", "") };
    let to = format!("{path}?fieldManager={FIELD_MANAGER}{parameter}");
    let body = Some(("application/merge-patch+json", patch));
    let answer = member.send(Method::PATCH, &to, body).await?;
    if !answer.status.is_success() {
        return Err(member.refused(format!("patch {path}"), &answer));
    }
    Ok(format!("configmap/{MANAGER} configured{remark}"))
}

/// Commands that delete the bindings of unlisted roles.
pub(crate) fn shell(kubectl: &str, roles: &BTreeSet<String>) -> String {
    let mut namespaces = BTreeMap::<RoleRef, Vec<String>>::new();
    for entry in roles {
        let (role, namespace) = RoleRef::from_entry(entry);
        let others = namespace.map(|namespace| format!("metadata.namespace!={namespace}"));
        namespaces.entry(role).or_default().extend(others);
    }
    let delete = |what: &str, fields: Vec<String>| {
        let fields = match fields.is_empty() {
            true => String::new(),
            false => format!(" --field-selector={}", quoted(&fields.join(","))),
        };
        format!("{kubectl} delete {what} -l {ACCESS}=true{fields}\n")
    };
    let others = || namespaces.keys().map(|role| format!("metadata.name!={}", role.binding_name())).collect();
    let in_namespaces = "rolebindings --all-namespaces";
    let mut text = delete("clusterrolebindings", others()) + &delete(in_namespaces, others());
    // A Role is listed with its namespaces.
    for (role, others) in namespaces.into_iter().filter(|(_, others)| !others.is_empty()) {
        let named = format!("metadata.name={}", role.binding_name());
        text += &delete(in_namespaces, std::iter::once(named).chain(others).collect());
    }
    text
}

fn quoted(word: &str) -> String {
    crate::next_command::quoted(word.as_ref())
}

/// One entry per line.
fn lines(roles: &BTreeSet<String>) -> String {
    roles.iter().map(|role| format!("{role}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::manifest;

    fn roles(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn prepared(names: &[&str], kind: &str) -> Value {
        let mut objects = manifest::member().unwrap();
        objects.iter_mut().for_each(|object| set(object, &roles(names)));
        let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == MANAGER;
        objects.iter().find(is_it).unwrap().clone()
    }

    #[test]
    fn list_is_written_in_all_three_places() {
        let names = ["edit", "say \"hi\"", "shop/deployer"];
        assert_eq!(listed(Some(&prepared(&names, "ConfigMap"))), roles(&names));
        let expected =
            ["kubectl-mc-bound:edit", "kubectl-mc-bound:say \"hi\"", "kubectl-mc-bound-role:deployer"];
        assert_eq!(bindings(Some(&prepared(&names, "ClusterRole"))), roles(&expected));
        let policy = prepared(&names, "ValidatingAdmissionPolicy");
        let variables = policy["spec"]["variables"].as_array().unwrap();
        let variable = variables.iter().find(|variable| variable["name"] == "bindableRoles").unwrap();
        assert_eq!(variable["expression"], r#"["edit","say \"hi\"","shop/deployer"]"#);
    }

    #[test]
    fn manager_gets_rights_to_the_listed_roles_only() {
        let shipped = prepared(&[], "ClusterRole");
        let with = prepared(&["view"], "ClusterRole");
        let (before, after) = (shipped["rules"].as_array().unwrap(), with["rules"].as_array().unwrap());
        assert_eq!(after[..before.len()], before[..]);
        let rule = |resource: &str, name: &str, verbs: &[&str]| {
            json!({
                "apiGroups": ["rbac.authorization.k8s.io"], "resources": [resource], "resourceNames": [name],
                "verbs": verbs,
            })
        };
        assert_eq!(
            after[before.len()..],
            [
                rule("clusterrolebindings", "kubectl-mc-bound:view", &["get", "create", "patch", "delete"]),
                rule("rolebindings", "kubectl-mc-bound:view", &["get", "list", "create", "patch", "delete"]),
                rule("clusterroles", "view", &["bind"]),
            ]
        );
        // No rule is without names.
        let of_role = prepared(&["shop/deployer", "web/deployer"], "ClusterRole");
        let binding = "kubectl-mc-bound-role:deployer";
        assert_eq!(
            of_role["rules"].as_array().unwrap()[before.len()..],
            [
                rule("rolebindings", binding, &["get", "list", "create", "patch", "delete"]),
                rule("roles", "deployer", &["bind"]),
            ]
        );
    }

    #[test]
    fn kept_config_map_changes_only_in_its_list() {
        let map = json!({"data": {"refused-users": "root\n", "bindable-roles": "view"}});
        assert_eq!(patch(Some(&map), &roles(&["view"])), None);
        let changed = patch(Some(&map), &roles(&["edit", "view"]));
        assert_eq!(changed, Some(json!({"data": {"bindable-roles": "edit\nview\n"}})));
        assert_eq!(patch(Some(&map), &roles(&[])), Some(json!({"data": {"bindable-roles": ""}})));
        assert_eq!(patch(None, &roles(&["view"])), None);
    }

    #[test]
    fn printed_commands_keep_the_listed_roles() {
        assert_eq!(
            shell("kubectl", &roles(&["view"])),
            "kubectl delete clusterrolebindings -l fleet.kubectl-mc.dev/access=true --field-selector='metadata.name!=kubectl-mc-bound:view'\n\
             kubectl delete rolebindings --all-namespaces -l fleet.kubectl-mc.dev/access=true --field-selector='metadata.name!=kubectl-mc-bound:view'\n"
        );
        assert!(!shell("kubectl", &roles(&[])).contains("field-selector"));
        // The Role is kept only in its namespaces.
        let of_role = shell("kubectl", &roles(&["shop/deployer", "web/deployer"]));
        assert_eq!(
            of_role.lines().last().unwrap(),
            "kubectl delete rolebindings --all-namespaces -l fleet.kubectl-mc.dev/access=true \
             --field-selector='metadata.name=kubectl-mc-bound-role:deployer,metadata.namespace!=shop,metadata.namespace!=web'"
        );
        assert_eq!(of_role.matches("metadata.name!=kubectl-mc-bound-role:deployer'").count(), 2, "{of_role}");
    }
}
