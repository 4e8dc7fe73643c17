//! Tests shell completion: the answers of `kubectl mc __complete`, also when the host is down, and how real
//! shells show them.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::bed::{Answer, Bed, Ran, status};

mod contexts;
mod hostile_names;
mod install;
mod shells;

const LIST: &str = r#"{"kind": "ClusterList", "apiVersion": "proxy.kubectl-mc.dev/v1alpha1", "items": [
  {"metadata": {"name": "eu-1", "labels": {"env": "prod"}}, "status": {"version": "v1.34.4"}},
  {"metadata": {"name": "eu-2", "labels": {"env": "prod"}}, "status": {"conditions": [
    {"type": "Ready", "status": "False", "reason": "Unreachable"}]}},
  {"metadata": {"name": "us-1"}}]}"#;

/// A kubectl that answers a completion with its arguments and the cluster of its kubeconfig.
const KUBECTL: &str = r#"[ "$1" = __complete ] || exit 1
for word in "$@"; do printf '%s+' "$word"; done
echo "on:$cluster"
echo :4"#;

/// A host with three clusters.
fn bed() -> Bed {
    let bed = Bed::answering((200, "application/json", LIST.to_owned()));
    bed.kubectl(KUBECTL);
    bed
}

/// The candidates for the last word, without their descriptions, and the directive.
pub(crate) fn complete(bed: &Bed, words: &[&str]) -> Vec<String> {
    candidates(&patient(bed, &[&["__complete"], words].concat()).output().unwrap().into())
}

/// The plugin with a timeout for completions that is long enough for a busy machine.
fn patient(bed: &Bed, words: &[&str]) -> Command {
    let mut command = bed.command(words);
    command.env("KUBECTL_MC_COMPLETION_TIMEOUT", "60s");
    command
}

