//! Tests `--contexts`, with which the contexts of a kubeconfig are the clusters, without a host.

mod credential_plugins;
mod islands;
mod many;
mod tools;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::snapshot::render;
use insta::assert_snapshot;
use serde_json::json;

use crate::bed::{Answer, Bed, Ran};

fn rendered(ran: &Ran) -> String {
    render(ran.code.unwrap_or(-1), &ran.out, &ran.err)
}

/// A server with a cluster below each path, and a kubeconfig without a current context.
fn bed() -> Bed {
    of(Bed::serving(answer))
}

/// The same with TLS, so that credentials are sent.
fn secure_bed() -> Bed {
    let bed = Bed::serving(answer);
    bed.secure();
    of(bed)
}

fn of(bed: Bed) -> Bed {
    kubeconfig(&bed, &[]);
    // Prints its arguments and the current context of its kubeconfig.
    let script = "cat \"${KUBECONFIG%%:*}\" >overlay-of-kubectl; echo \"[$*]\" | tr -d '\\n'; \
                  sed 's/.*\"current-context\":\"\\([^\"]*\\)\".*/ on \\1/' \"${KUBECONFIG%%:*}\"";
    bed.script("bin/kubectl", &format!("#!/bin/sh\n{script}\necho\n"));
    bed
}

fn kubeconfig(bed: &Bed, more: &[(&str, &str, serde_json::Value)]) {
    let cluster = |name: &str| json!({"name": name, "cluster": bed.cluster_below(name)});
    let mut contexts = vec![
        json!({"name": "kind-a", "context": {"cluster": "a", "user": "ann", "namespace": "web"}}),
        json!({"name": "arn:aws:eks:eu-1:1:cluster/B", "context": {"cluster": "b", "user": "ben"}}),
        json!({"name": "closed", "context": {"cluster": "closed", "user": "ben"}}),
    ];
    let mut users = vec![
        json!({"name": "ann", "user": {"token": "token-of-ann"}}),
        json!({"name": "ben", "user": {"token": "token-of-ben"}}),
    ];
    for (context, cluster, user) in more {
        contexts.push(json!({"name": context, "context": {"cluster": cluster, "user": context}}));
        users.push(json!({"name": context, "user": user}));
    }
    let clusters = ["a", "b", "closed"].map(cluster);
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "contexts": contexts, "users": users,
        "clusters": clusters,
    });
    fs::write(bed.path("kubeconfig"), kubeconfig.to_string()).unwrap();
}

fn answer(path: &str) -> Answer {
    let cluster = path.split('/').nth(2).unwrap_or_default();
    if cluster == "closed" {
        return (
            401,
            "application/json",
            r#"{"kind":"Status","message":"Unauthorized","reason":"Unauthorized"}"#.to_owned(),
        )
            .into();
    }
    if path.ends_with("/clusters") {
        let list = r#"{"items": [{"metadata": {"name": "m1"}}, {"metadata": {"name": "kind-a"}}]}"#;
        return (200, "application/json", list.to_owned()).into();
    }
    let table = json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [{"name": "Name", "type": "string"}],
        "rows": [{"cells": [format!("web-of-{cluster}")], "object": {"metadata": {"name": "x"}}}],
    });
    (200, "application/json", table.to_string()).into()
}

