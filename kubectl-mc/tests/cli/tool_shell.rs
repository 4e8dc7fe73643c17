//! Tests `kubectl mc shell`, which runs a shell or a command whose tools use a cluster.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use harness::pty::Terminal;
use rustix::process::{Pid, Signal, kill_process};

use crate::bed::Bed;

const LIST: &str =
    r#"{"kind": "ClusterList", "items": [{"metadata": {"name": "m1"}}, {"metadata": {"name": "m2"}}]}"#;
const DEADLINE: Duration = Duration::from_secs(60);

fn bed() -> Bed {
    Bed::answering((200, "application/json", LIST.to_owned()))
}

/// The number of run folders that are left.
fn runs(bed: &Bed) -> usize {
    let entries = fs::read_dir(bed.path("home/.local/state/kubectl-mc")).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("run-")).count()
}

#[test]
fn command_runs_on_the_cluster_and_sets_the_exit_code() {
    let bed = bed();
    let script = r#"cat "${KUBECONFIG%%:*}"; echo "in $KUBECTL_MC_SHELL, $1"; exit 7"#;
    let ran = bed.run(&["shell", "m1", "--", "sh", "-c", script, "sh", "--cluster=x"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(7), ""), "{ran:?}");
    assert!(ran.out.contains("current-context: mc/m1\n") && !ran.out.contains("secret"), "{ran:?}");
    assert!(ran.out.ends_with("in m1, --cluster=x\n"), "{ran:?}");
    assert_eq!(runs(&bed), 0, "the kubeconfig is removed");
    let kubectl = bed.run(&["shell", "-C", "m2", "--", "kubectl", "get", "pods"]);
    assert_eq!((kubectl.code, kubectl.arguments()), (Some(42), vec!["get", "pods"]));
    assert_eq!(kubectl.kubeconfig().1, bed.path("kubeconfig").to_str().unwrap());
}

#[test]
fn failed_command_has_the_exit_code_of_a_shell() {
    let bed = bed();
    let ran = bed.run(&["shell", "m1", "--", "no-such-program"]);
    assert_eq!(
        ran.failed(),
        (127, "error: cannot start no-such-program: No such file or directory (os error 2)\n")
    );
    assert_eq!(bed.run(&["shell", "m1", "--", bed.path("kubeconfig").to_str().unwrap()]).failed().0, 126);
    assert_eq!(bed.run(&["shell", "m1", "--", "sh", "-c", "kill -KILL $$"]).code, Some(137));
    assert_eq!(runs(&bed), 0);
}

#[test]
fn read_only_mode_refuses_a_shell() {
    let bed = bed();
    let ran = bed.run_with("KUBECTL_MC_READONLY", "1", &["shell", "m1", "--", "true"]);
    let said = "error: refusing `shell`: KUBECTL_MC_READONLY allows only commands that read\nhint: unset KUBECTL_MC_READONLY\n";
    assert_eq!(ran.failed(), (2, said));
    assert_eq!(bed.run_with("KUBECTL_MC_READONLY", "1", &["env", "m1"]).code, Some(0));
}

#[test]
fn signal_reaches_the_command_and_removes_the_kubeconfig() {
    let bed = bed();
    for (signal, code) in [(Signal::TERM, 3), (Signal::HUP, 4)] {
        let script = "trap 'exit 3' TERM; trap 'exit 4' HUP; echo ready; read line";
        let mut command = bed.command(&["shell", "m1", "--", "sh", "-c", script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Waiting for a child closes its standard input, which would end the script.
        let _input = child.stdin.take();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!((line.as_str(), runs(&bed)), ("ready\n", 1));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal:?}");
        assert_eq!(runs(&bed), 0, "{signal:?}");
    }
}

fn shell(bed: &Bed, program: &str) -> Terminal {
    let mut command = bed.command(&["shell", "m1"]);
    command.env("SHELL", program);
    Terminal::of(&command, 24, 100).unwrap()
}

fn shows(terminal: &mut Terminal, text: &str) {
    terminal.wait_until(text, DEADLINE, |terminal| terminal.screen().contains(text)).unwrap();
}

#[test]
fn bash_shows_the_cluster_in_its_own_prompt() {
    let bed = bed();
    fs::create_dir_all(bed.path("home")).unwrap();
    // The user's `.bashrc` sets its own KUBECONFIG, and sets the prompt again before each command.
    let own = "export KUBECONFIG=/elsewhere\nPROMPT_COMMAND='PS1=\"own\\$ \";'\n";
    fs::write(bed.path("home/.bashrc"), own).unwrap();
    let mut terminal = shell(&bed, "/bin/bash");
    shows(&mut terminal, "(m1) own");
    let screen = terminal.screen();
    assert!(
        screen.starts_with("tools of this shell use m1 of context \"host\" (http://127.0.0.1:"),
        "{screen}"
    );
    // Ctrl-C ends the command and not the shell. It is not typed at the prompt, where bash sometimes delays
    // it until the next key.
    terminal.type_in("sh -c 'echo run\"\"ning; exec sleep 1000'\n").unwrap();
    shows(&mut terminal, "running");
    terminal.type_in("\x03").unwrap();
    let prompts = |terminal: &Terminal| terminal.screen().matches("(m1) own").count();
    terminal.wait_until("a second prompt", DEADLINE, |terminal| prompts(terminal) == 2).unwrap();
    terminal.type_in("clear; kubectl get pods </dev/null\n").unwrap();
    shows(&mut terminal, "/run-");
    let plugin = env!("CARGO_BIN_EXE_kubectl-mc");
    terminal
        .type_in(&format!("clear; {plugin} shell m2 -- true; SHELL=/bin/sh {plugin} shell m2\n"))
        .unwrap();
    shows(&mut terminal, "note: this shell is inside the one of m1");
    terminal.type_in("exit 5\n").unwrap();
    terminal.type_in("exit $?\n").unwrap();
    let (code, screen) = terminal.end(DEADLINE).unwrap();
    assert_eq!(code, 5, "{screen}");
    assert_eq!(runs(&bed), 0);
}
