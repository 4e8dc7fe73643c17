//! Tests one command on several clusters: its output, its errors and its exit code. A fake kubectl
//! returns the members' answers.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bed::{Bed, Ran, status};

#[test]
fn text_lines_name_their_cluster_in_order() {
    // m1 waits until eu-prod-1 has written.
    let bed = Bed::with_kubectl(
        "[ $cluster = m1 ] && while [ ! -e there ]; do :; done; echo a line; printf \"and $cluster\"; echo aside >&2; : > there",
    );
    assert_eq!(
        bed.run(&["-C", "m1,eu-prod-1", "describe", "pod", "x"]),
        Ran::new(
            0,
            "m1        | a line\nm1        | and m1\neu-prod-1 | a line\neu-prod-1 | and eu-prod-1\n",
            "m1        | aside\neu-prod-1 | aside\n"
        )
    );
}

#[test]
fn carriage_returns_keep_the_prefix() {
    let bed = Bed::with_kubectl(r"printf '10%%\r20%%\r\n'; printf 'oh\rno\n' >&2");
    assert_eq!(
        bed.run(&["--yes", "-C", "m1,m2", "exec", "x", "--", "fetch"]),
        Ran::new(0, "m1 | 10%\rm1 | 20%\r\nm2 | 10%\rm2 | 20%\r\n", "m1 | oh\rm1 | no\nm2 | oh\rm2 | no\n")
    );
}

#[test]
fn tables_become_one_with_the_cluster_first() {
    let bed = Bed::with_kubectl(
        "case $cluster in\n\
         m1) printf 'NAME   CPU(cores)\\nweb    1m\\n';;\n\
         m2) printf 'NAME              CPU(cores)\\nweb-with-a-name   100m\\n';;\n\
         m3) echo 'No resources found in ns namespace.' >&2;;\n\
         esac",
    );
    assert_eq!(
        bed.run(&["-C", "m1,m2,m3", "top", "pods"]),
        Ran::new(
            0,
            "CLUSTER   NAME              CPU(cores)\nm1        web               1m\nm2        web-with-a-name   100m\n",
            "m3 | No resources found in ns namespace.\n"
        )
    );
}

#[test]
fn json_output_is_one_list_with_the_failures() {
    let bed = Bed::with_kubectl(
        r#"case $cluster in
         m1) echo '{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "a"}}';;
         m2) echo 'Error from server (NotFound): deployments.apps "a" not found' >&2; exit 1;;
         esac"#,
    );
    let expected = r#"{
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "annotations": {
                    "fleet.kubectl-mc.dev/cluster": "m1"
                },
                "name": "a"
            }
        }
    ],
    "kind": "List",
    "metadata": {
        "clusterErrors": [
            {
                "cause": "not found",
                "cluster": "m2",
                "message": "not found"
            }
        ],
        "resourceVersion": ""
    }
}
"#;
    let err = "m2 | Error from server (NotFound): deployments.apps \"a\" not found\n\
               1 of 2 clusters failed: 1 not found (m2)\n";
    let words = ["-C", "m1,m2", "--yes", "patch", "deploy", "a", "-p", "{}", "-o", "json"];
    assert_eq!(bed.run(&words), Ran::new(4, expected, err));
    let yaml = bed.run(&[&words[..9], &["yaml"]].concat()).out;
    assert!(yaml.starts_with("apiVersion: v1\nitems:\n"), "{yaml}");
}

#[test]
fn full_partial_and_no_success_have_own_exit_codes() {
    let fails = |on: &str| format!("[ $cluster != {on} ] || {{ echo oh >&2; exit 7; }}");
    for (script, code, err) in [
        (fails("none"), 0, ""),
        (fails("m2"), 4, "m2 | oh\n1 of 2 clusters failed: 1 exit code 7 (m2)\n"),
        ("exit 7".to_owned(), 5, "2 of 2 clusters failed: 2 exit code 7 (m1, m2)\n"),
        ("kill -9 $$".to_owned(), 5, "2 of 2 clusters failed: 2 killed (m1, m2)\n"),
    ] {
        assert_eq!(
            Bed::with_kubectl(&script).run(&["-C", "m1,m2", "describe", "x"]),
            Ran::new(code, "", err),
            "{script}"
        );
    }
}

#[test]
fn differences_are_no_failure() {
    let differs = Bed::with_kubectl("[ $cluster != m2 ] || { echo -old; exit 1; }");
    assert_eq!(differs.run(&["-C", "m1,m2", "diff", "-f", "x"]), Ran::new(1, "m2 | -old\n", ""));
    let fails = Bed::with_kubectl("echo 'error: the path \"x\" does not exist' >&2; exit 1");
    assert_eq!(fails.run(&["-C", "m1,m2", "diff", "-f", "x"]).code, Some(5));
}

