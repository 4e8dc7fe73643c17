use kubectl_mc_api::access::sent::NotSent;
use kubectl_mc_api::member_cluster::ServiceAccounts;

use super::*;
use crate::identity::Identity;

fn identity(user: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().map(|&g| g.to_owned()).collect();
    Identity { user: user.to_owned(), groups, ..Identity::default() }
}

fn sent(identity: &Identity, forwarded: Forwarded) -> Vec<String> {
    let mut headers = HeaderMap::new();
    Headers::new(&Rules::default(), identity, forwarded).unwrap().apply(&mut headers).unwrap();
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!(
            "{}={}",
            name.as_str().trim_start_matches("impersonate-"),
            String::from_utf8_lossy(value.as_bytes())
        )
    };
    headers.iter().map(line).collect()
}

fn refusal(identity: &Identity) -> Error {
    Headers::new(&Rules::default(), identity, Forwarded::default()).unwrap_err()
}

#[test]
fn user_groups_uid_and_extra_are_sent() {
    let jane = Identity {
        uid: Some("42".to_owned()),
        extra: [("Scopes.io/a b%".to_owned(), vec!["x".to_owned(), "y".to_owned()])].into(),
        ..identity("jané", &["dev", "system:authenticated"])
    };
    assert_eq!(
        sent(&jane, Forwarded::default()),
        ["user=jané", "group=dev", "uid=42", "extra-scopes.io%2fa%20b%25=x", "extra-scopes.io%2fa%20b%25=y"]
    );
    let omit = Forwarded { uid: Forwarding::Omit, extra: Forwarding::Omit, ..Forwarded::default() };
    assert_eq!(sent(&jane, omit), ["user=jané", "group=dev"]);
}

#[test]
fn derived_groups_and_uid_of_service_accounts_are_omitted() {
    let derived = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
    let account = Identity { uid: Some("1".to_owned()), ..identity("system:serviceaccount:ns:n", &derived) };
    assert_eq!(sent(&account, Forwarded::default()), ["user=system:serviceaccount:ns:n"]);
}

#[test]
fn other_groups_of_service_accounts_are_all_sent() {
    for groups in [
        &["system:serviceaccounts", "system:serviceaccounts:ns", "dev"][..],
        &["system:serviceaccounts"],
        &["system:serviceaccounts", "system:serviceaccounts"],
        &["system:serviceaccounts", "system:serviceaccounts:other"],
    ] {
        let lines = sent(&identity("system:serviceaccount:ns:n", groups), Forwarded::default());
        let expected: Vec<_> = groups.iter().map(|g| format!("group={g}")).collect();
        assert_eq!(lines[1..], expected);
    }
}

#[test]
fn service_account_without_groups_is_refused() {
    let account = "system:serviceaccount:ns:n";
    for groups in [&["system:authenticated"][..], &["system:unauthenticated"], &[]] {
        let refusal = refusal(&identity(account, groups));
        assert!(matches!(refusal, Error::NotSent(NotSent::WithoutGroups(_))), "{groups:?}");
        assert!(refusal.to_string().contains(account) && refusal.to_string().contains("--as-group"));
    }
    assert_eq!(sent(&identity("jane", &["system:authenticated"]), Forwarded::default()), ["user=jane"]);
}

fn with_accounts(accounts: ServiceAccounts) -> Forwarded {
    Forwarded { service_accounts: accounts, ..Forwarded::default() }
}

fn account() -> Identity {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
    Identity { uid: Some("1".to_owned()), ..identity("system:serviceaccount:ns:n", &groups) }
}

/// For the member it is an ordinary user, so the uid is also sent.
#[test]
fn fault_84_prefixed_account_is_a_user_of_the_member() {
    assert_eq!(
        sent(&account(), with_accounts(ServiceAccounts::Prefixed)),
        [
            "user=kubectl-mc:host:serviceaccount:ns:n",
            "group=kubectl-mc:host:serviceaccounts",
            "group=kubectl-mc:host:serviceaccounts:ns",
            "uid=1",
        ]
    );
    let prefixed = with_accounts(ServiceAccounts::Prefixed);
    let rights = Headers::new(&Rules::default(), &account(), prefixed).unwrap().rights();
    let user = Attributes::impersonate("", "users", "", "", "kubectl-mc:host:serviceaccount:ns:n");
    assert!(
        rights.contains(&user)
            && rights.iter().all(|right| !format!("{right:?}").contains("serviceaccounts\","))
    );
}

