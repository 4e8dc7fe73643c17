use std::time::{Duration, Instant};

use k8s_openapi::api::rbac::v1;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn role(name: &str, rules: serde_json::Value) -> ClusterRole {
    serde_json::from_value(json!({"metadata": {"name": name}, "rules": rules})).unwrap()
}

/// A role that reaches the proxies of these clusters, or of all.
fn reaching(name: &str, clusters: &[&str]) -> ClusterRole {
    let mut rule =
        json!({"apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters/proxy"], "verbs": ["get"]});
    if !clusters.is_empty() {
        rule["resourceNames"] = json!(clusters);
    }
    role(name, json!([rule]))
}

fn binding(name: &str, role: &str, users: &[&str]) -> ClusterRoleBinding {
    let subjects: Vec<_> = users.iter().map(|user| json!({"kind": "User", "name": user})).collect();
    serde_json::from_value(json!({
        "metadata": {"name": name}, "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
    }))
    .unwrap()
}

fn cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}

fn named(names: &[&str]) -> Affected {
    Affected::Named(names.iter().map(|name| cluster(name)).collect())
}

fn users(index: &Index, of: &str) -> Vec<String> {
    let cluster = cluster(of);
    by_subject(index.entitled(&cluster)).into_keys().map(ToString::to_string).collect()
}

#[test]
fn change_affects_only_the_clusters_it_concerns() {
    let mut index = Index::default();
    assert_eq!(index.role(&reaching("r", &["m1", "m2"])), named(&[]), "nobody is bound");
    assert_eq!(index.binding(&binding("b", "r", &["jane"])), named(&["m1", "m2"]));
    assert_eq!(index.role(&reaching("r", &["m2", "m3"])), named(&["m1", "m3"]));
    assert_eq!(index.role(&reaching("r", &["m3", "m2"])), named(&[]), "another order is no change");
    assert_eq!(index.binding(&binding("b", "r", &["jane"])), named(&[]), "nor is the same binding again");
    assert_eq!(index.binding(&binding("b", "r", &["bob"])), named(&["m2", "m3"]));
    assert_eq!(index.role(&reaching("r", &[])), Affected::All);
    assert_eq!(index.role_gone("r"), Affected::All);
    assert_eq!(index.binding_gone("b"), named(&[]));
    assert_eq!(index.role(&reaching("r", &["m1"])), named(&[]));
}

#[test]
fn order_of_role_and_binding_does_not_matter() {
    let mut index = Index::default();
    index.binding(&binding("b", "r", &["jane"]));
    assert!(users(&index, "m1").is_empty());
    assert_eq!(index.role(&reaching("r", &["m1"])), named(&["m1"]));
    assert_eq!(users(&index, "m1"), ["user \"jane\""]);
    assert!(users(&index, "m2").is_empty());
}

