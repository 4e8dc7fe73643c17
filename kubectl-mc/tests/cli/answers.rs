//! Tests that an unexpected answer is a failure of its cluster, never an empty result: gateways and
//! servers may answer a list with `200 {}`, with another kind, or with half of it.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran, status};

fn ok(body: &str) -> Answer {
    Answer::from((200, "application/json", body.to_owned())).of("member")
}

/// A bed whose member m1 answers well, and m2 with this body; `kubectl` fails.
fn bed(poison: &'static str) -> Bed {
    let bed = Bed::serving(move |path| match path {
        path if !path.contains("/m2/") => ok(&good(path)),
        _ => ok(poison),
    });
    bed.script("bin/kubectl", "#!/bin/sh\necho \"kubectl $*\" >&2\nexit 7\n");
    bed
}

fn good(path: &str) -> String {
    let pod = json!({"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}]}});
    match path {
        path if path.contains("/log") => return "said\n".to_owned(),
        path if path.contains("selfsubjectaccessreviews") => {
            json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": true}})
        }
        path if path.contains("/pods/web") => pod,
        path if path.contains("/clusters") && !path.contains("/proxy/") => {
            let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            let cluster = |name: &str| json!({"metadata": {"name": name}, "status": ready});
            json!({"kind": "ClusterList", "items": [cluster("m1"), cluster("m2")]})
        }
        _ => json!({"kind": "PodList", "items": [pod]}),
    }
    .to_string()
}

const POISON: &[&str] = &[
    "{}",
    "[]",
    "",
    r#"{"items": []}"#,
    r#"{"kind": "PodList"}"#,
    r#"{"kind": "Status", "apiVersion": "v1", "status": "Success"}"#,
    r#"{"kind": "Secret", "metadata": {"name": "web"}}"#,
    r#"{"kind": "PodList", "items": [{"metadata": {"name": "web"}"#,
];

const LISTS: &[&[&str]] = &[
    &["get", "pods"],
    &["get", "pods", "-o", "json"],
    &["get", "pods", "-o", "yaml"],
    &["get", "pods", "-o", "name"],
    &["get", "pods", "-A"],
    &["compare", "pods"],
    &["logs", "-l", "app=web"],
    &["auth", "can-i", "get", "pods"],
];

fn fails_of_m2(what: &str, ran: &Ran) {
    assert_eq!(ran.code, Some(4), "{what}: {ran:?}");
    assert!(ran.err.contains("m2 | ") && ran.err.contains("1 of 2 clusters failed: 1 "), "{what}: {ran:?}");
    assert!(!ran.err.contains("panicked"), "{what}: {ran:?}");
}

#[test]
fn fault_81_poisoned_list_of_a_member_is_its_failure() {
    for poison in POISON {
        let bed = bed(poison);
        for words in LISTS {
            let words = [&["-C", "m1,m2"][..], words].concat();
            let ran = bed.run_with("KUBECTL_MC_DIRECT", "only", &words);
            fails_of_m2(&format!("{words:?} with {poison:?}"), &ran);
            if words.contains(&"json") {
                let list: Value = serde_json::from_str(&ran.out).unwrap();
                assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{ran:?}");
                assert_eq!(list["metadata"]["clusterErrors"][0]["cluster"], "m2", "{ran:?}");
            }
        }
    }
}

#[test]
fn fault_81_poisoned_object_of_a_member_is_its_failure() {
    for poison in POISON {
        let bed = bed(poison);
        for words in [&["get", "pod", "web"][..], &["get", "pod", "web", "-o", "json"], &["logs", "web"]] {
            let words = [&["-C", "m1,m2"][..], words].concat();
            // The log itself may be any text.
            if words.contains(&"logs") && poison.contains("Pod") {
                continue;
            }
            let ran = bed.run_with("KUBECTL_MC_DIRECT", "only", &words);
            fails_of_m2(&format!("{words:?} with {poison:?}"), &ran);
        }
    }
}

/// The agent is connected, but reports that the member is unreachable.
#[test]
fn summary_names_the_agent_as_the_way() {
    let said = "agent: member m2 is unreachable: the agent cannot connect to the member: connection refused";
    let bed = Bed::serving(move |path| match path {
        path if path.contains("/m2/") => {
            let status = serde_json::json!({"kind": "Status", "code": 503, "reason": "ServiceUnavailable", "message": said});
            Answer::from((503, "application/json", status.to_string())).of("agent")
        }
        path => ok(&good(path)),
    });
    let ran = bed.run_with("KUBECTL_MC_DIRECT", "only", &["-C", "m1,m2", "get", "pods"]);
    assert!(ran.err.contains("1 of 2 clusters failed: 1 unreachable through the agent (m2)\n"), "{ran:?}");
}

/// Like client-go, the plugin requests gzip. A truncated answer or a decompression bomb fails only
/// its own cluster.
#[test]
fn fault_81_broken_compressed_answer_fails_its_cluster() {
    let bed = Bed::serving(|path| {
        let large = || ok(&" ".repeat(300 << 20));
        match path {
            path if path.contains("/m2/") => ok(&good(path)).gzipped(5),
            path if path.contains("/m3/") => large().gzipped(0),
            path if path.contains("/m4/") => ok(&good(path)).with("Content-Encoding", "br"),
            path if path.contains("/m1/") => ok(&good(path)).gzipped(0),
            path => ok(&good(path)),
        }
    });
    let ran = bed.run_with("KUBECTL_MC_DIRECT", "only", &["-C", "m1,m2,m3,m4", "get", "pods", "-o", "name"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(4), "m1 | pod/web\n"), "{ran:?}");
    for failure in [
        "m2 | error: the answer ended early: ",
        "m3 | error: cannot read the answer: it is longer than 268435456 bytes",
        "m4 | error: cannot read the answer: it has an encoding that was not requested",
        "3 of 4 clusters failed",
    ] {
        assert!(ran.err.contains(failure), "{failure}: {ran:?}");
    }
    let requests = bed.requests();
    let mut of_member = requests.iter().filter(|head| head.contains("/m1/"));
    assert!(of_member.all(|head| head.to_lowercase().contains("accept-encoding: gzip")), "{requests:?}");
}

/// Logs arrive line by line, so they are not compressed; neither is anything if the kubeconfig
/// disables compression.
#[test]
fn streams_are_requested_uncompressed() {
    let bed = Bed::serving(|path| ok(&good(path)));
    let logs = bed.run_with("KUBECTL_MC_DIRECT", "only", &["-C", "m1", "logs", "web"]);
    assert_eq!(logs.code, Some(0), "{logs:?}");
    let is_log = |head: &String| head.contains("/log");
    let mut requests = bed.requests();
    requests.retain(is_log);

    let mut config: Value = serde_json::from_str(&bed.read("kubeconfig")).unwrap();
    config["clusters"][0]["cluster"]["disable-compression"] = true.into();
    std::fs::write(bed.path("kubeconfig"), config.to_string()).unwrap();
    let list = bed.run_with("KUBECTL_MC_DIRECT", "only", &["-C", "m1", "get", "pods"]);
    assert_eq!(list.code, Some(0), "{list:?}");
    requests.extend(bed.requests().into_iter().filter(|head| head.contains("/pods")));
    assert!(requests.len() >= 2, "{requests:?}");
    assert!(!requests.iter().any(|head| head.to_lowercase().contains("accept-encoding")), "{requests:?}");
}

/// As in client-go: an overloaded server says when to retry.
#[test]
fn retry_after_is_waited_for_within_the_timeout() {
    let asked = AtomicUsize::new(0);
    let bed = Bed::serving(move |path| {
        let is_first = path.contains("/m2/") && asked.fetch_add(1, Ordering::Relaxed) < 2;
        match path {
            _ if is_first => status(429, "member", "too many").with("Retry-After", "0"),
            path if path.contains("/m3/") => status(503, "member", "later").with("Retry-After", "3600"),
            path if path.contains("/m4/") => {
                status(503, "member", "later").with("Retry-After", "Fri, 31 Dec 2100 23:59:59 GMT")
            }
            path => ok(&good(path)),
        }
    });
    let ran = bed.run(&["-C", "m1,m2,m3,m4", "--cluster-timeout=30s", "get", "pods", "-o", "name"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(4), "m1 | pod/web\nm2 | pod/web\n"), "{ran:?}");
    assert!(ran.err.contains("2 of 4 clusters failed"), "{ran:?}");
    let requests = bed.requests();
    let requests = |cluster: &str| requests.iter().filter(|head| head.contains(cluster)).count();
    assert_eq!((requests("/m2/"), requests("/m3/"), requests("/m4/")), (3, 1, 1));
}

#[test]
fn endless_retry_after_ends() {
    let bed = Bed::answering(status(503, "member", "never").with("Retry-After", "0"));
    let ran = bed.run(&["-C", "m1,m2", "get", "pods", "-o", "name"]);
    assert!(ran.code == Some(5) && ran.err.contains("never"), "{ran:?}");
    assert_eq!(bed.requests().iter().filter(|head| head.contains("/m1/")).count(), 11);
}

/// With one cluster, kubectl decides about the result.
#[test]
fn fault_81_poisoned_answer_of_one_cluster_is_left_to_kubectl() {
    for poison in POISON {
        let ran = bed(poison).run(&["-C", "m2", "get", "pods"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(7), ""), "{poison:?}: {ran:?}");
        assert!(ran.err.contains("kubectl "), "{ran:?}");
    }
}

#[test]
fn fault_81_poisoned_discovery_is_the_failure_of_its_member() {
    for poison in POISON {
        let bed = bed(poison);
        let ran = bed.run_with("KUBECTL_MC_DIRECT", "only", &["-C", "m2", "get", "widgets"]);
        assert!(ran.code != Some(0) && !ran.err.contains("No resources"), "{poison:?}: {ran:?}");
        assert!(ran.err.contains("cannot read the answer"), "{poison:?}: {ran:?}");
    }
}
