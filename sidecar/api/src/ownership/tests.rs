//! Tests the decision with a golden matrix, with the numbered bugs of earlier designs, and with an oracle.

use std::fmt::Write;
use std::time::Instant;

use proptest::prelude::*;
use proptest::sample::select;

use super::matrix::{SUBRESOURCES, Target, VERBS, cells};
use super::oracle::{line, rights};
use super::*;

const GROUPS: [&str; 2] = [subject::GROUP, "system:authenticated"];

fn of(user: &str, request: Resource<'_>) -> Decision {
    decide(&Layout::default(), user, &GROUPS, &Attributes::Resource(request))
}

/// The decision about a request of the agent of cluster `a`.
fn asks(request: Resource<'_>) -> Decision {
    of("system:karmada:agent:a", request)
}

fn clusters(verb: &'static str, name: &'static str) -> Resource<'static> {
    Resource { verb, group: "cluster.karmada.io", resource: "clusters", name, ..Resource::default() }
}

fn secrets(verb: &'static str, name: &'static str) -> Resource<'static> {
    Resource { verb, resource: "secrets", namespace: "karmada-cluster", name, ..Resource::default() }
}

/// A line for each object, subresource and target: the letters of the verbs that are not denied to the agents
/// of `a` and `b`.
fn golden() -> String {
    let mut text = String::new();
    let matrices = [("a", "b"), ("b", "a")].map(|(own, other)| {
        let decided = |cell: matrix::Cell| (cell.decide(&Layout::default(), own), cell);
        cells(&Layout::default(), own, other, SUBRESOURCES).into_iter().map(decided).collect::<Vec<_>>()
    });
    for (of_a, of_b) in matrices[0].chunks(VERBS.len()).zip(matrices[1].chunks(VERBS.len())) {
        let letters = |cells: &[(Decision, matrix::Cell)]| -> String {
            let letter = |(decision, at): (Decision, usize)| match decision {
                Decision::NoOpinion => LETTERS.as_bytes()[at] as char,
                Decision::Deny(_) => '-',
            };
            cells.iter().enumerate().map(|(at, (decision, _))| letter((*decision, at))).collect()
        };
        let cell = &of_a[0].1;
        let (kind, label, target) = (cell.kind(), cell.object, cell.target.word());
        writeln!(text, "{kind:<72} {label:<12} {target:<8} {} {}", letters(of_a), letters(of_b)).unwrap();
    }
    text
}

/// One letter for each of [`VERBS`], in the same order.
const LETTERS: &str = "glwcupdDieba";

#[test]
fn matrix_matches_the_golden_file() {
    let golden_text = golden();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/ownership.txt");
    let head = std::fs::read_to_string(file).unwrap_or_default();
    let rows: String = head.lines().filter(|line| !line.starts_with('#')).map(|l| format!("{l}\n")).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() && rows != golden_text {
        let comments: String =
            head.lines().filter(|line| line.starts_with('#')).map(|l| format!("{l}\n")).collect();
        std::fs::write(file, comments + &golden_text).unwrap();
        return;
    }
    assert!(rows == golden_text, "the decision differs from {file}:\n{golden_text}");
}

#[test]
fn objects_of_another_cluster_are_denied_for_every_verb() {
    let shared = ["resourceinterpreter", "services", "events"];
    for (own, other) in
        [("a", "b"), ("a", "a-b"), ("a-b", "a"), ("a", "aa"), ("karmada", "karmada-es-karmada")]
    {
        for cell in cells(&Layout::default(), own, other, SUBRESOURCES) {
            let is_shared = shared.iter().any(|kind| cell.resource.starts_with(kind))
                && (cell.namespace.is_empty() || cell.namespace == "default");
            if cell.target == Target::Other && !is_shared {
                let decision = cell.decide(&Layout::default(), own);
                assert_ne!(decision, Decision::NoOpinion, "{own} on {other}: {cell:?}");
            }
        }
    }
}

