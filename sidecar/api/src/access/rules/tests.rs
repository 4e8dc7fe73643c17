use std::sync::Arc;

use serde_json::json;

use super::Why::{AccountsOmitted, NoNamespace, OneByOne, Privileged};
use super::*;

fn because(binding: &str) -> Because {
    Because::Binding { binding: Arc::from(binding), role: Arc::from("r") }
}

fn group(name: &str) -> Subject {
    Subject::Group(name.to_owned())
}

fn account(namespace: &str, name: &str) -> Subject {
    Subject::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
}

fn admin_groups() -> Vec<String> {
    sent::admin_groups([])
}

fn rules(policy: &Policy, subjects: &[Subject]) -> MemberRules {
    let entitled = subjects.iter().map(|subject| (subject, because("b")));
    MemberRules::new(&admin_groups(), &Impersonation::default(), policy, entitled, &[])
}

fn groups(rules: &MemberRules) -> Vec<&str> {
    rules.groups.keys().map(String::as_str).collect()
}

#[test]
fn subjects_are_listed_by_kind() {
    let subjects = [
        Subject::User("jane".to_owned()),
        group("dev"),
        account("ns", "robot"),
        group("system:serviceaccounts:ci"),
    ];
    let rules = rules(&Policy::default(), &subjects);
    assert!(rules.users.contains_key("jane"));
    assert_eq!(groups(&rules), ["dev", HOST_ADMINS]);
    assert!(rules.accounts["ns"].names.contains_key("robot") && rules.accounts["ns"].all.is_empty());
    assert!(rules.accounts["ci"].names.is_empty() && !rules.accounts["ci"].all.is_empty());
    assert!(rules.left_out.is_empty());
    assert_eq!(rules.summary(), "1 user, 2 groups, 1 service account, all service accounts of 1 namespace");
}

#[test]
fn summary_omits_namespaces_whose_accounts_are_named() {
    let rules = rules(&Policy::default(), &[account("ns", "robot"), account("ns", "other")]);
    assert_eq!(rules.summary(), "0 users, 1 group, 2 service accounts");
}

fn with_accounts(accounts: ServiceAccounts, policy: &Policy, subjects: &[Subject]) -> MemberRules {
    let impersonation = Impersonation { service_accounts: accounts, ..Impersonation::default() };
    let entitled = subjects.iter().map(|subject| (subject, because("b")));
    MemberRules::new(&admin_groups(), &impersonation, policy, entitled, &[])
}

#[test]
fn prefixed_accounts_are_listed_as_users_with_their_groups() {
    let subjects = [
        account("ns", "robot"),
        group("system:serviceaccounts:ci"),
        group("system:serviceaccounts"),
        account("kube-system", "x"),
        account("n/s", "x"),
        Subject::User("kubectl-mc:host:serviceaccount:ns:forged".to_owned()),
        group("kubectl-mc:host:serviceaccounts:forged"),
    ];
    let rules = with_accounts(ServiceAccounts::Prefixed, &Policy::default(), &subjects);
    assert!(rules.users.keys().eq(["kubectl-mc:host:serviceaccount:ns:robot"]));
    let own = ["kubectl-mc:host:serviceaccounts", "kubectl-mc:host:serviceaccounts:ns"];
    assert_eq!(groups(&rules), [HOST_ADMINS, own[0], own[1]]);
    assert!(rules.accounts.is_empty());
    let why = |subject: &Subject| rules.left_out[subject].why;
    let expected = [OneByOne, OneByOne, Privileged, NoNamespace, Privileged, Privileged];
    assert_eq!(subjects[1..].iter().map(why).collect::<Vec<_>>(), expected);
}

#[test]
fn member_refuses_prefixed_accounts_as_users_and_groups() {
    let list = |name: &str| [name.to_owned()].into();
    let policy = Policy {
        refused_users: list("kubectl-mc:host:serviceaccount:ns:robot"),
        refused_groups: list("kubectl-mc:host:serviceaccounts:ci"),
        refused_namespaces: list("own"),
        ..Policy::default()
    };
    let subjects = [account("ns", "robot"), account("ci", "x"), account("own", "y")];
    let rules = with_accounts(ServiceAccounts::Prefixed, &policy, &subjects);
    let users = ["kubectl-mc:host:serviceaccount:ci:x", "kubectl-mc:host:serviceaccount:own:y"];
    assert!(rules.users.keys().eq(users), "{:?}", rules.users);
    assert!(!rules.groups.contains_key("kubectl-mc:host:serviceaccounts:ci"));
}

#[test]
fn omitted_accounts_get_no_right() {
    let subjects =
        [account("ns", "robot"), group("system:serviceaccounts:ci"), group("system:serviceaccounts")];
    let rules = with_accounts(ServiceAccounts::Omit, &Policy::default(), &subjects);
    assert!(rules.users.is_empty() && rules.accounts.is_empty());
    assert_eq!(groups(&rules), [HOST_ADMINS]);
    assert!(subjects.iter().all(|subject| rules.left_out[subject].why == AccountsOmitted));
}