#[test]
fn fault_84_omitted_account_is_refused_with_member_and_field() {
    let omit = with_accounts(ServiceAccounts::Omit);
    let refused = Headers::new(&Rules::default(), &account(), omit).unwrap_err();
    let text = refused.on(&"m1".parse().unwrap()).to_string();
    for part in ["system:serviceaccount:ns:n", "MemberCluster m1", "spec.impersonation.serviceAccounts: Omit"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(sent(&identity("jane", &["dev"]), omit), ["user=jane", "group=dev"]);
}

/// Regardless of the flag, no identity of the host can take the name of another host's account.
#[test]
fn fault_84_prefix_of_accounts_is_refused_with_every_flag() {
    for allow_privileged_identity in [false, true] {
        let rules = Rules { allow_privileged_identity, ..Rules::default() };
        for accounts in [ServiceAccounts::Same, ServiceAccounts::Prefixed, ServiceAccounts::Omit] {
            for (user, groups) in [
                ("kubectl-mc:host:serviceaccount:ns:n", &[][..]),
                ("jane", &["kubectl-mc:host:serviceaccounts:ns"]),
            ] {
                let forged = identity(user, groups);
                assert!(Headers::new(&rules, &forged, with_accounts(accounts)).is_err(), "{user} {groups:?}");
            }
        }
    }
}

#[test]
fn fault_17_admin_groups_are_never_sent() {
    for group in ["system:masters", "kubeadm:cluster-admins", "system:cluster-admins"] {
        let lines = sent(&identity("root", &["a", group, "b"]), Forwarded::default());
        assert_eq!(lines, ["user=root", "group=a", "group=b", "group=kubectl-mc:host-admins"]);
    }
    let account = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:masters"];
    let lines = sent(&identity("system:serviceaccount:ns:n", &account), Forwarded::default());
    assert!(lines.contains(&"group=kubectl-mc:host-admins".to_owned()) && lines.len() == 4, "{lines:?}");
}

#[test]
fn fault_17_control_plane_identities_are_refused() {
    for (user, groups) in [
        ("system:node:n1", &[][..]),
        ("jane", &["system:nodes"]),
        ("system:kube-scheduler", &[]),
        ("system:serviceaccount:kube-system:x", &[]),
        ("jane", &["system:serviceaccounts:kube-system"]),
        ("system:serviceaccount:kubectl-mc-system:kubectl-mc-manager", &[]),
        ("jane", &["system:serviceaccounts:kubectl-mc-system"]),
        ("kubectl-mc:host-admins", &[]),
        ("jane", &["kubectl-mc:host-admins"]),
        ("system:bootstrap:abcdef", &["system:bootstrappers", "system:bootstrappers:worker"]),
        ("system:bootstrap:abcdef", &[]),
        ("jane", &["system:bootstrappers"]),
        ("jane", &["dev", "system:bootstrappers:kubeadm:default-node-token"]),
        ("system:aggregator", &[]),
        ("eks:node-manager", &["dev"]),
        ("kubelet", &["dev"]),
    ] {
        let refusal = refusal(&identity(user, groups));
        assert!(matches!(refusal, Error::Privileged(_)), "{user} {groups:?}");
        assert!(refusal.to_string().contains("--allow-privileged-identity"));
    }
    let rules = Rules { allow_privileged_identity: true, ..Rules::default() };
    assert!(Headers::new(&rules, &identity("system:node:n1", &[]), Forwarded::default()).is_ok());
}

/// The ordinary groups of OpenShift and Rancher, and the administrator of k3s.
#[test]
fn ordinary_system_identities_are_sent() {
    let groups = ["system:authenticated:oauth", "system:cattle:authenticated", "system:monitoring"];
    let lines = sent(&identity("jane", &groups), Forwarded::default());
    assert_eq!(lines[1..], groups.map(|group| format!("group={group}")));
    let lines = sent(&identity("system:admin", &["system:masters"]), Forwarded::default());
    assert_eq!(lines, ["user=system:admin", "group=kubectl-mc:host-admins"]);
}

#[test]
fn configured_admin_groups_are_never_sent() {
    let rules = Rules {
        admin_groups: kubectl_mc_api::access::sent::admin_groups(["platform".to_owned()]),
        ..Rules::default()
    };
    for group in ["platform", "system:masters"] {
        let headers = Headers::new(&rules, &identity("root", &[group]), Forwarded::default()).unwrap();
        let groups: Vec<_> = headers.0.iter().filter(|(name, _)| name == GROUP).map(|(_, v)| v).collect();
        assert_eq!(groups, ["kubectl-mc:host-admins"], "{group}");
    }
}

#[test]
fn identity_that_headers_would_change_is_refused() {
    for user in ["", " jane", "jane ", "jane\t", "ja\nne", "ja\0ne", "\u{7f}"] {
        assert!(matches!(refusal(&identity(user, &[])), Error::NotCarried(..)), "{user:?}");
    }
    assert!(matches!(refusal(&identity("jane", &[" system:masters"])), Error::NotCarried(..)));
    assert!(matches!(refusal(&identity("jane", &[""])), Error::NotCarried(..)));
    let mut jane = identity("jane", &[]);
    jane.extra.insert(String::new(), vec!["x".to_owned()]);
    assert!(matches!(refusal(&jane), Error::NotCarried(..)));
}

#[test]
fn extra_about_host_pods_and_nodes_is_not_sent() {
    let mut jane = identity("jane", &[]);
    for key in [
        "authentication.kubernetes.io/pod-name",
        "authentication.kubernetes.io/node-uid",
        "x.io/user-assertion.y",
        "authentication.kubernetes.io/credential-id",
    ] {
        jane.extra.insert(key.to_owned(), vec!["v".to_owned()]);
    }
    assert_eq!(
        sent(&jane, Forwarded::default()),
        ["user=jane", "extra-authentication.kubernetes.io%2fcredential-id=v"]
    );
}

#[test]
fn existing_impersonation_header_is_an_error() {
    for name in ["impersonate-user", "impersonate-extra-x", "impersonate_user"] {
        let mut headers =
            HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static("eve"))]);
        let ours = Headers::new(&Rules::default(), &identity("jane", &[]), Forwarded::default()).unwrap();
        assert!(matches!(ours.apply(&mut headers), Err(Error::Present)), "{name}");
    }
}