#[test]
fn bug_3_connect_and_unknown_subresources_are_denied() {
    for subresource in ["proxy", "token", "exec", "finalizers", "scale", "STATUS"] {
        for verb in VERBS {
            let request = Resource { subresource, ..clusters(verb, "a") };
            assert_eq!(asks(request), Decision::Deny(Reason::NotNeeded), "{verb} {subresource}");
        }
    }
}

#[test]
fn bug_4_kinds_are_matched_with_their_group() {
    let lease = Resource {
        verb: "update",
        group: "coordination.k8s.io",
        resource: "leases",
        namespace: "karmada-cluster",
        name: "a",
        ..Resource::default()
    };
    assert_eq!(asks(lease), Decision::NoOpinion);
    for (group, resource) in [("", "leases"), ("coordination.k8s.io", "lease"), ("", "lease"), ("*", "*")] {
        let request = Resource { group, resource, ..lease };
        assert_eq!(asks(request), Decision::Deny(Reason::NotNeeded), "{group}/{resource}");
    }
}

#[test]
fn bug_5_lists_and_collections_are_denied_by_default() {
    assert_eq!(asks(clusters("list", "")), Decision::Deny(Reason::WithoutSelector));
    assert_eq!(asks(clusters("watch", "")), Decision::Deny(Reason::WithoutSelector));
    assert_eq!(asks(clusters("deletecollection", "")), Decision::Deny(Reason::NotNeeded));
    assert_eq!(asks(secrets("list", "")), Decision::Deny(Reason::NotNeeded));
    let own = Resource { selection: Selection::Name("a"), ..clusters("list", "a") };
    assert_eq!(asks(own), Decision::NoOpinion);
    for selection in [Selection::Name("b"), Selection::Other] {
        let request = Resource { selection, ..clusters("list", "a") };
        assert_eq!(asks(request), Decision::Deny(Reason::WithoutSelector), "{selection:?}");
    }
    let works = Resource { verb: "list", group: "work.karmada.io", resource: "works", ..Resource::default() };
    assert_eq!(asks(works), Decision::Deny(Reason::OtherNamespace), "over all namespaces");
}

#[test]
fn bug_6_named_create_needs_the_own_name() {
    assert_eq!(asks(secrets("create", "b")), Decision::Deny(Reason::OtherObject));
    assert_eq!(asks(secrets("create", "a-impersonator")), Decision::NoOpinion);
    // The name of a POST is only in the object. The host's admission refuses a wrong one.
    assert_eq!(asks(secrets("create", "")), Decision::NoOpinion);
}

#[test]
fn bug_7_right_on_status_grants_no_right_on_the_object() {
    let status = Resource { subresource: "status", ..clusters("update", "a") };
    assert_eq!(asks(status), Decision::NoOpinion);
    assert_eq!(asks(clusters("update", "a")), Decision::Deny(Reason::NotNeeded));
    assert_eq!(asks(Resource { verb: "get", ..status }), Decision::Deny(Reason::NotNeeded));
}

#[test]
fn agents_list_clusters_grants_only_list_and_watch() {
    let layout = Layout { agents_list_clusters: true, ..Layout::default() };
    let before = cells(&layout, "a", "b", SUBRESOURCES);
    let gained: Vec<_> = before
        .iter()
        .filter(|cell| {
            cell.decide(&layout, "a") == Decision::NoOpinion
                && cell.decide(&Layout::default(), "a") != Decision::NoOpinion
        })
        .map(|cell| format!("{} {} {}", cell.verb, cell.kind(), cell.target.word()))
        .collect();
    let expected: Vec<_> = ["other's", "absent", "none"]
        .iter()
        .flat_map(|target| {
            ["list", "watch"].map(|verb| format!("{verb} clusters.cluster.karmada.io {target}"))
        })
        .collect();
    assert_eq!(gained, expected);
}