#[test]
fn admin_groups_are_sent_as_host_admins() {
    let rules = rules(&Policy::default(), &[group("system:masters"), group("kubeadm:cluster-admins")]);
    assert_eq!(groups(&rules), [HOST_ADMINS]);
    assert_eq!(rules.groups[HOST_ADMINS], Reasons::from([because("b"), Because::Administrators]));
    assert_eq!(rules.left_out[&group("system:masters")].why, Why::AdminGroup);
}

#[test]
fn privileged_subjects_are_left_out_with_a_reason() {
    let subjects = [
        (group("system:authenticated"), Why::OneByOne),
        (group("system:serviceaccounts"), Why::OneByOne),
        (group("system:unauthenticated"), Why::NeverSent),
        (group("system:nodes"), Why::Privileged),
        (group("system:bootstrappers"), Why::Privileged),
        (group("system:bootstrappers:kubeadm:default-node-token"), Why::Privileged),
        (group("eks:kube-proxy-windows"), Why::Privileged),
        (group("system:serviceaccounts:kube-public"), Why::Privileged),
        (Subject::User("system:bootstrap:abcdef".to_owned()), Why::Privileged),
        (Subject::User("kubelet".to_owned()), Why::Privileged),
        (group("system:serviceaccounts:kube-system"), Why::Privileged),
        (group("kubectl-mc:host-admins"), Why::Privileged),
        (Subject::User("system:kube-controller-manager".to_owned()), Why::Privileged),
        (Subject::User("system:node:n1".to_owned()), Why::Privileged),
        (Subject::User("kubectl-mc:x".to_owned()), Why::Privileged),
        (account("kube-system", "generic-garbage-collector"), Why::Privileged),
        (account("a b", "x"), Why::NoNamespace),
        (account("../../pods?", "x"), Why::NoNamespace),
        (account("", "x"), Why::NoNamespace),
        (account("kubectl-mc-system", "kubectl-mc-manager"), Why::Privileged),
    ];
    for (subject, why) in subjects {
        let rules = rules(&Policy::default(), std::slice::from_ref(&subject));
        assert_eq!(rules.left_out[&subject], LeftOut { why, because: [because("b")].into() }, "{subject}");
        assert_eq!(groups(&rules), [HOST_ADMINS], "{subject}");
        assert!(rules.users.is_empty() && rules.accounts.is_empty(), "{subject}");
    }
}

#[test]
fn member_policy_refuses_subjects() {
    let policy = Policy {
        refused_users: ["root".to_owned()].into(),
        refused_groups: ["wheel".to_owned(), HOST_ADMINS.to_owned()].into(),
        refused_namespaces: ["argocd".to_owned()].into(),
        ..Policy::default()
    };
    let subjects = [
        Subject::User("root".to_owned()),
        group("wheel"),
        account("argocd", "controller"),
        group("system:serviceaccounts:argocd"),
        group("system:masters"),
    ];
    let rules = rules(&policy, &subjects);
    assert!(rules.users.is_empty() && rules.groups.is_empty() && rules.accounts.is_empty());
    let refused = rules.left_out.values().filter(|left_out| left_out.why == Why::MemberRefuses);
    assert_eq!(refused.count(), 5, "{:?}", rules.left_out);
}

#[test]
fn any_user_needs_consent_of_host_and_member() {
    let any = Impersonation { users: Users::Any, ..Impersonation::default() };
    let both = |policy: &Policy| MemberRules::new(&[], &any, policy, [], &[]).any_user;
    assert!(both(&Policy { any_user: true, ..Policy::default() }));
    assert!(!both(&Policy::default()));
    let policy = Policy { any_user: true, ..Policy::default() };
    assert!(!MemberRules::new(&[], &Impersonation::default(), &policy, [], &[]).any_user);
}

#[test]
fn observed_and_listed_subjects_count_as_bound() {
    let spec: Impersonation = serde_json::from_value(json!({
        "subjects": [{"kind": "Group", "name": "ops"}, {"kind": "User", "name": "system:node:n"}],
        "uid": "Omit",
    }))
    .unwrap();
    let observed = |user: &str, groups: &[&str]| -> ObservedUser {
        serde_json::from_value(json!({"user": user, "groups": groups, "at": "2026-01-01T00:00:00Z"})).unwrap()
    };
    let observed = [
        observed("jane", &["dev", "system:authenticated"]),
        observed("root", &["system:masters"]),
        observed("system:kube-scheduler", &[]),
    ];
    let rules = MemberRules::new(&admin_groups(), &spec, &Policy::default(), [], &observed);
    assert_eq!(rules.users.keys().collect::<Vec<_>>(), ["jane", "root"]);
    assert_eq!(groups(&rules), ["dev", HOST_ADMINS, "ops"]);
    assert_eq!(rules.groups["ops"], [Because::Spec].into());
    assert_eq!(rules.users["jane"], [Because::Observed].into());
    assert_eq!(rules.left_out.len(), 2);
    assert!(!rules.uid && rules.extra);
}
