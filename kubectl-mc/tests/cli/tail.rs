//! Tests `kubectl mc tail`: which logs it shows and follows, in which format, and how it ends.

mod bounds;

use std::io::Read;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran, Stream, status};
use crate::streams::{Running, ok};

/// A pod whose container `main` has this container ID.
fn pod(name: &str, run: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "5"},
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {"containerStatuses": [{"name": "main", "containerID": run, "state": {"running": {}}}]}})
}

fn list(pods: &[Value]) -> (u16, &'static str, String) {
    ok(&json!({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": pods}).to_string())
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// The pod of a request for a log.
fn log_of(path: &str) -> Option<&str> {
    path.split_once("/log?")?.0.split("/pods/").nth(1)
}

/// Two clusters with the same pods, each with a log of two lines.
fn two_line_logs() -> Bed {
    Bed::streaming(|path, stream: &mut Stream| match log_of(path) {
        Some(pod) => stream.answer((
            200,
            "text/plain",
            format!("2026-01-01T00:00:01Z {pod} one\n2026-01-01T00:00:02Z {pod} two\n"),
        )),
        None => stream.answer(list(&[pod("web-1", "x://1"), pod("db-1", "x://2"), pod("web-2", "x://3")])),
    })
}

#[test]
fn logs_of_all_matching_pods_are_shown_in_order() {
    let lines = "m1 web-1 main | web-1 one\nm1 web-1 main | web-1 two\nm1 web-2 main | web-2 one\n\
                 m1 web-2 main | web-2 two\nm2 web-1 main | web-1 one\nm2 web-1 main | web-1 two\n\
                 m2 web-2 main | web-2 one\nm2 web-2 main | web-2 two\n";
    assert_eq!(two_line_logs().run(&["tail", "^web-", "-C", "m1,m2"]), Ran::new(0, lines, ""));
}

#[test]
fn lines_of_one_cluster_do_not_name_it() {
    let ran = two_line_logs().run(&["-C", "m1", "tail", "web", "--exclude-pod=2$", "--exclude-line", "two"]);
    assert_eq!(ran, Ran::new(0, "web-1 main | web-1 one\n", ""));
}

#[test]
fn lines_are_formatted_by_template_json_and_color() {
    let bed = two_line_logs();
    let words = ["tail", "db", "-C", "m1,m2", "--cluster-concurrency=1", "-i", "one"];
    let with = |more: &[&str]| bed.run(&[&words, more].concat()).out;
    assert_eq!(
        with(&["--template", "{time} {cluster}/{pod}: {message}"]),
        "2026-01-01T00:00:01Z m1/db-1: db-1 one\n2026-01-01T00:00:01Z m2/db-1: db-1 one\n"
    );
    let objects: Vec<Value> =
        with(&["-o", "json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let object = |cluster: &str| {
        json!({"cluster": cluster, "namespace": "ns", "pod": "db-1", "container": "main", "node": "n1",
            "time": "2026-01-01T00:00:01Z", "message": "db-1 one"})
    };
    assert_eq!(objects, [object("m1"), object("m2")]);
    assert!(with(&["--color=always"]).starts_with("\x1b[36mm1\x1b[0m \x1b["));
    assert_eq!(with(&["--color=auto"]), "m1 db-1 main | db-1 one\nm2 db-1 main | db-1 one\n");
}

#[test]
fn wrong_arguments_are_usage_errors_without_a_request() {
    let bed = Bed::unreachable();
    for (words, expected) in [
        (&["tail", "web("][..], "error: invalid regular expression \"web(\": unclosed group\n"),
        (
            &["tail", "web", "--exclude", "m2", "--previous"],
            "error: `kubectl mc tail` has no flag --previous, or the flag lacks its value\n\
             hint: `kubectl mc tail --help` shows its arguments\n",
        ),
        (
            &["tail", "web", "--template={x}"],
            "error: invalid --template: no field {x}\nhint: the fields are {cluster}, {namespace}, {pod}, \
             {container}, {node}, {time}, {message}; {{ and }} are braces\n",
        ),
    ] {
        assert_eq!(bed.run(&[&["-C", "m1,m2"], words].concat()), Ran::new(2, "", expected), "{words:?}");
    }
}

#[test]
fn failed_cluster_or_log_does_not_stop_the_others() {
    let bed = Bed::streaming(|path, stream: &mut Stream| match (log_of(path), path) {
        (_, path) if path.contains("/m1/") => {
            stream.answer(status(502, "member unreachable", "connection refused"));
        }
        (Some("web-1"), _) => stream.answer(forbidden()),
        (Some(_), _) => stream.answer(ok("2026-01-01T00:00:01Z fine\n")),
        (None, _) => stream.answer(list(&[pod("web-1", "x://1"), pod("web-2", "x://2")])),
    });
    let ran = bed.run(&["tail", "web", "-C", "m1,m2,m3"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(5), "m2 web-2 main | fine\nm3 web-2 main | fine\n"),
        "{ran:?}"
    );
    let summary = "3 of 3 clusters failed: 2 forbidden by the member (m2, m3), 1 unreachable (m1)";
    assert!(ran.err.ends_with(&format!("{summary}\n")), "{ran:?}");
    assert!(ran.err.contains("m1 | error: member unreachable: connection refused\n"), "{ran:?}");
    assert_eq!(ran.err.matches("m2 | Error from server (Forbidden): no logs\n").count(), 1, "{ran:?}");
}

fn forbidden() -> Answer {
    let body = r#"{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no logs"}"#;
    Answer::from((403, "application/json", body.to_owned())).of("member")
}

#[test]
fn refusal_on_one_cluster_names_hop_and_next_step() {
    for (answer, expected) in [
        (
            status(502, "member unreachable", "connection refused"),
            (1, "member unreachable: connection refused"),
        ),
        (status(404, "cluster unknown", "no cluster m1"), (3, "cluster unknown: no cluster m1")),
    ] {
        let bed = Bed::answering(answer);
        for words in [&["tail", "web", "-C", "m1"][..], &["tail", "web", "-f", "-C", "m1"]] {
            let ran = bed.run(words);
            let error =
                format!("error: kubectl mc tail on cluster m1 through {}: {}\n", bed.host(), expected.1);
            assert_eq!(ran.code, Some(expected.0), "{ran:?}");
            assert!(ran.err.starts_with(&format!("{error}hint: ")), "{ran:?}");
            assert_eq!(ran.err.lines().count(), 2, "{ran:?}");
        }
    }
}

#[test]
fn new_pods_and_restarts_are_followed_without_repeated_lines() {
    let asked = AtomicUsize::new(0);
    let bed = Bed::streaming(move |path, stream: &mut Stream| match log_of(path) {
        Some("web-1") => {
            stream.begin();
            match asked.fetch_add(1, Ordering::SeqCst) {
                // The log is interrupted, and the next request returns the rest.
                0 => stream.piece("2026-01-01T00:00:01Z one\n2026-01-01T00:00:02Z two\n2026-01-01T00"),
                1 => {
                    assert!(path.contains("sinceTime=2026%2D01%2D01T00%3A00%3A02Z"), "{path}");
                    assert!(!path.contains("tailLines"), "{path}");
                    stream.piece("2026-01-01T00:00:02Z two\n2026-01-01T00:00:03Z three\n");
                    stream.end();
                }
                _ => {
                    // A late request for the log of a run returns the log of the next run.
                    stream.piece("2026-01-01T00:00:03Z three\n2026-01-01T00:00:04Z of the next run\n");
                    stream.hold();
                }
            }
        }
        Some(_) => {
            assert!(!path.contains("tailLines") && !path.contains("since"), "{path}");
            stream.begin();
            stream.piece("2026-01-01T00:00:05Z newcomer\n");
            stream.hold();
        }
        None if path.ends_with("/pods/web-1") => stream.answer(ok(&pod("web-1", "x://2").to_string())),
        None if path.contains("watch=true") => {
            assert!(path.contains("resourceVersion=1"), "{path}");
            stream.begin();
            stream.piece(&event("MODIFIED", &pod("web-1", "x://2")));
            stream.piece(&event("ADDED", &pod("other", "x://3")));
            stream.piece(&event("ADDED", &pod("web-2", "x://4")));
            stream.hold();
        }
        None => stream.answer(list(&[pod("web-1", "x://1")])),
    });
    let mut running = Running::start(&bed, &["tail", "^web", "-f", "-C", "m1,m1x", "--exclude=m1x"]);
    let mut lines: Vec<_> = (0..5).map(|_| running.out()).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "m1  web-1 main | of the next run",
            "m1  web-1 main | one",
            "m1  web-1 main | three",
            "m1  web-1 main | two",
            "m1  web-2 main | newcomer"
        ]
        .map(|line| line.replace("m1  ", "m1 "))
    );
    running.interrupt();
}

#[test]
fn expired_watch_starts_again_with_a_list() {
    let listed = AtomicUsize::new(0);
    let bed = Bed::streaming(move |path, stream: &mut Stream| match log_of(path) {
        Some(name) => {
            stream.begin();
            stream.piece(&format!("2026-01-01T00:00:01Z {name}\n"));
            stream.hold();
        }
        None if path.contains("watch=true") => {
            stream.begin();
            if listed.load(Ordering::SeqCst) == 1 {
                stream
                    .piece(&event("ERROR", &json!({"code": 410, "reason": "Expired", "message": "too old"})));
                stream.end();
            } else {
                stream.hold();
            }
        }
        None if listed.fetch_add(1, Ordering::SeqCst) == 0 => stream.answer(list(&[pod("a", "x://1")])),
        None => stream.answer(list(&[pod("a", "x://1"), pod("b", "x://2")])),
    })
    .of_known_hub();
    let mut running = Running::start(&bed, &["tail", ".", "-f", "-C", "m1"]);
    assert_eq!([running.out(), running.out()], ["a main | a", "b main | b"]);
    drop(running);
}

#[test]
fn clusters_that_join_the_selection_are_followed() {
    let cluster = |name: &str, ready: &str| {
        json!({"metadata": {"name": name}, "status": {"conditions": [
            {"type": "Ready", "status": ready, "message": "no route to host"}]}})
    };
    let clusters = |all: &[Value]| ok(&json!({"kind": "ClusterList", "items": all}).to_string());
    let start = [cluster("eu-1", "True"), cluster("eu-2", "False")];
    let later =
        [cluster("eu-1", "True"), cluster("eu-2", "True"), cluster("eu-3", "True"), cluster("us-1", "True")];
    let listed = AtomicUsize::new(0);
    let bed = Bed::streaming(move |path, stream: &mut Stream| match log_of(path) {
        Some(_) => {
            stream.begin();
            stream.piece("2026-01-01T00:00:01Z here\n");
            stream.hold();
        }
        None if path.ends_with("/clusters?watch=true") => {
            stream.begin();
            later.iter().for_each(|cluster| stream.piece(&event("ADDED", cluster)));
            stream.hold();
        }
        None if path.contains("watch=true") => {
            stream.begin();
            stream.hold();
        }
        None if path.contains("/pods?") => stream.answer(list(&[pod("web", "x://1")])),
        None if listed.fetch_add(1, Ordering::SeqCst) == 0 => stream.answer(clusters(&start)),
        None => stream.answer(clusters(&later)),
    })
    .of_known_hub();
    let mut running = Running::start(&bed, &["tail", "web", "-f", "-C", "eu-*"]);
    let mut lines = [running.out(), running.out(), running.out()];
    lines.sort();
    assert_eq!(lines, ["eu-1 web main | here", "eu-2 web main | here", "eu-3 web main | here"]);
    let mut remarks: Vec<_> = (0..6).map(|_| running.err()).collect();
    remarks.sort();
    assert_eq!(
        remarks,
        [
            "eu-1 | + web/main",
            "eu-2 | + web/main",
            "eu-2 | error: not ready: no route to host",
            "eu-2 | ready, followed from now on",
            "eu-3 | + web/main",
            "eu-3 | ready, followed from now on",
        ]
    );
    running.interrupt();
}

#[test]
fn too_many_logs_are_an_error_that_names_the_flag() {
    let bed = Bed::streaming(|path, stream: &mut Stream| match log_of(path) {
        Some(_) => stream.hold(),
        None => stream.answer(list(&[pod("a", "x://1"), pod("b", "x://2"), pod("c", "x://3")])),
    });
    let mut running = Running::start(&bed, &["tail", ".", "-f", "--max-log-requests=2", "-C", "m1"]);
    assert_eq!(
        running.err(),
        "error: 3 logs match, but at most 2 are followed at a time: match fewer pods, or use --max-log-requests=3"
    );
    assert_eq!(running.child.wait().unwrap().code(), Some(1));
}

#[test]
fn log_above_the_limit_waits_for_one_that_ends() {
    let told = Arc::new(Barrier::new(2));
    let ends = Arc::clone(&told);
    let bed = Bed::streaming(move |path, stream: &mut Stream| match log_of(path) {
        Some(name) => {
            stream.begin();
            stream.piece(&format!("2026-01-01T00:00:01Z {name}\n"));
            match name {
                "b" => stream.hold(),
                // After it ends, the next log can be followed.
                _ => drop(ends.wait()),
            }
            stream.end();
        }
        None if path.contains("watch=true") => {
            stream.begin();
            stream.piece(&event("ADDED", &pod("b", "x://2")));
            stream.hold();
        }
        None if path.ends_with("/pods/a") => stream.answer(ok(&pod("a", "x://9").to_string())),
        None => stream.answer(list(&[pod("a", "x://1")])),
    });
    let mut running = Running::start(&bed, &["tail", ".", "-f", "--max-log-requests=1", "-C", "m1"]);
    assert_eq!(
        [running.err(), running.err()],
        [
            "+ a/main",
            "b/main and later logs wait: 1 are followed already; --max-log-requests raises the limit"
        ]
    );
    told.wait();
    assert_eq!([running.out(), running.out()], ["a main | a", "b main | b"]);
    running.end();
}

#[test]
fn pod_name_with_a_path_is_never_requested() {
    let bed = Bed::streaming(|path, stream: &mut Stream| {
        assert!(!path.contains("m2"), "{path}");
        stream.answer(list(&[pod("../../../../../clusters/m2/proxy/x", "x://1")]));
    });
    let ran = bed.run(&["tail", ".", "-C", "m1"]);
    assert_eq!(ran, Ran::new(0, "", "no log matches\n"));
}
