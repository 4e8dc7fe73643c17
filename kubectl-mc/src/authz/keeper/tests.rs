use std::path::Path;

use super::*;
use crate::apply::diff::documents;

/// The policy and the rights that a host receives, for reviewers to read. `UPDATE=1` regenerates
/// the file.
#[test]
fn objects_are_those_of_the_golden_file() {
    let objects = [policy(&Layout::default()), rights("kubectl-mc-system")].concat();
    let text = documents(&objects);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/authz/keeper/golden.yaml");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&file).unwrap());
}

/// The expression with the name of a cluster in it.
fn wanted_of(layout: &Layout, cluster: &str) -> String {
    let text = wanted(layout).replace("variables.cluster", &format!("'{cluster}'"));
    text.replace("' + '", "")
}

#[test]
fn policy_wants_exactly_the_generated_rbac() {
    let others = Layout {
        cluster_namespace: "clusters".to_owned(),
        agent_namespace: "agents".to_owned(),
        agents_list_clusters: true,
    };
    for layout in [Layout::default(), others] {
        let text = wanted_of(&layout, "m1");
        let objects = rbac::objects(&layout, "m1");
        for pair in objects.chunks(2) {
            let [role, binding] = pair else { panic!("{pair:?}") };
            let place = role["metadata"]["namespace"].as_str().unwrap_or_default();
            let name = role["metadata"]["name"].as_str().unwrap();
            assert_eq!(binding["metadata"]["name"], name);
            let choice = format!(
                "variables.place == '{place}' && variables.name == '{name}' ? {} : ",
                given(role, binding)
            );
            assert!(text.contains(&choice), "{choice}\n{text}");
        }
        assert_eq!(text.matches("'rules'").count(), objects.len() / 2);
    }
}

#[test]
fn cluster_is_the_only_variable_of_the_rights() {
    assert!(!wanted(&Layout::default()).contains(HOLE));
}

#[test]
fn rights_read_nothing_else_and_change_no_policy() {
    let [role, binding] = rights("ns");
    let text = role["rules"].to_string();
    for absent in
        ["\"*\"", "get", "update", "deletecollection", "impersonate", "admissionregistration", "secrets"]
    {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": "mc-sidecar", "namespace": "ns"}])
    );
    assert!(is_right(&role) && is_right(&binding) && !is_right(&policy(&Layout::default())[0]));
}