fn candidates(ran: &Ran) -> Vec<String> {
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    ran.out.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn clusters_complete_wherever_they_are_named() {
    let bed = bed();
    fs::create_dir_all(bed.path("home/.config/kubectl-mc")).unwrap();
    fs::write(bed.path("home/.config/kubectl-mc/config.yaml"), "sets: {europe: {clusters: ['eu-*']}}\n")
        .unwrap();
    for (line, expected) in [
        ("-C |", "eu-1 eu-2 us-1 @europe :4"),
        ("-C |eu", "eu-1 eu-2 :4"),
        ("get pods -C |us", "us-1 :4"),
        ("--cluster |u", "us-1 :4"),
        // The output format that kubectl does not have.
        ("get pods -o |nd", "ndjson :4"),
        ("get pods --output=|nd", "ndjson :4"),
        ("top pods -o |nd", ":4"),
        ("--cluster=|u", "us-1 :4"),
        ("get --exclude=|eu-2", "eu-2 :4"),
        ("-C|u", "-Cus-1 :4"),
        ("-C |@", "@europe :4"),
        // Completion of a list offers only names that it does not contain yet.
        ("-C |eu-1,", "eu-1,eu-2 eu-1,us-1 eu-1,@europe :4"),
        ("-C |@europe,!eu-1,!", "@europe,!eu-1,!eu-2 @europe,!eu-1,!us-1 :4"),
        // A pattern has no candidates.
        ("-C |eu-*", ":4"),
        ("-C |/^eu,", ":4"),
        ("use |", "eu-1 eu-2 us-1 :4"),
        ("clusters eu-1 |u", "us-1 :4"),
        ("unjoin |us", "us-1 :4"),
        ("access explain |us", "us-1 :4"),
        ("access grant us-1 |", "view edit admin cluster-admin :4"),
        // Words after `--` do not belong to the plugin.
        ("exec web -- sh -C |", "__complete+exec+web+--+sh+-C++on:eu-1 :4"),
    ] {
        let line = if line.contains("-- sh") { format!("-C eu-1 {line}") } else { line.to_owned() };
        let (before, typed) = line.split_once('|').unwrap();
        let last = before.rsplit(' ').next().unwrap();
        let typed = format!("{last}{typed}");
        let words: Vec<_> = before.strip_suffix(last).unwrap().split_whitespace().chain([&*typed]).collect();
        assert_eq!(complete(&bed, &words).join(" "), expected, "{line}");
    }
    let described = bed.run(&["__complete", "-C", "eu"]).out;
    assert_eq!(described, "eu-1\tv1.34.4\neu-2\tnot ready\n:4\n");
}

#[test]
fn verbs_and_flags_come_from_the_parser() {
    let bed = bed();
    // kubectl's verbs are known without kubectl.
    bed.script("bin/kubectl", "#!/bin/sh\nexit 1\n");
    for (words, some, none) in [
        (
            &[""][..],
            &["clusters", "use", "access", "completion", "get", "rollout"][..],
            &["config", "mc"][..],
        ),
        (&["acc"], &["access"], &["apply"]),
        (&["access", ""], &["grant", "explain"], &["get"]),
        (&["completion", ""], &["bash", "install"], &["get"]),
        (&["completion", "install", ""], &["zsh"], &["install"]),
        (&["--"], &["--cluster", "--batch", "--dry-run="], &["-C"]),
        (&["-"], &["--cluster", "-C"], &[]),
        (&["get", "--"], &["--cluster", "--yes"], &["--dry-run=", "--version"]),
        // After the verb of another plugin, only these belong to this plugin.
        (&["neat", "--"], &["--cluster", "--context"], &["--yes"]),
        (&["install", "--"], &["--image", "--context"], &["--cluster", "--batch"]),
        (&["access", "grant", ""], &["view", "edit", "admin", "cluster-admin", "eu-1"], &[":1"]),
        (&["access", "revoke", "eu-1", "v"], &["view"], &["edit", "eu-1"]),
        (&["access", "grant", "--u"], &["--user"], &["--cluster"]),
        (&["tail", "--exclude"], &["--exclude-pod", "--exclude"], &[]),
        (&["--color", ""], &["auto", "always", "never"], &[]),
        (&["get", "--route="], &["auto", "host", "direct"], &[]),
        (&["--dry-run="], &["clusters"], &[]),
        (&["--dry"], &["--dry-run=", ":6"], &[]),
        (&["--kubeconfig", ""], &[":0"], &[":4"]),
        (&["join", "m4", "--member-kubeconfig", ""], &[":0"], &[":4"]),
    ] {
        let found = complete(&bed, words);
        let has = |word: &&str| found.iter().any(|other| other == word);
        assert!(some.iter().all(has) && !none.iter().any(has), "{words:?}: {found:?}");
    }
}

#[test]
fn kubectl_completes_the_rest_on_the_member() {
    let bed = bed();
    for (words, expected) in [
        (&["-C", "us-1", "get", "pods", "-n", "shop", ""][..], "get+pods+-n+shop++on:us-1"),
        (&["get", "pods", "-C", "us-1", "we"], "get+pods+we+on:us-1"),
        (&["logs", "web", "-c", "", "-C", "us-1"], "logs+web+-c++on:us-1"),
        (&["get", "--namespace=sh", "-C", "us-1"], "get+--namespace=sh+on:us-1"),
        (&["compare", "get", "-C", "us-1", "dep"], "get+dep+on:us-1"),
        (&["tail", "-C", "us-1", "we"], "logs+we+on:us-1"),
        // Of several clusters, the first that the host does not report as down is used.
        (&["-C", "eu-*", "get", "pods", ""], "get+pods++on:eu-1"),
        (&["-C", "eu-2,us-1", "get", "pods", ""], "get+pods++on:us-1"),
        (&["--cluster-selector=env=prod", "get", "pods", ""], "get+pods++on:eu-1"),
    ] {
        // The last word is the one to complete.
        let at = words.iter().position(|word| words.ends_with(&["-C", "us-1"]) && *word == "-C");
        let (words, moved) = at.map_or((words, &[][..]), |at| words.split_at(at));
        let line = [moved, words].concat();
        let found = complete(&bed, &line);
        assert_eq!(found, [&format!("__complete+{expected}"), ":4"], "{line:?}");
    }
    assert_eq!(bed.run(&["use", "eu-1"]).code, Some(0));
    assert_eq!(complete(&bed, &["get", "pods", ""])[0], "__complete+get+pods++on:eu-1");
    let mut by_variable = patient(&bed, &["__complete", "get", "pods", ""]);
    let by_variable = by_variable.env("KUBECTL_MC_CLUSTER", "us-1").output().unwrap();
    assert_eq!(candidates(&by_variable.into())[0], "__complete+get+pods++on:us-1");
    bed.run(&["use", "--unset"]);
    assert_eq!(complete(&bed, &["get", "pods", ""]), [":4"], "the host is no member");
    // A completion does not count as a visit to the cluster, after which commands send fewer requests.
    assert!(bed.left().iter().all(|file| file.starts_with("completion-")), "{:?}", bed.left());
}

#[test]
fn cached_names_are_used_when_the_host_is_down() {
    let is_up = Arc::new(AtomicBool::new(true));
    let bed = Bed::serving({
        let is_up = is_up.clone();
        move |_| match is_up.load(Ordering::Relaxed) {
            true => Answer::from((200, "application/json", LIST.to_owned())),
            false => status(503, "host", "down"),
        }
    });
    let names = ["eu-1", "eu-2", "us-1", ":4"];
    assert_eq!(complete(&bed, &["-C", ""]), names);
    assert_eq!(bed.requests().len(), 1);
    assert_eq!(complete(&bed, &["-C", ""]), names);
    assert!(bed.requests().is_empty(), "the answer is fresh");
    let cached = || {
        let mut files = fs::read_dir(bed.path("home/.cache/kubectl-mc")).unwrap();
        let file = files
            .find(|file| file.as_ref().unwrap().file_name().to_str().unwrap().starts_with("completion-"));
        fs::OpenOptions::new().write(true).open(file.unwrap().unwrap().path()).unwrap()
    };
    let age = |hours: u64| SystemTime::now() - Duration::from_secs(hours * 60 * 60);
    cached().set_modified(age(1)).unwrap();
    is_up.store(false, Ordering::Relaxed);
    assert_eq!(complete(&bed, &["-C", ""]), names);
    assert_eq!(bed.requests().len(), 1, "it was asked first");
    cached().set_modified(age(25)).unwrap();
    assert_eq!(complete(&bed, &["-C", ""]), [":4"]);
}

#[test]
fn completion_times_out_on_a_silent_host_or_kubectl() {
    let bed = Bed::streaming(|_, stream| stream.hold());
    // The reader of the pipe sees its end when the last process of kubectl has exited.
    assert!(Command::new("mkfifo").arg(bed.path("pipe")).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = bed.path("pipe");
        move || fs::read_to_string(pipe).unwrap()
    });
    bed.script("bin/kubectl", "#!/bin/sh\nexec >pipe\n(: >started; exec sleep 1000000) & wait\n");
    let begun = std::time::Instant::now();
    // This run has the default timeout of a completion.
    assert_eq!(candidates(&bed.run(&["__complete", "-C", ""])), [":4"]);
    // A busy machine may need more than one attempt to start kubectl.
    while !bed.path("started").exists() {
        assert_eq!(candidates(&bed.run(&["__complete", "-C", "us-1", "get", "pods", ""])), [":4"]);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
    assert_eq!(reader.join().unwrap(), "");
}

#[test]
fn credential_plugin_cannot_prompt() {
    let bed = bed();
    bed.secure();
    let kubeconfig = bed.read("kubeconfig").replace(
        r#"{"token":"secret"}"#,
        r#"{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "IfAvailable"}}"#,
    );
    fs::write(bed.path("kubeconfig"), kubeconfig).unwrap();
    bed.script(
        "bin/login",
        r#"#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" >info
echo "Password: " >&2
read answer && exit 1
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}'
"#,
    );
    let command = patient(&bed, &["__complete", "-C", ""]);
    let terminal = harness::pty::Terminal::of(&command, 24, 100).unwrap();
    let (code, screen) = terminal.end(Duration::from_secs(60)).unwrap();
    assert_eq!((code, screen.as_str()), (0, "eu-1    v1.34.4\neu-2    not ready\nus-1\n:4\n"));
    assert!(bed.read("info").contains(r#""interactive":false"#), "{}", bed.read("info"));
}

#[test]
fn wrong_command_line_has_no_candidates() {
    let bed = bed();
    for words in [
        &["--color=x", "-C", ""][..],
        &["--no-such", ""],
        &["-C", "A B", "get", ""],
        &["--context=none", "-C", ""],
        &[],
    ] {
        let found = complete(&bed, words);
        assert_eq!(found.last().map(String::as_str), Some(":4"), "{words:?}");
        assert!(found.len() == 1 || words[0] == "--no-such", "{words:?}: {found:?}");
    }
    fs::create_dir_all(bed.path("home/.config/kubectl-mc")).unwrap();
    fs::write(bed.path("home/.config/kubectl-mc/config.yaml"), "nonsense: 1\n").unwrap();
    assert_eq!(complete(&bed, &["-C", ""]), [":4"]);
}

/// The plugin in `PATH`, as kubectl and the scripts find it.
fn put_in_path(bed: &Bed) {
    symlink(env!("CARGO_BIN_EXE_kubectl-mc"), bed.path("bin/kubectl-mc")).unwrap();
}
