//! Tests logs and watches of several clusters by direct requests: when lines are shown, and how streams end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use serde_json::json;

use crate::bed::{Answer, Bed, Ran, Stream, status};

const POD: &str = r#"{"kind": "Pod", "metadata": {"name": "web", "DELETED": null},
    "spec": {"containers": [{"name": "main"}]},
    "status": {"containerStatuses": [{"name": "main", "containerID": "x://1", "state": {"running": {}}}]}}"#;

const NOT_FOUND: &str =
    r#"{"kind": "Status", "code": 404, "reason": "NotFound", "message": "pods \"web\" not found"}"#;

pub(crate) fn ok(body: &str) -> (u16, &'static str, String) {
    (200, "application/json", body.to_owned())
}

/// The plugin while it runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    pub(crate) fn start(bed: &Bed, words: &[&str]) -> Self {
        let mut command = bed.command(words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        Self { child, out, err }
    }

    pub(crate) fn out(&mut self) -> String {
        self.out.recv_timeout(DEADLINE).unwrap()
    }

    pub(crate) fn err(&mut self) -> String {
        self.err.recv_timeout(DEADLINE).unwrap()
    }

    /// Peak resident memory of the plugin so far, in KiB.
    pub(crate) fn most_memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        most.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }

    pub(crate) fn interrupt(mut self) {
        assert!(
            Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap().success()
        );
        assert_eq!(self.child.wait().unwrap().code(), Some(130));
    }

    /// Kills the plugin in any state, by dropping it.
    pub(crate) fn end(self) {}
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

pub(crate) fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    receiver
}

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn followed_logs_show_an_error_at_once() {
    let bed = Bed::streaming(|path, stream: &mut Stream| match path {
        path if path.contains("/m1/") => {
            stream.answer(status(502, "member unreachable", "connection refused"));
        }
        path if path.contains("/log?") => {
            stream.begin();
            stream.piece("2026-01-01T00:00:00Z here\n");
            stream.hold();
        }
        path if path.contains("configmaps") => stream.hold(),
        _ => stream.answer(ok(POD)),
    });
    for words in [&["logs", "-f", "web"][..], &["get", "configmaps", "-w"]] {
        let mut running = Running::start(&bed, &[&["-C", "m1,m2"], words].concat());
        // The stream of the other cluster continues.
        assert_eq!(running.err(), "m1 | error: member unreachable: connection refused", "{words:?}");
        if words[0] == "logs" {
            assert_eq!(running.out(), "m2 | here");
        }
        running.interrupt();
    }
}

#[test]
fn deleted_pod_ends_followed_log_without_error() {
    // Either the log is interrupted and the pod is gone afterwards, or the log ends and the pod is
    // marked as deleted.
    for broken in [true, false] {
        let gone = [AtomicBool::new(false), AtomicBool::new(false)];
        let bed = Bed::streaming(move |path, stream: &mut Stream| match path {
            path if path.contains("/log?") && !of_cluster(&gone, path).swap(true, Ordering::SeqCst) => {
                stream.begin();
                stream.piece("2026-01-01T00:00:00Z here\n");
                if !broken {
                    stream.end();
                }
            }
            _ if !broken => stream.answer(ok(&POD.replace("\"DELETED\": null", DELETED))),
            path if !of_cluster(&gone, path).load(Ordering::SeqCst) => stream.answer(ok(POD)),
            _ => stream.answer(
                crate::bed::Answer::from((404, "application/json", NOT_FOUND.to_owned())).of("member"),
            ),
        });
        let ran = bed.run(&["-C", "m1,m2", "logs", "-f", "web"]);
        let mut lines: Vec<_> = ran.out.lines().collect();
        lines.sort_unstable();
        assert_eq!((ran.code, lines), (Some(0), vec!["m1 | here", "m2 | here"]), "{ran:?}");
        // A log that is interrupted is requested again; one that ends is not.
        let lost = ran.err.lines().filter(|line| line.contains("trying again")).count();
        assert_eq!((lost, ran.err.lines().count()), if broken { (2, 2) } else { (0, 0) }, "{ran:?}");
    }
}

/// The element for the cluster in a path.
fn of_cluster<'a, T>(each: &'a [T; 2], path: &str) -> &'a T {
    &each[usize::from(path.contains("/m2/"))]
}

const DELETED: &str = r#""deletionTimestamp": "2026-01-01T00:00:00Z""#;