#[test]
fn fault_08_five_hundred_groups_are_sent() {
    let groups: Vec<_> = (0..500).map(|n| format!("g{n}")).collect();
    let groups: Vec<_> = groups.iter().map(String::as_str).collect();
    assert_eq!(sent(&identity("jane", &groups), Forwarded::default()).len(), 501);
}

#[test]
fn each_part_of_an_identity_needs_its_own_right() {
    let identity = Identity {
        user: "jane".to_owned(),
        uid: Some("7".to_owned()),
        groups: vec!["dev".to_owned(), "ops".to_owned(), "system:authenticated".to_owned()],
        extra: [("a/b".to_owned(), vec!["1".to_owned(), "2".to_owned()])].into(),
    };
    let headers = Headers::new(&Rules::default(), &identity, Forwarded::default()).unwrap();
    let authentication = "authentication.k8s.io";
    let mut rights = headers.rights();
    rights.sort_by_key(|right| format!("{right:?}"));
    let mut expected = vec![
        Attributes::impersonate("", "users", "", "", "jane"),
        Attributes::impersonate("", "groups", "", "", "dev"),
        Attributes::impersonate("", "groups", "", "", "ops"),
        Attributes::impersonate(authentication, "uids", "", "", "7"),
        Attributes::impersonate(authentication, "userextras", "a/b", "", "1"),
        Attributes::impersonate(authentication, "userextras", "a/b", "", "2"),
    ];
    expected.sort_by_key(|right| format!("{right:?}"));
    assert_eq!(rights, expected);
}

#[test]
fn extra_that_matches_a_pattern_is_omitted() {
    for (pattern, omitted) in [
        ("a.io/b", &["a.io/b"][..]),
        ("a.io/*", &["a.io/b", "a.io/bc"]),
        ("*/b", &["a.io/b", "c.io/b"]),
        ("*.io/b*", &["a.io/b", "a.io/bc", "c.io/b"]),
        ("b", &[]),
    ] {
        let rules = Rules { omitted_extra: vec![pattern.to_owned()], ..Rules::default() };
        let keys = ["a.io/b", "a.io/bc", "c.io/b"];
        let found: Vec<_> = keys.into_iter().filter(|key| rules.omits(key)).collect();
        assert_eq!(found, omitted, "{pattern}");
    }
}