#[test]
fn unknown_subjects_in_the_agents_group_are_denied() {
    for user in [
        "jane",
        "",
        "system:karmada:agent:",
        "system:karmada:agent:A",
        "system:karmada:agent:a:b",
        "system:karmada:agent:a.b",
        "system:karmada:agent:-a",
        "system:karmada:agent:a/../b",
        "system:karmada:agent:a-impersonator",
        "system:serviceaccount:karmada-system:agent",
        "system:node:a",
    ] {
        assert_eq!(of(user, clusters("get", "a")), Decision::Deny(Reason::UnknownSubject), "{user:?}");
    }
    let without: [&str; 1] = ["system:authenticated"];
    let get = Attributes::Resource(clusters("get", "a"));
    let decide = |user| decide(&Layout::default(), user, &without, &get);
    assert_eq!(decide("system:karmada:agent:a"), Decision::Deny(Reason::UnknownSubject));
    assert_eq!(decide("jane"), Decision::NoOpinion);
}

#[test]
fn csr_of_a_longer_cluster_name_is_denied() {
    let get = |name| Resource {
        verb: "get",
        group: "certificates.k8s.io",
        resource: "certificatesigningrequests",
        name,
        ..Resource::default()
    };
    assert_eq!(asks(get("a-x7k2p")), Decision::NoOpinion);
    for name in ["a-b-x7k2p", "b-x7k2p", "a-", "a", "ax7k2p", "a-x7k2pp"] {
        assert_eq!(asks(get(name)), Decision::Deny(Reason::OtherObject), "{name}");
    }
}

#[test]
fn agent_may_get_discovery_and_health_only() {
    let may = |verb, path| {
        let request = Attributes::NonResource { verb, path };
        decide(&Layout::default(), "system:karmada:agent:a", &GROUPS, &request) == Decision::NoOpinion
    };
    for path in ["/api", "/apis", "/apis/apps/v1", "/openapi/v3", "/version", "/healthz", "/readyz/ping"] {
        assert!(may("get", path), "{path}");
        assert!(!may("post", path), "{path}");
    }
    for path in ["/", "/metrics", "/logs/", "/debug/pprof/", "/apisx", "/api/../metrics", "*", "/api*", ""] {
        assert!(!may("get", path), "{path}");
    }
}

#[test]
fn generator_may_write_only_the_rbac_of_agents() {
    let asks = |request| of(subject::GENERATOR, request);
    let rbac = |verb, resource, namespace, name| Resource {
        verb,
        group: "rbac.authorization.k8s.io",
        resource,
        namespace,
        name,
        ..Resource::default()
    };
    let namespaces =
        |verb, name| Resource { verb, resource: "namespaces", name, namespace: name, ..Resource::default() };
    let csr = |verb, name| Resource {
        verb,
        group: "certificates.k8s.io",
        resource: "certificatesigningrequests",
        name,
        ..Resource::default()
    };
    for request in [
        clusters("get", "new"),
        namespaces("create", ""),
        namespaces("get", "karmada-es-new"),
        rbac("create", "clusterroles", "", ""),
        rbac("delete", "clusterrolebindings", "", "system:karmada:new:agent"),
        rbac("create", "roles", "karmada-cluster", ""),
        rbac("delete", "rolebindings", "karmada-es-new", "system:karmada:new:agent-work"),
        csr("delete", "agent-rbac-generator-newx7k2p"),
    ] {
        assert_eq!(asks(request), Decision::NoOpinion, "{request:?}");
    }
    for request in [
        clusters("list", ""),
        clusters("create", ""),
        clusters("delete", "a"),
        secrets("get", "a"),
        namespaces("delete", "karmada-es-new"),
        namespaces("get", "kube-system"),
        rbac("delete", "clusterroles", "", "cluster-admin"),
        rbac("delete", "clusterroles", "", "system:karmada:agent-rbac-generator"),
        rbac("escalate", "clusterroles", "", "system:karmada:new:agent"),
        rbac("bind", "clusterroles", "", "cluster-admin"),
        rbac("update", "clusterroles", "", "system:karmada:new:agent"),
        rbac("create", "roles", "kube-system", ""),
        rbac("delete", "roles", "karmada-es-new", "system:karmada:other:agent-work"),
        rbac("deletecollection", "roles", "karmada-cluster", ""),
        csr("get", "a-x7k2p"),
        csr("create", ""),
    ] {
        assert_ne!(asks(request), Decision::NoOpinion, "{request:?}");
    }
}