#[test]
fn logs_of_a_cluster_are_read_concurrently() {
    // No log ends before all are requested.
    let all = Arc::new(Barrier::new(3));
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main"}]}});
    let pods = json!({"kind": "PodList", "items": [pod("a"), pod("b"), pod("c")]}).to_string();
    let bed = Bed::streaming(move |path, stream: &mut Stream| match path {
        path if path.contains("/m2/") => stream.answer(ok(r#"{"kind": "PodList", "items": []}"#)),
        path if path.contains("/log?") => {
            let pod = path.split("/pods/").nth(1).unwrap().split('/').next().unwrap().to_owned();
            all.wait();
            stream.answer((200, "text/plain", format!("{pod} one\n{pod} two\n")));
        }
        _ => stream.answer(ok(&pods)),
    });
    let ran = bed.run(&["--cluster-timeout=30s", "-C", "m1,m2", "logs", "-l", "app=web"]);
    let lines = "m1 | a one\nm1 | a two\nm1 | b one\nm1 | b two\nm1 | c one\nm1 | c two\n";
    assert_eq!(ran, Ran::new(0, lines, "m2 | No resources found in ns namespace.\n"));
}

#[test]
fn endless_log_line_needs_little_memory() {
    let bed = Bed::streaming(move |path, stream: &mut Stream| match path {
        path if path.contains("/log?") => {
            stream.begin();
            let piece = "x".repeat(1 << 16);
            let mut pieces = 100 << 4;
            while pieces > 0 && stream.goes_on(&piece) {
                pieces -= 1;
            }
            stream.piece("\nend\n");
            stream.hold();
        }
        _ => stream.answer(ok(POD)),
    });
    for words in [&["-C", "m1,m2", "logs", "web"][..], &["-C", "m1,m2", "logs", "-f", "web"]] {
        let mut running = Running::start(&bed, words);
        let mut length = 0;
        loop {
            let line = running.out();
            if line == "m1 | end" {
                break;
            }
            assert!(line.len() < 2 << 20, "{}", line.len());
            length += line.strip_prefix("m1 | ").map_or(0, str::len);
        }
        assert_eq!(length, 100 << 20, "{words:?}");
        let most = running.most_memory();
        assert!(most < 64 << 10, "{words:?}: {most} KiB");
        running.end();
    }
}

#[test]
fn endless_line_of_kubectl_is_printed_in_parts() {
    let bed = Bed::with_kubectl("head -c 4194304 /dev/zero | tr '\\0' x");
    let ran = bed.run(&["-C", "m1,m2", "--yes", "exec", "web", "--", "cat"]);
    for cluster in ["m1 | ", "m2 | "] {
        let parts: Vec<_> =
            ran.out.lines().filter_map(|line| line.strip_prefix(cluster)).map(str::len).collect();
        assert_eq!(parts.iter().sum::<usize>(), 4 << 20, "{parts:?}");
        assert!(parts.iter().all(|part| *part < 2 << 20), "{parts:?}");
    }
}

#[test]
fn watch_of_an_endless_list_is_an_error() {
    let page = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [], "rows": [],
        "metadata": {"resourceVersion": "1", "continue": "more"}});
    let ran = Bed::serving(move |_| ok(&page.to_string())).run(&["-C", "m1,m2", "get", "configmaps", "-w"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(
        ran.err.contains("m1 | error: cannot read the answer: a list of more than 2000 pages\n"),
        "{ran:?}"
    );
}

#[test]
fn warning_of_a_watch_appears_while_it_runs() {
    let table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"},
        "columnDefinitions": [{"name": "Name", "type": "string"}],
        "rows": [{"cells": ["a"], "object": {"metadata": {"name": "a"}}}]});
    let bed = Bed::streaming(move |path, stream: &mut Stream| match path.contains("watch=true") {
        true => {
            stream.begin();
            stream.hold();
        }
        false => stream.answer(Answer::from(ok(&table.to_string())).with("Warning", "299 - \"old\"")),
    });
    let mut running = Running::start(&bed, &["-C", "m1,m2", "get", "configmaps", "-w"]);
    let mut warnings = [running.err(), running.err()];
    warnings.sort();
    assert_eq!(warnings, ["m1 | Warning: old", "m2 | Warning: old"]);
    running.end();
}

#[test]
fn watch_adds_cluster_that_becomes_ready() {
    let cluster = |name: &str, ready: &str| {
        json!({"metadata": {"name": name}, "status": {"conditions": [
            {"type": "Ready", "status": ready, "reason": "Unreachable", "message": "no route to host"}]}})
    };
    let list = json!({"kind": "ClusterList", "items": [cluster("m1", "True"), cluster("m2", "False")]});
    let table = |row: &str| {
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"},
            "columnDefinitions": [{"name": "Name", "type": "string"}],
            "rows": [{"cells": [row], "object": {"metadata": {"name": row}}}]})
    };
    let (ready, unready) = (cluster("m2", "True"), cluster("m2", "False"));
    let asked = AtomicUsize::new(0);
    let bed = Bed::streaming(move |path, stream: &mut Stream| match path {
        path if path.ends_with("/clusters?watch=true") => {
            stream.begin();
            stream.piece(&format!("{}\n", json!({"type": "ADDED", "object": unready})));
            stream.piece(&format!("{}\n", json!({"type": "MODIFIED", "object": ready})));
            stream.hold();
        }
        path if path.contains("watch=true") => {
            stream.begin();
            stream.hold();
        }
        // The first list of m2 still fails.
        path if path.contains("/m2/") && asked.fetch_add(1, Ordering::SeqCst) == 0 => {
            stream.answer(status(502, "member unreachable", "not yet"));
        }
        path if path.contains("/m1/") => stream.answer(ok(&table("a").to_string())),
        path if path.contains("/m2/") => stream.answer(ok(&table("b").to_string())),
        _ => stream.answer(ok(&list.to_string())),
    });
    let mut running = Running::start(&bed, &["--all-clusters", "get", "configmaps", "-w"]);
    assert_eq!(running.err(), "m2 | error: not ready: no route to host");
    assert_eq!(running.err(), "- m2: ready, watched from now on");
    let mut rows = vec![running.out(), running.out(), running.out()];
    rows.sort();
    assert_eq!(rows, ["CLUSTER   NAME", "m1        a", "m2        b"]);
    running.interrupt();
}