#[test]
fn refusing_hop_is_named_for_each_cluster_and_grouped() {
    let bed = Bed::serving(|path| match path {
        path if path.contains("/m2/") => status(502, "member unreachable", "no route to host"),
        path if path.contains("/m3/") => status(502, "member unreachable", "connection refused"),
        path if path.contains("/m4/") => status(403, "cluster unknown", "no m4 here"),
        _ => (200, "application/json", "{}".to_owned()).into(),
    });
    bed.kubectl("echo yes");
    assert_eq!(
        bed.run(&["-C", "m1,m2,m3,m4", "describe", "x"]),
        Ran::new(
            4,
            "m1 | yes\n",
            "m2 | error: member unreachable: no route to host\n\
             m3 | error: member unreachable: connection refused\n\
             m4 | error: cluster unknown: no m4 here\n\
             3 of 4 clusters failed: 2 unreachable (m2, m3), 1 unknown (m4)\n"
        )
    );
}

#[test]
fn kubectl_error_text_is_not_taken_for_a_hop() {
    let bed = Bed::with_kubectl(
        "echo 'Error from server (Forbidden): host authorization: log in elsewhere' >&2; exit 1",
    );
    let ran = bed.run(&["-C", "m1,m2", "describe", "x"]);
    assert!(ran.err.ends_with("2 of 2 clusters failed: 2 forbidden (m1, m2)\n"), "{}", ran.err);
}

#[test]
fn cluster_timeout_kills_kubectl_and_its_children() {
    let bed = Bed::with_kubectl("[ $cluster != m1 ] || { sleep 1000 & echo $! > pid; wait; }; echo done");
    let begin = Instant::now();
    let ran = bed.run(&["--cluster-timeout=1s", "-C", "m1,m2", "describe", "x"]);
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    assert_eq!(
        ran,
        Ran::new(
            4,
            "m2 | done\n",
            "m1 | error: no answer within 1s\n1 of 2 clusters failed: 1 timed out after 1s (m1)\n"
        )
    );
    wait_until_gone(&fs::read_to_string(bed.path("pid")).unwrap());
}