#[test]
fn layout_with_ambiguous_namespaces_is_refused() {
    let layout = |clusters: &str, agents: &str| Layout {
        cluster_namespace: clusters.to_owned(),
        agent_namespace: agents.to_owned(),
        ..Layout::default()
    };
    assert!(layout("kc", "ks").checked().is_ok());
    assert!(matches!(layout("same", "same").checked(), Err(InvalidLayout::Same(_))));
    assert!(matches!(layout("karmada-es-a", "x").checked(), Err(InvalidLayout::Execution(_))));
    assert!(matches!(layout("", "x").checked(), Err(InvalidLayout::NoNamespace(_))));
}

#[test]
fn decision_takes_microseconds() {
    let matrix = cells(&Layout::default(), "a", "b", SUBRESOURCES);
    let begun = Instant::now();
    for cell in &matrix {
        cell.decide(&Layout::default(), "a");
    }
    let each = begun.elapsed() / u32::try_from(matrix.len()).unwrap();
    // The goal is 20 µs. The limit is higher, for builds without optimization on a busy machine.
    assert!(each.as_micros() < 200, "{each:?}");
}

const NAMESPACES: &[&str] =
    &["karmada-cluster", "karmada-system", "karmada-es-a", "karmada-es-b", "default", "kube-system"];
const NAMES: &[&str] = &[
    "a",
    "b",
    "a-impersonator",
    "b-impersonator",
    "karmada-agent-a",
    "karmada-agent-b",
    "karmada-es-a",
    "karmada-es-b",
    "a-bcdfg",
    "b-bcdfg",
    "x",
];
const KINDS: &[(&str, &str)] = &[
    ("cluster.karmada.io", "clusters"),
    ("", "secrets"),
    ("coordination.k8s.io", "leases"),
    ("", "leases"),
    ("work.karmada.io", "works"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("config.karmada.io", "resourceinterpreterwebhookconfigurations"),
    ("config.karmada.io", "resourceinterpretercustomizations"),
    ("", "namespaces"),
    ("", "services"),
    ("", "events"),
    ("", "pods"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
];
const PARTS: &[&str] = &["", "", "", "status", "finalizers", "selfclusteragent", "clusteragent", "proxy"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decision_agrees_with_the_oracle(
        verb in select(VERBS), (group, resource) in select(KINDS), part in select(PARTS),
        namespace in select([NAMESPACES, &[""]].concat()), name in select([NAMES, &["", ""]].concat()),
        selector in select([NAMES, &["", "*"]].concat()), lists_all in any::<bool>(),
    ) {
        let layout = Layout { agents_list_clusters: lists_all, ..Layout::default() };
        let (selection, selector) = match selector {
            "" => (Selection::Everything, None),
            "*" => (Selection::Other, Some("*")),
            name => (Selection::Name(name), Some(name)),
        };
        let request = Resource { verb, group, resource, subresource: part, namespace, name, selection };
        let decision = decide(&layout, "system:karmada:agent:a", &GROUPS, &Attributes::Resource(request));
        let kind = if part.is_empty() { resource.to_owned() } else { format!("{resource}/{part}") };
        thread_local!(static RIGHTS: [std::collections::BTreeSet<String>; 2] =
            [false, true].map(|lists_all| rights("a", lists_all, NAMESPACES, NAMES)));
        let expected = RIGHTS.with(|all| {
            all[usize::from(lists_all)].contains(&line(verb, group, &kind, namespace, name, selector))
        });
        prop_assert_eq!(decision == Decision::NoOpinion, expected, "{:?}", request);
    }

    #[test]
    fn other_user_names_get_no_rights_of_cluster_a(user in "(system:karmada:agent:)?[a-z0-9:./-]{0,12}") {
        let decision = decide(&Layout::default(), &user, &GROUPS, &Attributes::Resource(clusters("get", "a")));
        let is_a = user == "system:karmada:agent:a" || user == subject::GENERATOR;
        prop_assert_eq!(decision == Decision::NoOpinion, is_a);
    }
}
