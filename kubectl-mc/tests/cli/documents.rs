//! Tests `-o json` and `-o yaml` on several clusters: one list, which names the clusters that are missing in
//! it.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran, status};

const LIST: &str = r#"{"kind": "ClusterList", "apiVersion": "proxy.kubectl-mc.dev/v1alpha1", "items": [
  {"metadata": {"name": "m1"}},
  {"metadata": {"name": "m2"}, "status": {"conditions": [
    {"type": "Ready", "status": "False", "reason": "Unreachable", "message": "no route to host"}]}},
  {"metadata": {"name": "m3"}}]}"#;

const PODS: &str =
    r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "web"}}]}"#;

/// A host with three members: m1 has a pod, m2 is not Ready, and the closure answers for m3.
fn fleet(m3: impl Fn() -> Answer + Send + 'static) -> Bed {
    let bed = Bed::serving(move |path| {
        let body = match path {
            path if path.contains("/clusters/m3/") => return m3(),
            path if path.ends_with("/version") => "{}",
            path if path.contains("/clusters/m1/") => PODS,
            _ => LIST,
        };
        Answer::from((200, "application/json", body.to_owned()))
    });
    bed.kubectl(&format!("echo '{PODS}'"));
    bed
}

/// The same command with direct requests, and with a kubectl for each cluster.
fn both_ways(bed: &Bed, words: &[&str]) -> [Ran; 2] {
    ["", "0"].map(|native| bed.run_with("KUBECTL_MC_DIRECT", native, words))
}

fn errors(list: &Value) -> &Value {
    &list["metadata"]["clusterErrors"]
}

#[test]
fn cluster_that_is_not_ready_is_in_cluster_errors() {
    let bed = fleet(|| status(502, "member unreachable", "connection refused"));
    let expected = json!([
        {"cluster": "m2", "cause": "not ready", "message": "not ready: no route to host"},
        {"cluster": "m3", "cause": "unreachable", "message": "member unreachable: connection refused"},
    ]);
    for ran in both_ways(&bed, &["--all-clusters", "get", "pods", "-o", "json"]) {
        let list: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, errors(&list)), (Some(4), &expected), "{ran:?}");
        assert_eq!(list["items"].as_array().unwrap().len(), 1, "{ran:?}");
    }
    for ran in both_ways(&bed, &["--all-clusters", "get", "pods", "-o", "yaml"]) {
        assert!(ran.out.contains("  clusterErrors:\n  - cause: not ready\n    cluster: m2\n"), "{ran:?}");
    }
}

#[test]
fn merged_list_is_applied_without_its_marks() {
    let bed = fleet(|| status(502, "member unreachable", "connection refused"));
    let merged = bed.run(&["--all-clusters", "get", "pods", "-o", "yaml"]).out;
    assert!(merged.contains("fleet.kubectl-mc.dev/cluster: m1"), "{merged}");
    bed.kubectl("cat > got.$cluster");
    let apply = |clusters: &str, input: &str| {
        let mut command = bed.command(&["--yes", "-C", clusters, "apply", "-f", "-"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    };
    // Both for one cluster and for several.
    for (clusters, cluster) in [("m1", "m1"), ("m1,m4", "m4")] {
        assert_eq!(apply(clusters, &merged).code, Some(0));
        let got: Value = serde_json::from_str(&bed.read(&format!("got.{cluster}"))).unwrap();
        assert_eq!(got["items"], json!([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}]));
        // Input without marks is passed unchanged.
        assert_eq!(apply(clusters, "kind: Pod # mine\n").code, Some(0));
        assert_eq!(bed.read(&format!("got.{cluster}")), "kind: Pod # mine\n");
        let copies = format!("{merged}---\n{}", merged.replace("cluster: m1", "cluster: m3"));
        let ran = apply(clusters, &copies);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("several copies of one object: Pod web (of m1, m3)\nhint: "), "{ran:?}");
    }
    assert_eq!(bed.left(), [""; 0]);
}

#[test]
fn list_without_a_ready_cluster_names_all() {
    let not_ready = LIST.replace(
        r#""m1"}}"#,
        r#""m1"}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Unreachable"}]}}"#,
    );
    let bed = Bed::answering((200, "application/json", not_ready));
    for ran in both_ways(&bed, &["--all-clusters", "--exclude=m3", "get", "pods", "-o", "json"]) {
        let list: Value = serde_json::from_str(&ran.out).unwrap();
        let names: Vec<_> = errors(&list).as_array().unwrap().iter().map(|error| &error["cluster"]).collect();
        assert_eq!((ran.code, names), (Some(5), vec![&json!("m1"), &json!("m2")]), "{ran:?}");
    }
}
