//! Compares every right that the manifests grant, on the host and on a member, with the golden lists in
//! `tests/rights`. An added or removed right changes these files, so a reviewer sees it.
//! `UPDATE=1 cargo test -p kubectl-mc-api --test rights` regenerates them.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use serde_json::Value;

#[test]
fn rights_on_the_host_match_the_golden_list() -> Result<(), Box<dyn Error>> {
    compare(&["rbac.yaml", "agents.yaml", "direct.yaml"], "host.txt")
}

#[test]
fn rights_for_karmada_match_the_golden_list() -> Result<(), Box<dyn Error>> {
    compare(&["karmada.yaml"], "karmada.txt")
}

#[test]
fn rights_in_front_of_karmada_match_the_golden_list() -> Result<(), Box<dyn Error>> {
    compare(&["hub-api-karmada.yaml"], "hub-api-karmada.txt")
}

#[test]
fn rights_for_kubeadmiral_match_the_golden_list() -> Result<(), Box<dyn Error>> {
    compare(&["kubeadmiral.yaml"], "kubeadmiral.txt")
}

#[test]
fn rights_on_a_member_match_the_golden_list() -> Result<(), Box<dyn Error>> {
    compare(&["member.yaml"], "member.txt")
}

#[test]
fn rights_of_an_agent_match_the_golden_list() -> Result<(), Box<dyn Error>> {
    compare(&["agent.yaml"], "agent.txt")
}

#[test]
fn rights_for_enrollment_match_the_golden_list() -> Result<(), Box<dyn Error>> {
    compare(&["enrollment.yaml"], "enrollment.txt")
}

fn compare(manifests: &[&str], kept: &str) -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut objects: Vec<Value> = Vec::new();
    for manifest in manifests {
        let text = std::fs::read_to_string(here.join("../deploy").join(manifest))?;
        objects.extend(serde_saphyr::from_multiple::<Value>(&text)?);
    }
    let lines = rights(&objects).into_iter().map(|line| line + "\n").collect::<String>();
    let kept = here.join("tests/rights").join(kept);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&kept, &lines)?;
    }
    assert_eq!(lines, std::fs::read_to_string(&kept)?, "{manifests:?} are not what is kept");
    Ok(())
}

/// A line `subject | namespace | verbs | resources | names` for each rule and each subject of its
/// bindings. Roles without a binding are meant to be bound by people, and are listed by name.
fn rights(objects: &[Value]) -> BTreeSet<String> {
    let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = BTreeSet::new();
    for role in objects.iter().filter(|object| of(&object["kind"]).ends_with("Role")) {
        let (kind, name) = (of(&role["kind"]), of(&role["metadata"]["name"]));
        let subjects: Vec<(String, String)> = objects
            .iter()
            .filter(|binding| {
                of(&binding["roleRef"]["kind"]) == kind
                    && of(&binding["roleRef"]["name"]) == name
                    && (kind == "ClusterRole"
                        || binding["metadata"]["namespace"] == role["metadata"]["namespace"])
            })
            .flat_map(|binding| {
                let namespace = of(&binding["metadata"]["namespace"]);
                let subjects = binding["subjects"].as_array().cloned().unwrap_or_default();
                subjects.into_iter().map(move |subject| (subject_text(&subject), namespace.clone()))
            })
            .collect();
        let subjects =
            if subjects.is_empty() { vec![(format!("role {name}"), String::new())] } else { subjects };
        for rule in role["rules"].as_array().cloned().unwrap_or_default() {
            for (subject, namespace) in &subjects {
                let place = if namespace.is_empty() { "everywhere" } else { namespace };
                lines.insert(format!("{subject} | {place} | {}", rule_text(&rule)));
            }
        }
    }
    // Bindings to roles that the manifests do not define.
    let ours = |name: &str| {
        objects.iter().any(|object| object["rules"].is_array() && object["metadata"]["name"] == name)
    };
    for binding in objects.iter().filter(|object| object["roleRef"].is_object()) {
        let role = of(&binding["roleRef"]["name"]);
        if !ours(&role) {
            for subject in binding["subjects"].as_array().cloned().unwrap_or_default() {
                let place = of(&binding["metadata"]["namespace"]);
                let place = if place.is_empty() { "everywhere".to_owned() } else { place };
                lines.insert(format!(
                    "{} | {place} | all of {} {role}",
                    subject_text(&subject),
                    of(&binding["roleRef"]["kind"])
                ));
            }
        }
    }
    lines
}

fn subject_text(subject: &Value) -> String {
    let text = |key: &str| subject[key].as_str().unwrap_or_default();
    format!("{} {}", text("kind"), text("name"))
}