#[test]
fn watch_and_logs_add_cluster_that_joins_the_selection() {
    let cluster = |name: &str, labels: serde_json::Value, ready: &str| {
        json!({"metadata": {"name": name, "labels": labels}, "status": {"conditions": [
            {"type": "Ready", "status": ready, "message": "no route to host"}]}})
    };
    let prod = json!({"env": "prod"});
    let all = |joined: &[serde_json::Value]| ok(&json!({"kind": "ClusterList", "items": joined}).to_string());
    let first = [cluster("m1", prod.clone(), "True")];
    // The clusters that match the selector on the host; m4 has other labels.
    let later = [first[0].clone(), cluster("m2", prod.clone(), "True"), cluster("m3", prod.clone(), "False")];
    let m4 = cluster("m4", json!({"env": "test"}), "True");
    let table = |row: &str| {
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"},
            "columnDefinitions": [{"name": "Name", "type": "string"}],
            "rows": [{"cells": [row], "object": {"metadata": {"name": row}}}]})
    };
    for (words, expected) in [
        (&["get", "configmaps", "-w", "--no-headers"][..], ["m1 a", "m2 a"]),
        (&["logs", "-f", "web"], ["m1 | here", "m2 | here"]),
    ] {
        let (first, later, m4) = (first.clone(), later.clone(), m4.clone());
        let listed = AtomicUsize::new(0);
        let bed = Bed::streaming(move |path, stream: &mut Stream| match path {
            path if path.ends_with("/clusters?watch=true") => {
                stream.begin();
                for cluster in later.iter().chain([&m4]) {
                    stream.piece(&format!("{}\n", json!({"type": "ADDED", "object": cluster})));
                }
                stream.hold();
            }
            path if path.contains("/m3/") || path.contains("/m4/") => panic!("{path}"),
            path if path.contains("watch=true") => {
                stream.begin();
                stream.hold();
            }
            path if path.contains("/log?") => {
                stream.begin();
                stream.piece("2026-01-01T00:00:00Z here\n");
                stream.hold();
            }
            path if path.contains("/configmaps") => stream.answer(ok(&table("a").to_string())),
            path if path.contains("/pods/web") => stream.answer(ok(POD)),
            path => {
                assert!(path.ends_with("labelSelector=env%3Dprod"), "{path}");
                let joined = listed.fetch_add(1, Ordering::SeqCst) > 0;
                stream.answer(if joined { all(&later) } else { all(&first) });
            }
        })
        .of_known_hub();
        let mut running = Running::start(&bed, &[&["--cluster-selector=env=prod"], words].concat());
        let words_of = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = [running.out(), running.out()].map(words_of);
        lines.sort();
        assert_eq!(lines, expected, "{words:?}");
        let remark = running.err();
        assert!(remark.contains("m2") && remark.contains("ready, "), "{remark}");
        running.interrupt();
    }
}

#[test]
fn followed_logs_add_cluster_that_becomes_ready() {
    let cluster = |name: &str, ready: &str| {
        json!({"metadata": {"name": name}, "status": {"conditions": [
            {"type": "Ready", "status": ready, "message": "no route to host"}]}})
    };
    let list = json!({"kind": "ClusterList", "items": [cluster("m1", "True"), cluster("m2", "False")]});
    let ready = cluster("m2", "True");
    let asked = AtomicUsize::new(0);
    let bed = Bed::streaming(move |path, stream: &mut Stream| match path {
        path if path.ends_with("/clusters?watch=true") => {
            stream.begin();
            stream.piece(&format!("{}\n", json!({"type": "MODIFIED", "object": ready})));
            stream.hold();
        }
        path if path.contains("/log?") => {
            stream.begin();
            stream.piece("2026-01-01T00:00:00Z here\n");
            stream.hold();
        }
        // The first request to m2 still fails.
        path if path.contains("/m2/") && asked.fetch_add(1, Ordering::SeqCst) == 0 => {
            stream.answer(status(502, "member unreachable", "not yet"));
        }
        path if path.contains("/pods/web") => stream.answer(ok(POD)),
        _ => stream.answer(ok(&list.to_string())),
    });
    let mut running = Running::start(&bed, &["--all-clusters", "logs", "-f", "web"]);
    assert_eq!(running.err(), "m2 | error: not ready: no route to host");
    assert_eq!(running.err(), "m2 | ready, followed from now on");
    let mut lines = [running.out(), running.out()];
    lines.sort();
    assert_eq!(lines, ["m1 | here", "m2 | here"]);
    running.interrupt();
}
