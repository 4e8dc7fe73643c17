//! Preserves the refusals of a member's administrators, as variables of the member's policy: manual
//! changes of the policy survive a join, and names that only the ConfigMap lists are written into
//! the policy.

use std::collections::BTreeMap;

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::access::policy::{
    BINDABLE_ROLES, REFUSED_GROUPS, REFUSED_NAMESPACES, REFUSED_USERS, USERS,
};
use kubectl_mc_api::names::{MANAGER, NAMESPACE};
use serde_json::{Value, json};

use super::token_policy;

/// CEL expressions by the name of their variable.
pub(crate) type Variables = BTreeMap<&'static str, String>;

/// The variables that differ from a new member's policy.
pub(crate) fn chosen(config_map: Option<&Value>, policy: Option<&Value>) -> Variables {
    let mut chosen = Variables::new();
    for (variable, key) in VARIABLES {
        let listed = key.map_or_else(Vec::new, |key| lines(config_map, key));
        let written = policy.and_then(|policy| token_policy::expression(policy, variable));
        let written = written.filter(|&expression| expression != as_shipped(key));
        let expression = match written {
            Some(written) => written.to_owned(),
            // A JSON string is also a CEL string.
            None if !listed.is_empty() => json!(listed).to_string(),
            None => continue,
        };
        chosen.insert(variable, expression);
    }
    chosen
}

/// Writes the variables into the policy of the manifest.
pub(crate) fn set(object: &mut Value, chosen: &Variables) {
    if object["kind"] == "ValidatingAdmissionPolicy" && object["metadata"]["name"] == MANAGER {
        chosen.iter().for_each(|(variable, expression)| token_policy::set(object, variable, expression));
    }
}

/// Commands that write the ConfigMap and the policy of a new member, unless these contain choices
/// of the member's administrators. Without `sets_roles`, the bindable roles are such a choice.
pub(crate) fn shell(kubectl: &str, name: &ClusterName, sets_roles: bool, commands: &str) -> String {
    let keys = VARIABLES.iter().filter_map(|(_, key)| *key);
    let keys = [USERS].into_iter().chain(keys).chain((!sets_roles).then_some(BINDABLE_ROLES));
    let listed: String = keys.map(|key| format!("{{.data.{key}}}")).collect();
    let written =
        |(variable, _): &(&str, _)| format!("{{.spec.variables[?(@.name==\"{variable}\")].expression}}");
    let written: String = VARIABLES.iter().map(written).collect();
    let shipped: String = VARIABLES.iter().map(|(_, key)| as_shipped(*key)).collect();
    format!(
        "CHOSEN=$({kubectl} -n {NAMESPACE} get configmap {MANAGER} --ignore-not-found -o jsonpath='{listed}' || echo unknown\n  \
         {kubectl} get validatingadmissionpolicy {MANAGER} --ignore-not-found -o jsonpath='{written}' 2>/dev/null || true)\n\
         case $CHOSEN in '' | {LISTED} | '{shipped}' | '{LISTED}{shipped}')\n\
         {commands};;\n\
         *) unset MEMBER_UID; echo 'error: {name} refuses names or lists bindable roles, and these commands would reset ConfigMap and \
         ValidatingAdmissionPolicy {MANAGER}: nothing is changed. With access to both clusters, a join keeps them: \
         kubectl mc join {name} --member-context=NAME' >&2;;\n\
         esac\n"
    )
}

fn lines<'a>(config_map: Option<&'a Value>, key: &str) -> Vec<&'a str> {
    let text = config_map.and_then(|map| map["data"][key].as_str()).unwrap_or_default();
    text.split('\n').filter(|line| !line.is_empty()).collect()
}

fn as_shipped(key: Option<&str>) -> &'static str {
    if key.is_some() { "[]" } else { "false" }
}

/// The value of key `users` in a new member's ConfigMap.
const LISTED: &str = "Listed";

/// The variables that administrators set, with the matching key of the ConfigMap. `anyUser` has no key: it is
/// only set by hand.
const VARIABLES: [(&str, Option<&str>); 4] = [
    ("anyUser", None),
    ("refusedUsers", Some(REFUSED_USERS)),
    ("refusedGroups", Some(REFUSED_GROUPS)),
    ("refusedNamespaces", Some(REFUSED_NAMESPACES)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::manifest;

    fn policy() -> Value {
        let is_it = |object: &Value| {
            object["kind"] == "ValidatingAdmissionPolicy" && object["metadata"]["name"] == MANAGER
        };
        manifest::member().unwrap().into_iter().find(is_it).unwrap()
    }

    #[test]
    fn manual_changes_of_the_policy_survive_a_rejoin() {
        assert_eq!(chosen(None, Some(&policy())), Variables::new(), "a policy without changes");
        let (mut before, mut after) = (policy(), policy());
        token_policy::set(&mut before, "anyUser", "true");
        token_policy::set(&mut before, "refusedGroups", "['wheel'] + ['staff']");
        set(&mut after, &chosen(None, Some(&before)));
        assert_eq!(after, before);
    }

    #[test]
    fn new_member_has_the_shipped_choices() {
        let manifest = manifest::member().unwrap();
        let map = manifest.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
        assert_eq!(map["data"][USERS], LISTED);
        for (variable, key) in VARIABLES {
            assert_eq!(token_policy::expression(&policy(), variable), Some(as_shipped(key)));
        }
    }

    #[test]
    fn names_refused_in_the_config_map_reach_the_policy() {
        let map = json!({"data": {"users": "Any", REFUSED_USERS: "root\nplatform \"admin\"\n", REFUSED_GROUPS: ""}});
        let expected = Variables::from([("refusedUsers", r#"["root","platform \"admin\""]"#.to_owned())]);
        assert_eq!(chosen(Some(&map), Some(&policy())), expected);
        assert_eq!(chosen(Some(&map), None), expected);
        let mut written = policy();
        token_policy::set(&mut written, "refusedUsers", "['root', 'theo']");
        assert_eq!(chosen(Some(&map), Some(&written))["refusedUsers"], "['root', 'theo']", "by hand");
    }
}
