//! Tests `get` and `logs` on one cluster with direct requests; kubectl runs commands that do not
//! succeed.

use serde_json::json;

use crate::bed::{Answer, Bed, Ran, status};

fn table(rows: &[&str]) -> String {
    let rows: Vec<_> =
        rows.iter().map(|name| json!({"cells": [name], "object": {"metadata": {"name": name}}})).collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [{"name": "Name", "type": "string"}],
        "rows": rows,
    })
    .to_string()
}

/// A member with one pod, and a kubectl that prints its arguments.
fn bed() -> Bed {
    let bed = Bed::serving(answer);
    bed.script("bin/kubectl", "#!/bin/sh\necho \"kubectl $*\"\nexit 7\n");
    bed
}

fn answer(path: &str) -> Answer {
    let ok = |body: String| Answer::from((200, "application/json", body)).of("member");
    let missing = || status(404, "member", "pods \"none\" not found").sent_by_member();
    match path.split_once("/m1/proxy").map_or("", |(_, rest)| rest) {
        rest if rest.starts_with("/api/v1/namespaces/ns/pods?") => ok(table(&["web"])),
        "/api/v1/namespaces/ns/pods/web" => {
            ok(r#"{"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}]}}"#
                .to_owned())
        }
        rest if rest.starts_with("/api/v1/namespaces/ns/pods/web/log") => ok("said\n".to_owned()),
        rest if rest.starts_with("/api/v1/namespaces/ns/configmaps?") => {
            ok(table(&["c"])).with("Warning", "299 - \"old\"")
        }
        rest if rest.starts_with("/api/v1/namespaces/shut/") => {
            status(403, "host authorization", "you may not")
        }
        "/api/v1/namespaces/ns/pods/none" => missing(),
        _ => status(404, "member", "the server could not find the requested resource").sent_by_member(),
    }
}

#[test]
fn success_needs_no_kubectl() {
    let bed = bed();
    assert_eq!(bed.run(&["-C", "m1", "get", "pods"]), Ran::new(0, "NAME\nweb\n", ""));
    assert_eq!(bed.run(&["-C", "m1", "logs", "web"]), Ran::new(0, "said\n", ""));
    assert_eq!(bed.run(&["-C", "m1", "get", "configmaps"]), Ran::new(0, "NAME\nc\n", "Warning: old\n"));
    let logged = bed.run(&["-C", "m1", "get", "pods", "-v=4"]);
    assert!(
        logged.out == "NAME\nweb\n" && logged.err.contains("\"Run command\" by=\"direct requests\""),
        "{logged:?}"
    );
}

#[test]
fn other_results_are_left_to_kubectl() {
    let bed = bed();
    for words in [
        &["get", "pods", "web", "none"][..],
        &["get", "nonsense"],
        &["get", "pods", "-o", "jsonpath={.x}"],
        &["get", "pods", "web", "-o", "yaml"],
        &["top", "pod"],
        &["get", "pods", "--watch"],
        &["get", "pods", "-v=6"],
        &["get", "pods", "--request-timeout=3s"],
        &["logs", "none"],
        &["logs", "web", "-f"],
        &["describe", "pods"],
    ] {
        let ran = bed.run(&[&["-C", "m1"], words].concat());
        let (verb, rest) = words.split_first().unwrap();
        let out = format!("kubectl {verb} --context=mc/m1 {}\n", rest.join(" "));
        assert_eq!((ran.code, ran.out.as_str()), (Some(7), out.as_str()), "{words:?} {ran:?}");
        assert!(words.contains(&"-v=6") || ran.err.is_empty(), "{words:?} {ran:?}");
    }
}

#[test]
fn kubectl_runs_when_direct_requests_are_off() {
    let bed = bed().of_known_hub();
    let ran = bed.run_with("KUBECTL_MC_DIRECT", "0", &["-C", "m1", "get", "pods"]);
    assert_eq!(ran, Ran::new(7, "kubectl get --context=mc/m1 pods\n", ""));
    let requests = bed.requests();
    assert!(requests.len() == 1 && requests[0].contains("/proxy/version "), "{requests:?}");
}

#[test]
fn hop_refusal_is_reported_without_kubectl() {
    let ran = bed().run(&["-C", "m1", "get", "pods", "-n", "shut"]);
    let (code, said) = ran.failed();
    assert!(code == 1 && said.contains("kubectl get on cluster m1 through"), "{said}");
    assert!(said.contains("host authorization: you may not\nhint: see: "), "{said}");
}

#[test]
fn failed_credential_plugin_is_left_to_kubectl() {
    let bed = bed();
    let text = bed.read("kubeconfig").replace(
        r#""token": "secret""#,
        r#""exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}"#,
    );
    std::fs::write(bed.path("kubeconfig"), text).unwrap();
    assert_eq!(bed.run(&["-C", "m1", "get", "pods"]), Ran::new(7, "kubectl get --context=mc/m1 pods\n", ""));
}

#[test]
fn pod_name_from_a_member_cannot_lead_elsewhere() {
    let pod = |name: &str| json!({"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "main"}]}});
    let pods = json!({"kind": "PodList", "items": [pod("../../../../secrets/x?"), pod("web")]}).to_string();
    let renamed = pod("../../secrets/x?").to_string();
    let bed = Bed::serving(move |path| match path.contains("labelSelector") {
        true => Answer::from((200, "application/json", pods.clone())).of("member"),
        false if path.ends_with("/pods/web") => {
            Answer::from((200, "application/json", renamed.clone())).of("member")
        }
        false => answer(path),
    });
    for words in [&["-l", "app=web"][..], &["web"]] {
        let ran = bed.run(&[&["-C", "m1,m2", "logs"], words].concat());
        assert!(ran.out.contains("m1 | said\n"), "{ran:?}");
        assert!(bed.requests().iter().all(|head| !head.contains("secrets")), "{ran:?}");
    }
}

#[test]
fn long_log_is_written_unchanged() {
    let line = "x".repeat(1023) + "\n";
    let log = line.repeat(20 * 1024);
    let (said, length) = (log.clone(), log.len());
    let bed = Bed::serving(move |path| match path.contains("/log") {
        true => Answer::from((200, "text/plain", said.clone())).of("member"),
        false => answer(path),
    });
    let ran = bed.run(&["-C", "m1", "logs", "web"]);
    assert_eq!((ran.code, ran.out.len(), ran.err.as_str()), (Some(0), length, ""));
    assert!(ran.out == log);
}
