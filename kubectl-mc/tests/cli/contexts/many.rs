//! Tests one command with two hundred contexts, each with its own server path and user. Missing
//! ones are reported.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;

use super::answer;
use crate::bed::Bed;

#[test]
fn two_hundred_contexts_are_one_table_and_one_failure_is_named() {
    let bed = Bed::serving(answer);
    bed.secure();
    let names: Vec<_> = (0..199).map(|at| format!("shop-{at:03}")).chain(["closed".to_owned()]).collect();
    let each =
        |entry: &dyn Fn(&str) -> serde_json::Value| names.iter().map(|name| entry(name)).collect::<Vec<_>>();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": each(&|name| json!({"name": name, "cluster": bed.cluster_below(name)})),
        "users": each(&|name| json!({"name": name, "user": {"token": format!("token-of-{name}")}})),
        "contexts": each(&|name| json!({"name": name, "context": {"cluster": name, "user": name}})),
    });
    fs::write(bed.path("kubeconfig"), kubeconfig.to_string()).unwrap();

    let ran = bed.run(&["--contexts", "--all-clusters", "get", "pods"]);
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    let rows: Vec<_> =
        ran.out.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    let expected: Vec<_> =
        (0..199).map(|at| (format!("shop-{at:03}"), format!("web-of-shop-{at:03}"))).collect();
    assert_eq!(rows, expected.iter().map(|(name, pod)| vec![&**name, pod]).collect::<Vec<_>>());
    assert!(ran.err.contains("1 of 200 clusters failed: 1 Unauthorized (closed)"), "{}", ran.err);

    // Each server gets only the token of its own context.
    let sent = |head: &String| {
        let path = head.split(' ').nth(1)?.split('/').nth(2)?;
        let token = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer token-of-"))?;
        Some((path.to_owned(), token.to_owned()))
    };
    let sent: BTreeSet<_> = bed.requests().iter().map(|head| sent(head).unwrap()).collect();
    assert_eq!(sent, names.iter().map(|name| (name.clone(), name.clone())).collect());
}

#[test]
fn context_that_is_left_out_is_named() {
    let bed = super::bed();
    super::kubeconfig(&bed, &[("lost", "gone", json!({"token": "x"}))]);
    for words in [&["get", "pods"][..], &["clusters"]] {
        let ran = bed.run(&[words, &["--contexts", "--all-clusters", "--exclude=closed"]].concat());
        let note = "note: left out: no cluster: context \"lost\" has no server: cluster \"gone\" has none\n";
        assert!(ran.code == Some(0) && ran.err == note, "{words:?} {ran:?}");
        assert!(ran.out.contains("kind-a"), "{words:?} {ran:?}");
    }
}
