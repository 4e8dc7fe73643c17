use std::sync::Arc;

use super::*;
use crate::access::{Because, Policy, sent};
use crate::member_cluster::Impersonation;

fn account(name: &str) -> Subject {
    Subject::ServiceAccount { namespace: "ns".to_owned(), name: name.to_owned() }
}

/// Rules for a user, a group, an account of namespace ns and all accounts of namespace ci.
fn rules() -> MemberRules {
    let subjects = [
        Subject::User("jane".to_owned()),
        Subject::Group("dev".to_owned()),
        account("robot"),
        Subject::Group("system:serviceaccounts:ci".to_owned()),
    ];
    let because = Because::Binding { binding: Arc::from("b"), role: Arc::from("r") };
    let entitled = subjects.iter().map(|subject| (subject, because.clone()));
    MemberRules::new(&sent::admin_groups([]), &Impersonation::default(), &Policy::default(), entitled, &[])
}

/// A member in which a sync of these rules has just written everything.
fn synced(rules: &MemberRules) -> Actual {
    let Objects { cluster_role, cluster_role_binding, roles } = rules.objects(&Impersonator::default());
    let (roles, role_bindings) = roles.into_values().unzip();
    Actual {
        cluster_role: Some(cluster_role),
        cluster_role_binding: Some(cluster_role_binding),
        roles,
        role_bindings,
    }
}

/// Rules for these users and an account of namespace ns, without administrators.
fn users(names: &[&str]) -> MemberRules {
    let mut subjects: Vec<_> = names.iter().map(|&name| Subject::User(name.to_owned())).collect();
    subjects.push(account("robot"));
    let entitled = subjects.iter().map(|subject| (subject, Because::Spec));
    MemberRules::new(&[], &Impersonation::default(), &Policy::default(), entitled, &[])
}

fn texts(rights: impl IntoIterator<Item = Right>) -> Vec<String> {
    rights.into_iter().map(|right| right.to_string()).collect()
}

/// The surplus rights of a synced member after this change.
fn surplus(change: impl FnOnce(&mut Actual)) -> Vec<String> {
    let mut actual = synced(&rules());
    change(&mut actual);
    let difference = Difference::of(&rules(), &Impersonator::default(), &actual);
    assert_eq!(difference.is_none(), difference.missing.is_empty() && difference.surplus.is_empty());
    difference.surplus.iter().map(|right| format!("{right:?}")).collect()
}

fn add_rule(actual: &mut Actual, group: &str, resource: &str, names: &[&str], verbs: &[&str]) {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let rule = PolicyRule {
        api_groups: Some(owned(&[group])),
        resources: Some(owned(&[resource])),
        resource_names: (!names.is_empty()).then(|| owned(names)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    };
    actual.cluster_role.as_mut().unwrap().rules.as_mut().unwrap().push(rule);
}

#[test]
fn synced_member_has_no_difference() {
    assert!(Difference::of(&rules(), &Impersonator::default(), &synced(&rules())).is_none());
}

#[test]
fn difference_has_missing_rights_with_reasons_and_surplus() {
    let difference =
        Difference::of(&users(&["jane", "zoe"]), &Impersonator::default(), &synced(&users(&["bob", "jane"])));
    let [(right, reasons)] = &difference.missing.into_iter().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((right.to_string().as_str(), reasons), (r#"impersonate user "zoe""#, &[Because::Spec].into()));
    assert_eq!(texts(difference.surplus), [r#"impersonate user "bob""#]);
}

#[test]
fn member_without_a_sync_misses_everything() {
    let missing = Difference::of(&users(&["jane"]), &Impersonator::default(), &Actual::default()).missing;
    assert_eq!(
        texts(missing.into_keys()),
        [
            r#"impersonate user "jane""#,
            r#"impersonate group "kubectl-mc:host-admins""#,
            "impersonate service account ns/robot",
            "pass the caller's uid and extra on",
        ]
    );
}

#[test]
fn unbound_role_grants_nothing_and_foreign_rule_is_surplus() {
    let rules = users(&["jane"]);
    let mut actual = synced(&rules);
    actual.role_bindings.clear();
    add_rule(&mut actual, "", "secrets", &[], &["get"]);
    let difference = Difference::of(&rules, &Impersonator::default(), &actual);
    assert_eq!(texts(difference.missing.into_keys()), ["impersonate service account ns/robot"]);
    assert_eq!(texts(difference.surplus), [r#"get secrets in API group """#]);
}

#[test]
fn each_missing_right_has_its_reasons() {
    let difference = Difference::of(&rules(), &Impersonator::default(), &Actual::default());
    assert!(!difference.is_none() && difference.surplus.is_empty());
    for right in [
        Right::Be(Subject::User("jane".to_owned())),
        Right::Be(Subject::Group("dev".to_owned())),
        Right::Be(account("robot")),
        Right::ServiceAccountsOf("ci".to_owned()),
    ] {
        assert_eq!(difference.missing[&right].len(), 1, "{right:?}");
    }
}

#[test]
fn bindings_of_others_are_surplus() {
    let other = r#"Other("a ClusterRoleBinding that binds others")"#;
    let binding = |actual: &mut Actual| actual.cluster_role_binding.take().unwrap();
    let role_ref = surplus(|actual| {
        let mut changed = binding(actual);
        changed.role_ref.name = "cluster-admin".to_owned();
        actual.cluster_role_binding = Some(changed);
    });
    assert_eq!(role_ref, [other]);
    let subjects = surplus(|actual| {
        let mut changed = binding(actual);
        changed.subjects = None;
        actual.cluster_role_binding = Some(changed);
    });
    assert_eq!(subjects, [other]);
    for change in [(|binding: &mut RoleBinding| binding.subjects = None) as fn(&mut RoleBinding), |binding| {
        binding.role_ref.kind = "ClusterRole".to_owned()
    }] {
        let found = surplus(|actual| change(&mut actual.role_bindings[0]));
        assert_eq!(found, [r#"Other("a RoleBinding in namespace ci that binds others")"#]);
    }
}

#[test]
fn rules_that_no_sync_writes_are_surplus() {
    for (group, resource, names, verbs) in [
        ("", "users", &[][..], &["get"][..]),
        ("", "users", &[], &["impersonate", "get"]),
        ("", "serviceaccounts", &["robot"], &["impersonate"]),
        (AUTHENTICATION, "*", &["x"], &["impersonate"]),
        (AUTHENTICATION, "uids", &["x"], &["impersonate"]),
        ("", "pods", &[], &["impersonate"]),
    ] {
        let found = surplus(|actual| add_rule(actual, group, resource, names, verbs));
        assert!(matches!(found.as_slice(), [one] if one.starts_with("Other(")), "{resource}: {found:?}");
    }
    for (group, resource, name) in [
        ("", "users", "AnyUser"),
        ("", "groups", "AnyGroup"),
        ("", "serviceaccounts", "AnyServiceAccount"),
        (AUTHENTICATION, "uids", "Uids"),
    ] {
        assert_eq!(surplus(|actual| add_rule(actual, group, resource, &[], &["impersonate"])), [name]);
    }
}