#[test]
fn subject_is_listed_with_each_of_its_bindings() {
    let mut index = Index::default();
    index.role(&reaching("one", &["m1"]));
    index.role(&reaching("all", &[]));
    index.binding(&binding("a", "one", &["jane"]));
    index.binding(&binding("b", "all", &["jane", "bob"]));
    let m1 = cluster("m1");
    let entitled = by_subject(index.entitled(&m1));
    let reasons = |user: &str| -> Vec<String> {
        entitled[&Subject::User(user.to_owned())].iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        reasons("jane"),
        [r#"ClusterRoleBinding "a" to ClusterRole "one""#, r#"ClusterRoleBinding "b" to ClusterRole "all""#]
    );
    assert_eq!(reasons("bob").len(), 1);
}

#[test]
fn removed_bindings_leave_nothing_in_the_index() {
    let mut index = Index::default();
    index.role(&reaching("r", &["m1"]));
    index.binding(&binding("b", "r", &["jane"]));
    index.binding_gone("b");
    index.role_gone("r");
    let Index { origin: _, roles, bindings, of_role, everywhere, named } = index;
    assert!(roles.is_empty() && bindings.is_empty() && of_role.is_empty());
    assert!(everywhere.is_empty() && named.is_empty());
}

/// Each member has a role, and a binding with two or three users that no other member has. A change
/// of one binding among 1,000 members must cost less than ten times as much as among ten members.
/// Ratios do not depend on the machine.
#[test]
fn change_cost_does_not_grow_with_the_members() {
    let cost = |members: usize| {
        let mut index = Index::default();
        for member in 0..members {
            index.role(&reaching(&format!("r{member}"), &[&format!("m{member}")]));
            index.binding(&binding(&format!("b{member}"), &format!("r{member}"), &["a", "b", "c"]));
        }
        let (one, other) = (binding("b0", "r0", &["a", "b"]), binding("b0", "r0", &["a", "b", "d"]));
        let m0 = cluster("m0");
        (0..20)
            .map(|_| {
                let begun = Instant::now();
                for _ in 0..50 {
                    assert_eq!(index.binding(&one), named(&["m0"]));
                    assert_eq!(by_subject(index.entitled(&m0)).len(), 2);
                    index.binding(&other);
                }
                begun.elapsed()
            })
            .min()
            .unwrap_or(Duration::MAX)
    };
    let (few, many) = (cost(10), cost(1_000));
    assert!(many < few * 10, "10 members: {few:?}, 1,000: {many:?}");
}

/// RBAC's own check without an index (kubernetes: `pkg/apis/rbac/v1/evaluation_helpers.go`): whether a rule
/// allows this verb on `clusters/proxy` of a cluster.
fn allows(rule: &v1::PolicyRule, verb: &str, name: &str) -> bool {
    let has = |list: &[String], word: &str| list.iter().any(|other| other == word);
    let resource_matches = |list: &[String]| {
        list.iter().any(|rule| {
            rule == "*"
                || rule == "clusters/proxy"
                || (rule.len() == "proxy".len() + 2 && rule.starts_with("*/") && rule.ends_with("proxy"))
        })
    };
    let groups = rule.api_groups.clone().unwrap_or_default();
    let names = rule.resource_names.clone().unwrap_or_default();
    (has(&rule.verbs, "*") || has(&rule.verbs, verb))
        && (has(&groups, "*") || has(&groups, "proxy.kubectl-mc.dev"))
        && resource_matches(&rule.resources.clone().unwrap_or_default())
        && (names.is_empty() || has(&names, name))
}

type Roles = BTreeMap<String, ClusterRole>;
type Bindings = BTreeMap<String, ClusterRoleBinding>;

/// The subjects that the model entitles.
fn model(roles: &Roles, bindings: &Bindings, cluster: &str) -> BTreeSet<Subject> {
    let lets_in = |role: &ClusterRole| {
        let rules = role.rules.as_deref().unwrap_or_default();
        let verbs = ["get", "create", "update", "patch", "delete", ""];
        rules.iter().any(|rule| verbs.iter().any(|verb| allows(rule, verb, cluster)))
    };
    bindings
        .values()
        .filter(|binding| binding.role_ref.kind == "ClusterRole")
        .filter(|binding| roles.get(&binding.role_ref.name).is_some_and(lets_in))
        .flat_map(|binding| binding.subjects.iter().flatten().filter_map(Subject::of))
        .collect()
}

#[derive(Clone, Debug)]
enum Change {
    Role(ClusterRole),
    RoleGone(String),
    Binding(ClusterRoleBinding),
    BindingGone(String),
}

const CLUSTERS: &[&str] = &["m1", "m2", "m3"];

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let some = |words: &'static [&'static str], most| {
        proptest::collection::vec(proptest::sample::select(words).prop_map(str::to_owned), 0..=most)
    };
    let rule = (
        some(&["*", "proxy.kubectl-mc.dev", "apps", ""], 2),
        some(&["*", "*/proxy", "clusters/proxy", "clusters", "clusters/*", "pods"], 2),
        some(&["*", "get", "list", "create", "watch", "patch", "impersonate"], 2),
        some(&["m1", "m2", "m3", "*", "M1", "x.y"], 2),
    );
    let rule = rule.prop_map(|(groups, resources, verbs, names)| v1::PolicyRule {
        api_groups: Some(groups),
        resources: Some(resources),
        verbs,
        resource_names: Some(names),
        ..v1::PolicyRule::default()
    });
    let name = |words: &'static [&'static str]| proptest::sample::select(words).prop_map(str::to_owned);
    let roles: &[&str] = &["r1", "r2", "r3"];
    let bindings: &[&str] = &["b1", "b2", "b3", "b4"];
    let subject = (
        name(&["User", "Group", "ServiceAccount", "Thing"]),
        name(&["jane", "bob", "system:serviceaccount:ns:n", "dev"]),
        proptest::option::of(Just("ns".to_owned())),
    );
    let subject =
        subject.prop_map(|(kind, name, namespace)| v1::Subject { kind, name, namespace, api_group: None });
    let role_object = (name(roles), proptest::collection::vec(rule, 0..3)).prop_map(|(name, rules)| {
        let mut role = role(&name, json!([]));
        role.rules = Some(rules);
        Change::Role(role)
    });
    let binding_object = (
        name(bindings),
        name(roles),
        name(&["ClusterRole", "ClusterRole", "ClusterRole", "Role"]),
        proptest::collection::vec(subject, 0..3),
    )
        .prop_map(|(name, role, kind, subjects)| {
            let mut binding = binding(&name, &role, &[]);
            binding.role_ref.kind = kind;
            binding.subjects = Some(subjects);
            Change::Binding(binding)
        });
    let change = prop_oneof![
        4 => role_object,
        1 => name(roles).prop_map(Change::RoleGone),
        4 => binding_object,
        1 => name(bindings).prop_map(Change::BindingGone),
    ];
    proptest::collection::vec(change, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn index_agrees_with_rbac_after_any_changes(changes in changes()) {
        let mut index = Index::default();
        let (mut roles, mut bindings) = (Roles::new(), Bindings::new());
        for change in changes {
            let before: Vec<_> = CLUSTERS.iter().map(|name| model(&roles, &bindings, name)).collect();
            let affected = match change {
                Change::Role(role) => {
                    let affected = index.role(&role);
                    roles.insert(role.metadata.name.clone().unwrap_or_default(), role);
                    affected
                }
                Change::RoleGone(name) => {
                    roles.remove(&name);
                    index.role_gone(&name)
                }
                Change::Binding(binding) => {
                    let affected = index.binding(&binding);
                    bindings.insert(binding.metadata.name.clone().unwrap_or_default(), binding);
                    affected
                }
                Change::BindingGone(name) => {
                    bindings.remove(&name);
                    index.binding_gone(&name)
                }
            };
            for (name, before) in CLUSTERS.iter().zip(before) {
                let cluster = cluster(name);
                let now: BTreeSet<_> =
                    index.entitled(&cluster).map(|(subject, _)| subject.clone()).collect();
                prop_assert_eq!(&now, &model(&roles, &bindings, name));
                prop_assert!(now == before || affected.includes(&cluster), "{} changed unnoticed", name);
            }
        }
    }
}

#[test]
fn affected_clusters_are_the_named_ones_or_all() {
    assert!(named(&["m1"]).includes(&cluster("m1")) && !named(&["m1"]).includes(&cluster("m2")));
    assert!(Affected::All.includes(&cluster("m2")) && !Affected::none().includes(&cluster("m2")));
}
