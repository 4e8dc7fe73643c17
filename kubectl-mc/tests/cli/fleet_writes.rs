//! Tests commands that change several clusters: their confirmation, their batches and the retry of failed
//! clusters.

use std::fs;
use std::process::{Command, Stdio};

use crate::bed::Bed;

#[test]
fn without_terminal_changes_need_yes() {
    let bed = Bed::with_kubectl("echo changed");
    for words in [
        &["delete", "pod", "x"][..],
        &["apply", "-f", "x"],
        &["scale", "deploy/x", "--replicas=0"],
        &["rollout", "restart", "deploy/x"],
        &["exec", "x", "--", "ls"],
        &["some-plugin"],
    ] {
        let ran = bed.run(&[&["-C", "m1,m2"], words].concat());
        let is_plugin = words[0] == "some-plugin";
        let place = if is_plugin { " before some-plugin" } else { "" };
        let said = format!(
            "error: refusing to change 2 clusters without confirmation: there is no terminal to ask at\n\
             hint: --yes{place} changes them; --dry-run=clusters shows what would be done\n"
        );
        assert_eq!(ran.failed(), (2, said.as_str()), "{words:?}");
        for yes in ["--yes", "-y"] {
            let before = bed.run(&[&[yes, "-C", "m1,m2"], words].concat());
            let after = bed.run(&[&["-C", "m1,m2"], &words[..1], &[yes], &words[1..]].concat());
            let runs = if is_plugin { vec![before] } else { vec![before, after] };
            for ran in runs {
                assert_eq!(
                    (ran.code, ran.out.as_str()),
                    (Some(0), "m1 | changed\nm2 | changed\n"),
                    "{words:?}"
                );
            }
        }
    }
}

#[test]
fn reads_and_dry_runs_need_no_confirmation() {
    let bed = Bed::with_kubectl("echo read").by_kubectl();
    for words in [
        &["describe", "x"][..],
        &["apply", "-f", "x", "--dry-run=server"],
        &["delete", "pod", "x", "--dry-run=client"],
        &["rollout", "status", "x"],
        &["auth", "can-i", "delete", "pods"],
    ] {
        let ran = bed.run(&[&["-C", "m1,m2"], words].concat());
        assert_eq!(ran.code, Some(0), "{words:?} {ran:?}");
        assert_eq!(ran.out.lines().count(), 2, "{words:?} {ran:?}");
    }
}

#[test]
fn read_only_refuses_changes_on_one_cluster_too() {
    let bed = Bed::with_kubectl("echo ran").by_kubectl();
    for words in [
        &["-C", "m1", "delete", "pod", "x"][..],
        &["-C", "m1,m2", "--yes", "port-forward", "x", "1"],
        &["join", "m9"],
        &["access", "grant", "view"],
    ] {
        let ran = bed.run_with("KUBECTL_MC_READONLY", "1", words);
        let (code, text) = ran.failed();
        assert_eq!(code, 2, "{text}");
        assert!(text.contains("KUBECTL_MC_READONLY allows only commands that read\n"), "{text}");
    }
    for words in [&["-C", "m1", "get", "pods"][..], &["-C", "m1", "apply", "--dry-run=server"]] {
        assert_eq!(bed.run_with("KUBECTL_MC_READONLY", "1", words).out, "ran\n", "{words:?}");
    }
    assert_eq!(bed.run_with("KUBECTL_MC_READONLY", "0", &["-C", "m1", "delete", "pod", "x"]).out, "ran\n");
}

#[test]
fn batches_run_in_order_and_stop_at_a_failure() {
    let bed = Bed::with_kubectl(
        "ls began.* 2>/dev/null | wc -l > before.$cluster; : > began.$cluster; [ $cluster != m2 ]",
    );
    let all = "m1,m2,m3,m4,m5";
    let no_wait = "--no-batch-wait";
    let words =
        ["--yes", "--batch", "1,40%,rest", no_wait, "--pause-on-failure", "-C", all, "apply", "-f", "a b"];
    let ran = bed.run(&words);
    let go_on = [
        "--retry-failed",
        "--yes",
        "--batch",
        "1,40%,rest",
        no_wait,
        "--pause-on-failure",
        "apply",
        "-f",
        "'a b'",
    ];
    let summary = "1 of 5 clusters failed: 1 failed (m2); 2 not begun (m4, m5)";
    assert_eq!(
        (ran.code, ran.err),
        (Some(4), format!("{summary}\ncontinue with: kubectl mc {}\n", go_on.join(" ")))
    );
    let before = |cluster: &str| {
        let count = fs::read_to_string(bed.path(&format!("before.{cluster}")));
        count.ok().map(|count| count.trim().parse::<usize>().unwrap())
    };
    assert_eq!(before("m1"), Some(0));
    assert!(before("m2") >= Some(1) && before("m3") >= Some(1));
    assert_eq!((before("m4"), before("m5")), (None, None));
    // The printed command continues with the failed cluster and the rest.
    bed.kubectl("echo done");
    let go_on: Vec<_> = go_on.iter().map(|word| word.trim_matches('\'')).collect();
    assert_eq!(bed.run(&go_on), crate::bed::Ran::new(0, "m2 | done\nm4 | done\nm5 | done\n", ""));
}