fn rule_text(rule: &Value) -> String {
    let list = |key: &str| {
        let words = rule[key].as_array().cloned().unwrap_or_default();
        let words: Vec<_> = words.iter().map(|word| word.as_str().unwrap_or_default().to_owned()).collect();
        words.join(",")
    };
    let names = match list("resourceNames") {
        names if names.is_empty() => "any".to_owned(),
        names => names,
    };
    if rule["nonResourceURLs"].is_array() {
        return format!("{} | {} | {names}", list("verbs"), list("nonResourceURLs"));
    }
    format!("{} | {} of {:?} | {names}", list("verbs"), list("resources"), list("apiGroups"))
}

/// The member's policy has the sidecar's lists of built-in identities, each in its own variable, and its
/// expressions use them. `tests/e2e/identity/slow/stolen_manager.rs` tests the policy itself with every name.
#[test]
fn member_policy_has_the_builtin_identities() -> Result<(), Box<dyn Error>> {
    use kubectl_mc_api::access::builtin;
    let objects: Vec<Value> = serde_saphyr::from_multiple(kubectl_mc_api::manifests::MEMBER)?;
    let policies = objects.iter().filter(|object| object["kind"] == "ValidatingAdmissionPolicy");
    let policy = policies
        .clone()
        .find(|policy| policy["metadata"]["name"] == "kubectl-mc-manager")
        .ok_or("the manifest has no policy kubectl-mc-manager")?;
    let validations = policy["spec"]["validations"].to_string();
    for (variable, names) in [
        ("ordinarySystemUsers", builtin::ORDINARY_SYSTEM_USERS),
        ("ordinarySystemGroups", builtin::ORDINARY_SYSTEM_GROUPS),
        ("privilegedUsers", builtin::PRIVILEGED_USERS),
        ("privilegedNamespaces", builtin::PRIVILEGED_NAMESPACES),
    ] {
        let variables = policy["spec"]["variables"].as_array().cloned().unwrap_or_default();
        let expression = variables.iter().find(|entry| entry["name"] == variable);
        let expression = expression.and_then(|entry| entry["expression"].as_str()).unwrap_or_default();
        let listed: Vec<&str> = expression.split('\'').skip(1).step_by(2).collect();
        assert_eq!(listed, names, "{variable}");
        assert!(validations.contains(&format!("in variables.{variable}")), "no validation uses {variable}");
    }
    for prefix in builtin::PRIVILEGED_PREFIXES {
        let times = validations.matches(&format!("!name.startsWith('{prefix}')")).count();
        assert_eq!(times, 2, "{prefix}: for users and for groups");
    }
    assert!(validations.contains("name != 'kubeadm:cluster-admins'"), "the one admin group without system:");
    Ok(())
}

/// As shipped, the manager binds no role of a ClusterAccess; a join writes the list into both places.
#[test]
fn member_lists_no_bindable_roles_as_shipped() -> Result<(), Box<dyn Error>> {
    use kubectl_mc_api::access::policy::BINDABLE_ROLES;
    use kubectl_mc_api::{cluster_access, names};
    let objects: Vec<Value> = serde_saphyr::from_multiple(kubectl_mc_api::manifests::MEMBER)?;
    let manager = |kind: &str| {
        let mut found = objects.iter();
        let found =
            found.find(|object| object["kind"] == kind && object["metadata"]["name"] == names::MANAGER);
        found.ok_or_else(|| format!("the manifest has no {kind} {}", names::MANAGER))
    };
    assert_eq!(manager("ConfigMap")?["data"][BINDABLE_ROLES], "");
    let spec = &manager("ValidatingAdmissionPolicy")?["spec"];
    let variables = spec["variables"].as_array().cloned().unwrap_or_default();
    let variable =
        |name: &str| variables.iter().find(|entry| entry["name"] == name).cloned().unwrap_or_default();
    assert_eq!(variable("bindableRoles")["expression"], "[]");
    let is_access = variable("isAccess")["expression"].to_string();
    assert!(is_access.contains("!variables.isRole && variables.bindableRoles.exists("), "{is_access}");
    let validations = spec["validations"].to_string();
    for prefix in [cluster_access::CLUSTER_ROLE_PREFIX, cluster_access::ROLE_PREFIX] {
        for text in [&is_access, &validations] {
            assert!(text.contains(&format!("'{prefix}'")), "{prefix}: {text}");
        }
    }
    assert!(validations.contains(&format!("variables.isAccess && key == '{}'", names::ACCESS)));
    // The policy checks the subjects of a binding in the same way as the names of a rule.
    for (variable_name, kind) in
        [("userNames", "User"), ("groupNames", "Group"), ("accountNamespaces", "ServiceAccount")]
    {
        let expression = variable(variable_name)["expression"].to_string();
        let subjects = format!("variables.subjects.filter(s, s.kind == '{kind}')");
        assert!(expression.contains(&subjects), "{variable_name}: {expression}");
        assert!(validations.contains(&format!("variables.{variable_name}.all(")), "{variable_name}");
    }
    Ok(())
}
