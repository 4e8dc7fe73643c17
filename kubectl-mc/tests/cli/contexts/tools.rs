//! Tests `env` and `shell` with contexts instead of members.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;

use super::{bed, kubeconfig, rendered};

/// A command for `shell` that prints the overlay and the other files of KUBECONFIG.
const SHOWS: &[&str] =
    &["--", "sh", "-c", r#"cat "${KUBECONFIG%%:*}"; echo "in $KUBECTL_MC_SHELL: ${KUBECONFIG#*:}"; exit 3"#];

#[test]
fn shell_of_a_context_uses_its_own_server_and_user() {
    let bed = bed();
    let ran = bed.run(&[&["--contexts", "shell", "kind-a"], SHOWS].concat());
    assert_eq!(ran, bed.run(&[&["shell", "context:kind-a"], SHOWS].concat()));
    assert_eq!((ran.code, ran.err.as_str()), (Some(3), ""), "{ran:?}");
    let out = ran.out.replace(bed.server(), "SERVER").replace(bed.path("").to_str().unwrap(), "BED/");
    assert_snapshot!(out, @r"
        apiVersion: v1
        clusters:
        - cluster:
            server: SERVER/a
          name: mc/kind-a
        contexts:
        - context:
            cluster: mc/kind-a
            extensions:
            - extension:
                context: kind-a
              name: kubectl-mc.dev/host
            namespace: web
            user: ann
          name: mc/kind-a
        current-context: mc/kind-a
        kind: Config
        users: []
        in kind-a: BED/kubeconfig
        ");
    assert!(bed.requests().is_empty(), "no cluster is asked");
}

#[test]
fn env_of_contexts_keeps_each_user_and_holds_no_secret() {
    let bed = bed();
    let ran = bed.run(&["env", "--contexts", "-C", "arn:*,kind-a"]);
    let overlay = ran.out.strip_prefix("export KUBECONFIG='").unwrap().split(':').next().unwrap();
    let text = fs::read_to_string(overlay).unwrap();
    assert!(text.contains("current-context: mc/arn:aws:eks:eu-1:1:cluster/B\n"), "{text}");
    assert!(text.contains("user: ann\n") && text.contains("user: ben\n"), "{text}");
    assert!(!text.contains("token") && text.ends_with("users: []\n"), "{text}");
    // The contexts of the overlay do not count as further clusters.
    let list = format!(
        "KUBECONFIG={overlay}:{} \"$0\" clusters --contexts -o name",
        bed.path("kubeconfig").display()
    );
    let ran =
        bed.run(&["shell", "context:closed", "--", "sh", "-c", &list, env!("CARGO_BIN_EXE_kubectl-mc")]);
    assert_eq!(ran.out, "arn:aws:eks:eu-1:1:cluster/B\nclosed\nkind-a\n", "{ran:?}");
}

#[test]
fn member_and_context_share_a_shell() {
    let bed = bed();
    let host = bed.read("kubeconfig").replacen('{', r#"{"current-context": "kind-a", "#, 1);
    fs::write(bed.path("kubeconfig"), host).unwrap();
    let ran = bed.run(&[&["shell", "m1,context:arn:*"], SHOWS].concat());
    assert!(ran.out.contains("/a/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy\n"), "{ran:?}");
    assert!(ran.out.contains(&format!("server: {}/b\n", bed.server())), "{ran:?}");
    assert!(ran.out.contains("in m1,arn:aws:eks:eu-1:1:cluster/B: "), "{ran:?}");
}

#[test]
fn shell_error_names_the_contexts() {
    let bed = bed();
    assert_snapshot!(rendered(&bed.run(&["--contexts", "shell"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no context chosen
    hint: choose by an argument, -C NAME or --context-selector; there are arn:aws:eks:eu-1:1:cluster/B, closed, kind-a
    ");
    assert_snapshot!(rendered(&bed.run(&["--contexts", "env", "kind-b"])), @r"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: context unknown: kind-b
    hint: did you mean kind-a?
    ");
}

#[test]
fn hostile_context_name_runs_no_command_in_the_prompt() {
    let bed = bed();
    kubeconfig(&bed, &[("x'; touch made; $(touch made) `touch made` \\", "a", json!({"token": "t"}))]);
    // Without this folder, fish first reads every man page, with a program that keeps the terminal
    // open.
    fs::create_dir_all(bed.path("home/.local/share/fish/generated_completions")).unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let mut command = bed.command(&["shell", "--contexts", "-C", "x*"]);
        command.env("SHELL", shell);
        let mut terminal = harness::pty::Terminal::of(&command, 24, 100).unwrap();
        let shows = |terminal: &mut harness::pty::Terminal, text: &str| {
            let deadline = std::time::Duration::from_secs(60);
            terminal.wait_until(text, deadline, |terminal| terminal.screen().contains(text)).unwrap();
        };
        shows(&mut terminal, "(x___touch_made____touch_made___touch_made___)");
        terminal.type_in("exit\n").unwrap();
        terminal.finish(std::time::Duration::from_secs(60)).unwrap();
        assert!(!bed.path("made").exists(), "{shell} ran a part of the name");
    }
}