#[test]
fn interrupt_leaves_no_process_and_no_file() {
    let bed = Bed::with_kubectl(
        "echo $$ > pid.$cluster.tmp; mv pid.$cluster.tmp pid.$cluster; echo begun; exec sleep 1000",
    );
    bed.credential_plugin("echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\": {\"token\": \"obtained\"}}'");
    let mut command = bed.command(&["-C", "m1,m2", "logs", "-f", "deploy/x"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut begun: Vec<_> = lines.by_ref().take(2).map(Result::unwrap).collect();
    begun.sort();
    assert_eq!(begun, ["m1 | begun", "m2 | begun"]);
    assert_eq!(bed.left().len(), 1, "a credential is kept for the children: {:?}", bed.left());
    kill("-INT", &child.id().to_string());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    for cluster in ["m1", "m2"] {
        wait_until_gone(&fs::read_to_string(bed.path(&format!("pid.{cluster}"))).unwrap());
    }
    assert_eq!(bed.left(), [""; 0]);
}

#[test]
fn concurrency_limit_holds_and_output_is_in_order() {
    let bed = Bed::with_kubectl(": > running.$cluster; set -- running.*; echo $#; rm running.$cluster");
    let names: Vec<_> = (0..40).map(|at| format!("m{at:02}")).collect();
    let ran = bed.run(&["--cluster-concurrency=3", "-C", &names.join(","), "describe", "x"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let lines: Vec<_> = ran.out.lines().map(|line| line.split_once(" | ").unwrap()).collect();
    assert_eq!(lines.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    let most = lines.iter().map(|(_, running)| running.trim().parse::<usize>().unwrap()).max();
    assert!((1..=3).contains(&most.unwrap()), "{most:?}");
}

#[test]
fn endless_command_on_many_clusters_needs_concurrency_flag() {
    let names: Vec<_> = (0..65).map(|at| format!("m{at}")).collect();
    let ran = Bed::with_kubectl("echo x").run(&["-C", &names.join(","), "wait", "--for=delete", "pod/x"]);
    assert_eq!(
        ran.failed(),
        (
            2,
            "error: the command would run 65 kubectl processes at once, at about 50 MB each\n\
             hint: choose at most 64 clusters, or allow more by --cluster-concurrency=65\n"
        )
    );
}

#[test]
fn streams_print_as_data_arrives() {
    // m2 writes first, and m1 only then.
    let bed = Bed::with_kubectl(
        "if [ $cluster = m1 ]; then while [ ! -e go ]; do :; done; echo second; else echo first; fi; exec sleep 1000",
    );
    let mut child =
        bed.command(&["-C", "m1,m2", "logs", "-f", "deploy/x"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "m2 | first");
    fs::write(bed.path("go"), "").unwrap();
    assert_eq!(lines.next().unwrap(), "m1 | second");
    kill("-TERM", &child.id().to_string());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn closed_output_pipe_ends_all_streams_without_error() {
    let bed = Bed::with_kubectl("while :; do echo again; done");
    let mut child = bed
        .command(&["-C", "m1,m2", "logs", "-f", "deploy/x"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn closed_output_pipe_is_no_error_for_direct_requests() {
    let rows: Vec<_> = (0..2000)
        .map(|at| {
            format!(
                r#"{{"cells": ["row-{at}-{}"], "object": {{"metadata": {{"name": "x"}}}}}}"#,
                "x".repeat(100)
            )
        })
        .collect();
    let table = format!(
        r#"{{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [{{"name": "Name", "type": "string"}}], "rows": [{}]}}"#,
        rows.join(",")
    );
    let bed = Bed::answering((200, "application/json", table));
    let mut child = bed
        .command(&["-C", "m1,m2", "get", "configmaps"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn every_cluster_gets_whole_standard_input() {
    let bed = Bed::with_kubectl("cat > got.$cluster");
    let mut child =
        bed.command(&["--yes", "-C", "m1,m2,m3", "apply", "-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let manifest = "kind: ConfigMap\n".repeat(100_000);
    child.stdin.take().unwrap().write_all(manifest.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    for cluster in ["m1", "m2", "m3"] {
        assert_eq!(fs::read_to_string(bed.path(&format!("got.{cluster}"))).unwrap(), manifest, "{cluster}");
    }
}

#[test]
fn unused_standard_input_is_not_read() {
    let bed = Bed::with_kubectl("cat");
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"for whoever comes after\n").unwrap();
    drop(writer);
    let output =
        bed.command(&["-C", "m1,m2", "describe", "x"]).stdin(reader.try_clone().unwrap()).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]));
    let mut left = String::new();
    BufReader::new(reader).read_to_string(&mut left).unwrap();
    assert_eq!(left, "for whoever comes after\n");
}

#[test]
fn credential_plugin_runs_once_for_all_clusters() {
    let bed = Bed::with_kubectl("grep -o 'obtained' \"${KUBECONFIG%%:*}\"; stat -c %a \"${KUBECONFIG%%:*}\"");
    bed.credential_plugin("echo run >> runs; echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\": {\"token\": \"obtained\"}}'");
    let ran = bed.run(&["-C", "m*,m1,m2,m3", "--cluster=m4", "describe", "x"]);
    // The host lists nothing, so that the glob adds nothing and exact names are unknown.
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let ran = bed.run(&["-C", "m1,m2,m3,m4", "describe", "x"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert_eq!(ran.out.lines().filter(|line| line.ends_with("| obtained")).count(), 4, "{ran:?}");
    assert_eq!(ran.out.lines().filter(|line| line.ends_with("| 600")).count(), 4, "{ran:?}");
    assert_eq!(fs::read_to_string(bed.path("runs")).unwrap().lines().count(), 2, "once for each command");
    assert_eq!(bed.left(), [""; 0]);
    let requests = bed.requests();
    assert!(requests.iter().all(|head| head.contains("authorization: Bearer obtained\r\n")), "{requests:?}");
}

#[test]
fn help_runs_kubectl_once() {
    let bed = Bed::unreachable();
    let ran = bed.run(&["-C", "m1,m2", "get", "--help"]);
    assert_eq!((ran.code, ran.arguments()), (Some(42), vec!["get", "--help"]));
}

#[test]
fn cluster_names_are_colored_only_on_request() {
    let bed = Bed::with_kubectl("echo x");
    assert!(!bed.run(&["-C", "m1,m2", "describe", "x"]).out.contains('\x1b'));
    let ran = bed.run(&["--color=always", "-C", "m1,m2", "describe", "x"]);
    assert_eq!(ran.out, "\x1b[36mm1\x1b[0m | x\n\x1b[33mm2\x1b[0m | x\n");
}

fn kill(signal: &str, process: &str) {
    assert!(Command::new("kill").args([signal, process]).status().unwrap().success());
}

fn wait_until_gone(process: &str) {
    let state = format!("/proc/{}/stat", process.trim());
    // A zombie that init has not reaped yet counts as gone.
    while fs::read_to_string(&state).is_ok_and(|stat| !stat.contains(") Z ")) {
        std::thread::yield_now();
    }
}