#[test]
fn requests_use_credential_and_namespace_of_each_context() {
    let bed = secure_bed();
    let ran = bed.run(&["--contexts", "-C", "*,!closed", "get", "pods"]);
    assert_snapshot!(rendered(&ran), @r"
    exit code: 0
    ----- stdout -----
    CLUSTER                        NAME
    arn:aws:eks:eu-1:1:cluster/B   web-of-b
    kind-a                         web-of-a
    ----- stderr -----
    ");
    let mut requests = bed.requests();
    requests.sort();
    let requests: Vec<_> = requests
        .iter()
        .map(|head| {
            let token = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap();
            (head.split(' ').nth(1).unwrap().split('?').next().unwrap(), token)
        })
        .collect();
    let expected = [
        ("/pre/a/api/v1/namespaces/web/pods", "token-of-ann"),
        ("/pre/b/api/v1/namespaces/default/pods", "token-of-ben"),
    ];
    assert_eq!(requests, expected);
}

#[test]
fn contexts_are_chosen_by_every_kind_of_term() {
    let bed = bed();
    fs::create_dir_all(bed.path("home/.config/kubectl-mc")).unwrap();
    let sets = "sets: {mine: {clusters: ['context:kind-*', 'context:closed']}}";
    fs::write(bed.path("home/.config/kubectl-mc/config.yaml"), sets).unwrap();
    let chosen = |words: &[&str]| {
        let ran = bed.run(&[words, &["--dry-run=clusters", "get", "pods"]].concat());
        assert_eq!(ran.code, Some(0), "{words:?} {ran:?}");
        ran.out.lines().skip(1).map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let arn = "arn:aws:eks:eu-1:1:cluster/B";
    for (words, expected) in [
        (&["--contexts", "-C", arn][..], &[arn][..]),
        (&["--contexts", "-C", "arn:*/?,kind-a"], &[arn, "kind-a"]),
        (&["--contexts", "-C", "/^(kind|closed)/"], &["closed", "kind-a"]),
        (&["--contexts", "--all-clusters", "--exclude=arn:*"], &["closed", "kind-a"]),
        (&["--contexts", "-C", "@mine"], &["kind-a", "closed"]),
        (&["-C", "@mine,!context:closed"], &["kind-a"]),
        (&["-C", "context:/B$/"], &[arn]),
        (&["--context-selector=user=ben"], &[arn, "closed"]),
        (&["--context-selector=user=ben,server!=*/closed"], &[arn]),
        (&["--context-selector=namespace=default", "-C", "c*"], &["closed"]),
    ] {
        assert_eq!(chosen(words), expected, "{words:?}");
    }
    assert!(bed.requests().is_empty());
}

#[test]
fn wrong_choice_names_the_contexts() {
    let bed = bed();
    assert_snapshot!(rendered(&bed.run(&["--contexts", "get", "pods"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no context chosen
    hint: choose by -C NAME, -C 'PATTERN-*', --context-selector or --all-clusters; there are arn:aws:eks:eu-1:1:cluster/B, closed, kind-a
    ");
    assert_snapshot!(rendered(&bed.run(&["--contexts", "-C", "kind-b", "get", "pods"])), @r"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: context unknown: kind-b
    hint: did you mean kind-a?
    ");
    assert_snapshot!(rendered(&bed.run(&["--context-selector=user=none", "get", "pods"])), @r"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: no context matches
    hint: there are arn:aws:eks:eu-1:1:cluster/B, closed, kind-a
    ");
    assert_snapshot!(rendered(&bed.run(&["--contexts", "--where=ready=True", "get", "pods"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: --contexts and --where contradict each other
    hint: --context-selector chooses contexts by server, user and namespace
    ");
    assert_snapshot!(rendered(&bed.run(&["-C", "context:kind-a", "--cluster-selector=a=b", "get", "pods"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: contexts have neither labels nor conditions to choose by
    hint: --context-selector chooses by server, user and namespace
    ");
    assert_snapshot!(rendered(&bed.run(&["--contexts", "access", "list"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `kubectl mc access` works on clusters behind a host, and not on contexts
    hint: leave out --contexts and --context-selector
    ");
    assert_snapshot!(rendered(&bed.run(&["kubeconfig", "context:kind-a", "--kubeconfig=kubeconfig", "--context=kind-a"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: the command works on members of the host, and contexts are chosen
    hint: leave out --contexts, --context-selector and context:NAME
    ");
    assert_snapshot!(rendered(&bed.run(&["--contexts", "kubeconfig", "kind-a"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `kubectl mc kubeconfig` works on clusters behind a host, and not on contexts
    hint: your kubeconfig has these contexts; one of them alone in a file: kubectl config view --minify --raw --flatten --context=NAME
    ");
    assert_snapshot!(rendered(&bed.run(&["use", "--contexts", "kind-a"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `kubectl mc use` works on clusters behind a host, and not on contexts
    hint: kubectl's own: kubectl config use-context NAME
    ");
}

#[test]
fn single_context_is_left_to_kubectl() {
    let bed = bed();
    for words in [&["--contexts", "-C", "kind-a"][..], &["-C", "context:kind-a"]] {
        let ran = bed.run(&[words, &["describe", "pod", "web", "-v=0"]].concat());
        assert_eq!(ran, Ran::new(0, "[describe --context=mc/kind-a pod web -v=0] on mc/kind-a\n", ""));
    }
    let overlay = bed.read("overlay-of-kubectl");
    assert!(overlay.contains(&format!("{}/a", bed.server())) && !overlay.contains("token"), "{overlay}");
    assert!(bed.requests().is_empty(), "kubectl asks, not the plugin");
}

#[test]
fn tail_of_one_context_runs_in_the_plugin() {
    let bed = bed();
    let ran = bed.run(&["--contexts", "-C", "kind-a", "tail", "^web"]);
    assert!(!ran.out.contains("[tail"), "{ran:?}");
    let requests = bed.requests();
    assert!(
        requests.iter().any(|head| head.starts_with("GET /pre/a/api/v1/namespaces/web/pods")),
        "{requests:?}"
    );
}

#[test]
fn kubectl_runs_on_each_context() {
    let bed = bed();
    let ran = bed.run(&["--contexts", "-C", "kind-a,arn:*", "describe", "pod"]);
    assert_snapshot!(rendered(&ran), @r"
    exit code: 0
    ----- stdout -----
    kind-a                       | [describe --context=mc/kind-a pod] on mc/kind-a
    arn:aws:eks:eu-1:1:cluster/B | [describe --context=mc/arn:aws:eks:eu-1:1:cluster/B pod] on mc/arn:aws:eks:eu-1:1:cluster/B
    ----- stderr -----
    ");
    let ran = bed.run(&["--contexts", "-C", "kind-a,arn:*", "delete", "pod", "web"]);
    assert_snapshot!(rendered(&ran), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: refusing to change 2 clusters without confirmation: there is no terminal to ask at
    hint: --yes changes them; --dry-run=clusters shows what would be done
    ");
}

#[test]
fn failures_of_contexts_name_no_hop_and_can_be_retried() {
    let bed = bed();
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = bed
        .read("kubeconfig")
        .replace(&format!("{}/b", bed.server()), &format!("http://127.0.0.1:{nowhere}"));
    fs::write(bed.path("kubeconfig"), text).unwrap();
    let ran = bed.run(&["--contexts", "--all-clusters", "get", "pods"]);
    assert_snapshot!(rendered(&ran).replace(&nowhere.to_string(), "PORT"), @r"
    exit code: 4
    ----- stdout -----
    CLUSTER   NAME
    kind-a    web-of-a
    ----- stderr -----
    arn:aws:eks:eu-1:1:cluster/B | error: unreachable: tcp connect error: Connection refused (os error 111)
    closed                       | error: You must be logged in to the server (Unauthorized)
    2 of 3 clusters failed: 1 Unauthorized (closed), 1 unreachable (arn:aws:eks:eu-1:1:cluster/B)
    ");
    let again = bed.run(&["--retry-failed", "--dry-run=clusters", "get", "pods"]);
    assert_snapshot!(rendered(&again), @r"
    exit code: 0
    ----- stdout -----
    CLUSTER                        READY     COMMAND
    arn:aws:eks:eu-1:1:cluster/B   Unknown   kubectl mc --cluster=context:arn:aws:eks:eu-1:1:cluster/B get pods
    closed                         Unknown   kubectl mc --cluster=context:closed get pods
    ----- stderr -----
    ");
}

#[test]
fn members_and_contexts_mix_in_one_command() {
    let bed = bed();
    let host = bed.read("kubeconfig").replacen('{', r#"{"current-context": "kind-a", "#, 1);
    fs::write(bed.path("kubeconfig"), host).unwrap();
    let ran = bed.run(&["-C", "m1,context:arn:*", "get", "pods"]);
    assert_snapshot!(rendered(&ran), @r"
    exit code: 0
    ----- stdout -----
    CLUSTER                        NAME
    m1                             web-of-a
    arn:aws:eks:eu-1:1:cluster/B   web-of-b
    ----- stderr -----
    ");
    // A set can also mix them.
    fs::create_dir_all(bed.path("home/.config/kubectl-mc")).unwrap();
    fs::write(bed.path("home/.config/kubectl-mc/config.yaml"), "sets: {all: [m1, 'context:arn:*']}").unwrap();
    assert_eq!(bed.run(&["-C", "@all", "get", "pods"]).out, ran.out);
    let ran = bed.run(&["-C", "kind-a,context:kind-a", "get", "pods"]);
    assert_snapshot!(rendered(&ran), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: a member and a context are both named kind-a
    hint: choose one of them, or rename the context
    ");
}

#[test]
fn contexts_are_listed() {
    let bed = bed();
    let list = |words: &[&str]| {
        rendered(&bed.run(&[&["clusters", "--contexts"], words].concat())).replace(bed.server(), "SERVER")
    };
    assert_snapshot!(list(&[]), @r"
    exit code: 0
    ----- stdout -----
    NAME                           SERVER                              USER   NAMESPACE
    arn:aws:eks:eu-1:1:cluster/B   SERVER/pre/b        ben    default
    closed                         SERVER/pre/closed   ben    default
    kind-a                         SERVER/pre/a        ann    web
    ----- stderr -----
    ");
    assert_snapshot!(list(&["-o", "name", "--context-selector=user=ann"]), @r"
    exit code: 0
    ----- stdout -----
    kind-a
    ----- stderr -----
    ");
    assert_snapshot!(list(&["--where=ready=True"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: --contexts cannot be combined with --where
    hint: -C NAMES chooses contexts by name, and --context-selector narrows the contexts by server, user and namespace
    ");
}

#[test]
fn hostile_context_name_is_escaped_in_output_and_paths() {
    let bed = bed();
    let text = bed.read("kubeconfig").replace("kind-a", "../../x\\u001b[2J");
    fs::write(bed.path("kubeconfig"), text).unwrap();
    let ran = bed.run(&["--contexts", "-C", "*x*,arn:*", "get", "pods"]);
    assert_snapshot!(rendered(&ran), @r"
    exit code: 0
    ----- stdout -----
    CLUSTER                        NAME
    ../../x^[[2J                   web-of-a
    arn:aws:eks:eu-1:1:cluster/B   web-of-b
    ----- stderr -----
    ");
    let ran = bed.run(&["--contexts", "-C", "*x*,arn:*", "cp", "web:/f", "{cluster}"]);
    assert_snapshot!(rendered(&ran), @r"
    exit code: 0
    ----- stdout -----
    ../../x^[[2J                 | [cp --context=mc/../../x^[[2J web:/f .._.._x___2J] on mc/../../x^[[2J
    arn:aws:eks:eu-1:1:cluster/B | [cp --context=mc/arn:aws:eks:eu-1:1:cluster/B web:/f arn_aws_eks_eu-1_1_cluster_B] on mc/arn:aws:eks:eu-1:1:cluster/B
    ----- stderr -----
    ");
    let mode = bed.path("home/.cache/kubectl-mc").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn exact_name_of_a_context_precedes_a_glob() {
    let bed = bed();
    let names = ["br[a]cket", "bracket", "default/[fd00::1]:6443/kube:admin", "open["];
    let contexts = names.map(|name| json!({"name": name, "context": {"cluster": "a", "user": "ann"}}));
    let text = bed.read("kubeconfig");
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["contexts"] = contexts.to_vec().into();
    fs::write(bed.path("kubeconfig"), config.to_string()).unwrap();
    let chosen = |term: &str| bed.run(&["--contexts", "-C", term, "--dry-run=clusters", "get", "pods"]);
    for name in names {
        let ran = chosen(name);
        assert!(ran.code == Some(0) && ran.out.contains(name), "{ran:?}");
        assert_eq!(ran.out.contains("bracket"), name == "bracket", "{ran:?}");
    }
    // Without such a context it is a glob.
    let ran = chosen("brac[k]et");
    assert!(ran.out.contains("bracket"), "{ran:?}");
    assert_eq!(chosen("br[").code, Some(2));
    let ran = bed.run(&["--contexts", "-C", "*,!br[a]cket", "--dry-run=clusters", "get", "pods"]);
    assert!(ran.out.contains("bracket") && !ran.out.contains("br[a]cket"), "{ran:?}");
}