#[test]
fn paused_batches_without_success_are_all_failed() {
    let bed = Bed::with_kubectl("exit 1");
    let ran = bed.run(&["--yes", "--batch=1", "--pause-on-failure", "-C", "m1,m2", "apply", "-f", "x"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.err.starts_with("1 of 2 clusters failed: 1 failed (m1); 1 not begun (m2)\n"), "{ran:?}");
}

#[test]
fn retry_failed_runs_only_failed_clusters() {
    let bed = Bed::with_kubectl("echo tried; [ $cluster = m1 ] || [ -e mended ]");
    assert_eq!(bed.run(&["-C", "m1,m2,m3", "describe", "x"]).code, Some(4));
    fs::write(bed.path("mended"), "").unwrap();
    let ran = bed.run(&["--retry-failed", "describe", "x"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "m2 | tried\nm3 | tried\n"));
    assert_eq!(
        bed.run(&["--retry-failed", "describe", "x"]).failed(),
        (3, "error: no cluster failed last time\n")
    );
}

#[test]
fn later_batches_get_a_new_credential() {
    // kubectl's output: the token in its kubeconfig.
    let bed = Bed::with_kubectl("grep -o 'token-[0-9]*' \"${KUBECONFIG%%:*}\"");
    for (expires, tokens) in [("2020-01-01T00:00:00Z", ["2", "3"]), ("2999-01-01T00:00:00Z", ["1", "1"])] {
        let status =
            format!("\\\"token\\\": \\\"token-$n\\\", \\\"expirationTimestamp\\\": \\\"{expires}\\\"");
        bed.credential_plugin(&format!(
            "echo run >> runs; n=$(wc -l < runs); echo \"{{\\\"apiVersion\\\": \\\"client.authentication.k8s.io/v1\\\", \\\"status\\\": {{{status}}}}}\""
        ));
        let ran = bed.run(&["-C", "m1,m2", "--yes", "--batch=1", "delete", "pod", "x"]);
        let [first, second] = tokens;
        assert_eq!(ran.out, format!("m1 | token-{first}\nm2 | token-{second}\n"), "{ran:?}");
        fs::remove_file(bed.path("runs")).unwrap();
    }
}

#[test]
fn only_the_same_change_is_retried() {
    let bed = Bed::with_kubectl("echo tried; [ -e mended ]");
    assert_eq!(bed.run(&["-C", "m1,m2", "--yes", "delete", "pod", "x"]).code, Some(5));
    // Another command of the same user, perhaps in another shell.
    assert_eq!(bed.run(&["-C", "m3,m4", "describe", "x"]).code, Some(5));
    let other = bed.run(&["--retry-failed", "--yes", "delete", "pod", "y"]);
    assert_eq!(
        other.failed(),
        (
            3,
            "error: another command failed last: \"delete pod x\"\n\
             hint: a change is retried as it was; choose the clusters: kubectl mc --cluster=NAMES delete pod y\n"
        )
    );
    fs::write(bed.path("mended"), "").unwrap();
    assert_eq!(bed.run(&["-C", "m3,m4", "describe", "x"]).code, Some(0));
    let same = bed.run(&["--retry-failed", "--yes", "delete", "pod", "x"]);
    assert_eq!((same.code, same.out.as_str()), (Some(0), "m1 | tried\nm2 | tried\n"), "{same:?}");
}

#[test]
fn interrupted_change_is_retried_where_it_did_not_succeed() {
    let bed = Bed::with_kubectl("exit 1");
    assert_eq!(bed.run(&["-C", "m1,m2", "--yes", "apply", "-f", "x"]).code, Some(5));
    bed.kubectl("[ $cluster != m3 ] || { : > hung; exec sleep 1000; }");
    let mut command = bed.command(&["-C", "m2,m3,m4", "--yes", "--batch=1", "delete", "pod", "x"]);
    let mut child = command.spawn().unwrap();
    while !bed.path("hung").exists() {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let ran = bed.run(&["--retry-failed", "--dry-run=clusters", "delete", "pod", "x"]);
    let clusters: Vec<_> = ran.out.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(clusters, ["m3", "m4"], "{ran:?}");
}

/// Its output waits for that of the clusters before it.
#[test]
fn interrupted_change_succeeded_where_kubectl_did() {
    let bed = Bed::with_kubectl(
        "[ $cluster != m2 ] || { echo $$ > started; mv started m2; exit 0; }; exec sleep 1000",
    );
    let mut command = bed.command(&["-C", "m1,m2,m3", "--yes", "delete", "pod", "x"]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    while !bed.path("m2").exists() {
        std::thread::yield_now();
    }
    let kubectl = bed.read("m2");
    let is_there = || Command::new("kill").args(["-0", kubectl.trim()]).output().unwrap().status.success();
    while is_there() {}
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    let said = String::from_utf8(ended.stderr).unwrap();
    let summary = "interrupted: 1 succeeded (m2), 2 unfinished (m1, m3)\n\
                   continue with: kubectl mc --retry-failed --yes delete pod x\n";
    assert!(said.ends_with(summary), "{said}");
    let ran = bed.run(&["--retry-failed", "--dry-run=clusters", "delete", "pod", "x"]);
    let clusters: Vec<_> = ran.out.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(clusters, ["m1", "m3"], "{ran:?}");
}
