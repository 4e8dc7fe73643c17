//! Tests the screen of a real terminal: the picker of clusters, the progress line, and the confirmation
//! before a change.

use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

use harness::pty::Terminal;
use insta::assert_snapshot;
use rustix::process::Signal;

use crate::bed::Bed;
use crate::hubs;

const LIST: &str = r#"{"kind": "ClusterList", "apiVersion": "proxy.kubectl-mc.dev/v1alpha1", "items": [
  {"metadata": {"name": "eu-1", "labels": {"env": "prod"}}},
  {"metadata": {"name": "eu-2", "labels": {"env": "prod", "tier": "one"}}, "status": {"version": "v1.34.4"}},
  {"metadata": {"name": "us-1"}, "status": {"conditions": [
    {"type": "Ready", "status": "False", "reason": "Unreachable", "message": "no route to host"}]}}]}"#;

const DEADLINE: Duration = Duration::from_secs(60);

/// A host with three clusters, and a kubectl that runs `script`.
fn fleet(script: &str) -> Bed {
    let bed = Bed::serving(|path| {
        let body = if path.contains("/clusters/") { "{}" } else { LIST };
        (200, "application/json", body.to_owned())
    });
    bed.kubectl(script);
    bed
}

fn terminal(bed: &Bed, words: &[&str]) -> Terminal {
    Terminal::of(&bed.command(words), 24, 100).unwrap()
}

fn shows(terminal: &mut Terminal, text: &str) {
    terminal.wait_until(text, DEADLINE, |terminal| terminal.screen().contains(text)).unwrap();
}

#[test]
fn picker_filters_by_typing_and_takes_several() {
    let bed = fleet("echo \"$1 on $cluster\"");
    let mut terminal = terminal(&bed, &["describe", "pod", "web"]);
    shows(&mut terminal, "Clusters:");
    assert_snapshot!(terminal.screen(), @r"
        NAME   READY     VERSION   LABELS
    >   eu-1   Unknown             env=prod
        eu-2   Unknown   v1.34.4   env=prod,tier=one
        us-1   False
    3/3, 0 marked; space marks, enter accepts, esc cancels
    Clusters:
    ");
    // The filter is fuzzy: the letters of eu-2 in their order. A marked cluster stays marked.
    terminal.type_in("e2 ").unwrap();
    shows(&mut terminal, "1/3, 1 marked");
    assert_snapshot!(terminal.screen(), @r"
        NAME   READY     VERSION   LABELS
    > * eu-2   Unknown   v1.34.4   env=prod,tier=one
    1/3, 1 marked; space marks, enter accepts, esc cancels
    Clusters: e2
    ");
    terminal.type_in("\x7f\x7f\x1b[B\x1b[B\x1b[A\x1b[A\t\r").unwrap();
    let (code, screen) = terminal.wait_for_end(DEADLINE).unwrap();
    assert_eq!(code, 0, "{screen}");
    assert_snapshot!(screen, @r"
    eu-1 | describe on eu-1
    eu-2 | describe on eu-2
    ");
    assert!(terminal.is_restored().unwrap());
}

#[test]
fn picked_cluster_runs_kubectl_on_the_terminal() {
    // Text that is typed after the choice goes to the command.
    let bed = fleet("read line; echo \"$1 $line on $cluster\"");
    let mut terminal = terminal(&bed, &["exec", "-it", "web", "--", "sh"]);
    shows(&mut terminal, "Clusters:");
    terminal.type_in("us\r").unwrap();
    terminal.wait_until("restored", DEADLINE, |terminal| !terminal.screen().contains("Clusters")).unwrap();
    terminal.type_in("id\n").unwrap();
    let (code, screen) = terminal.end(DEADLINE).unwrap();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("exec id on us-1"), "{screen}");
}

#[test]
fn canceled_picker_runs_nothing_and_clears_the_screen() {
    let bed = fleet(": > ran");
    for key in ["\x1b", "\x03", "\x04"] {
        let mut terminal = terminal(&bed, &["describe", "pod", "web"]);
        shows(&mut terminal, "Clusters:");
        assert!(!terminal.is_restored().unwrap(), "keys come one by one");
        terminal.type_in("e").unwrap();
        shows(&mut terminal, "Clusters: e");
        terminal.type_in(key).unwrap();
        let (code, screen) = terminal.wait_for_end(DEADLINE).unwrap();
        assert_eq!((code, screen.trim()), (130, ""), "{key:?}");
        assert!(terminal.is_restored().unwrap(), "{key:?}");
    }
    assert!(!bed.path("ran").exists());
}

#[test]
fn signal_restores_the_terminal_of_the_picker() {
    let bed = fleet(": > ran");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut terminal = terminal(&bed, &["describe", "pod", "web"]);
        shows(&mut terminal, "Clusters:");
        terminal.signal(signal).unwrap();
        let (code, screen) = terminal.wait_for_end(DEADLINE).unwrap();
        assert_eq!((code, screen.trim()), (130, ""), "{signal:?}");
        assert!(terminal.is_restored().unwrap(), "{signal:?}");
    }
    assert!(!bed.path("ran").exists());
}

#[test]
fn interrupt_after_the_picker_ends_the_confirmation() {
    let bed = fleet(": > ran");
    let mut terminal = terminal(&bed, &["delete", "pod", "web"]);
    shows(&mut terminal, "Clusters:");
    terminal.type_in("\x01\r").unwrap();
    shows(&mut terminal, "(y/N)");
    assert!(terminal.is_restored().unwrap());
    terminal.type_in("\x03").unwrap();
    // The signal itself ended the process.
    assert_eq!(terminal.finish(DEADLINE).unwrap(), -1);
    assert!(!bed.path("ran").exists());
}

/// The command starts again when the host turns out to be a hub of another project.
#[test]
fn interrupt_ends_the_confirmation_of_a_restarted_command() {
    let bed = hubs::karmada().bed();
    bed.kubectl(": > ran");
    let mut terminal = terminal(&bed, &["-C", "m1,m2", "delete", "pod", "web"]);
    shows(&mut terminal, "(y/N)");
    terminal.type_in("y\r").unwrap();
    terminal
        .wait_until("the second confirmation", DEADLINE, |terminal| {
            terminal.screen().matches("(y/N)").count() == 2
        })
        .unwrap();
    terminal.type_in("\x03").unwrap();
    assert_eq!(terminal.finish(DEADLINE).unwrap(), -1);
    assert!(!bed.path("ran").exists());
}

#[test]
fn picker_fits_the_terminal_and_follows_its_size() {
    let bed = fleet("echo \"$1 on $cluster\"");
    let mut terminal = Terminal::of(&bed.command(&["describe", "pod", "web"]), 5, 20).unwrap();
    shows(&mut terminal, "Clusters:");
    assert_snapshot!(terminal.screen(), @r"
        NAME   READY
    >   eu-1   Unknown
    3/3, 0 marked; spac
    Clusters:
    ");
    terminal.type_in("\x1b[B\x1b[B").unwrap();
    shows(&mut terminal, ">   us-1   False");
    terminal.resize(24, 60).unwrap();
    shows(&mut terminal, "3/3, 0 marked; space marks, enter accepts, esc cancels");
    terminal.type_in("\r").unwrap();
    let (code, screen) = terminal.end(DEADLINE).unwrap();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("describe on us-1"), "{screen}");
}

#[test]
fn picker_escapes_server_text() {
    let hostile = r#"{"kind": "ClusterList", "items": [{"metadata": {"name": "m1", "labels": {"a": "\u001b[31mred\u202e"}},
        "status": {"version": "v1\u001b]0;title\u0007\r\n"}}]}"#;
    let bed = Bed::answering((200, "application/json", hostile.to_owned()));
    let mut terminal = terminal(&bed, &["describe", "pod", "web"]);
    shows(&mut terminal, "Clusters:");
    assert_snapshot!(terminal.screen(), @r"
        NAME   READY     VERSION              LABELS
    >   m1     Unknown   v1^[]0;title^G\r\n   a=^[[31mred\u202e
    1/1, 0 marked; space marks, enter accepts, esc cancels
    Clusters:
    ");
    terminal.type_in("\x03").unwrap();
    assert_eq!(terminal.finish(DEADLINE).unwrap(), 130);
}

#[test]
fn dumb_terminal_gets_a_numbered_list() {
    let bed = fleet("echo \"$1 on $cluster\"");
    let mut command = bed.command(&["describe", "pod", "web"]);
    let mut terminal = Terminal::of(command.env("TERM", "dumb"), 24, 100).unwrap();
    shows(&mut terminal, "Clusters (numbers");
    assert_snapshot!(terminal.screen(), @r"
    1  eu-1   env=prod
    2  eu-2   env=prod,tier=one
    3  us-1      not ready
    Clusters (numbers, names or patterns, as in 1-3,5 or 'eu-*'; other text filters):
    ");
    terminal.type_in("7\r").unwrap();
    shows(&mut terminal, "7 is not among 1-3\nClusters (");
    terminal.type_in("1, eu-2\r").unwrap();
    let (code, screen) = terminal.end(DEADLINE).unwrap();
    assert_eq!(code, 0);
    assert!(screen.ends_with("eu-1 | describe on eu-1\neu-2 | describe on eu-2\n"), "{screen}");
}

#[test]
fn few_clusters_are_changed_after_a_yes() {
    let bed = fleet("echo \"$1 on $cluster\"");
    for (answer, expected) in [("n\r", 1), ("\r", 1), ("y\r", 0)] {
        let mut terminal = terminal(&bed, &["delete", "pod", "web", "-C", "eu-1,eu-2"]);
        shows(&mut terminal, "(y/N)");
        terminal.type_in(answer).unwrap();
        let (code, screen) = terminal.end(DEADLINE).unwrap();
        assert_eq!(code, expected, "{screen}");
        if answer == "y\r" {
            assert_snapshot!(screen.replace(&bed.host(), "HOST"), @r"
            This changes 2 clusters of HOST:
              eu-1, eu-2
            by:
              kubectl delete pod web
            Do you want to continue? (y/N): y
            eu-1 | delete on eu-1
            eu-2 | delete on eu-2
            ");
        }
    }
}

#[test]
fn more_than_ten_clusters_are_changed_after_their_number() {
    let bed = fleet(": > changed.$cluster; echo changed");
    let names: Vec<_> = (1..=11).map(|at| format!("m{at:02}")).collect();
    let choice = names.join(",");
    let words = ["rollout", "restart", "deploy/web", "-C", &choice];
    for answer in ["y\r", "10\r", "\r"] {
        let mut terminal = terminal(&bed, &words);
        shows(&mut terminal, "Type the number of clusters");
        terminal.type_in(answer).unwrap();
        let (code, screen) = terminal.end(DEADLINE).unwrap();
        assert_eq!(code, 1, "{screen}");
        if answer == "y\r" {
            assert_snapshot!(screen.replace(&bed.host(), "HOST"), @r"
            This changes 11 clusters of HOST:
              m01, m02, m03, m04, m05, m06, m07, m08, m09, m10, m11
            by:
              kubectl rollout restart deploy/web
            Type the number of clusters to go on: y
            error: nothing was changed
            ");
        }
    }
    assert!(!bed.path("changed.m01").exists());
    let mut terminal = terminal(&bed, &words);
    shows(&mut terminal, "Type the number of clusters");
    terminal.type_in("11\r").unwrap();
    let (code, screen) = terminal.end(DEADLINE).unwrap();
    assert_eq!(code, 0, "{screen}");
    assert!(names.iter().all(|name| bed.path(&format!("changed.{name}")).exists()));
}

#[test]
fn progress_shows_and_clears_on_slow_commands() {
    let bed = fleet("[ $cluster = eu-1 ] || while [ ! -e go ]; do sleep 0.05; done; echo \"$1 on $cluster\"");
    let mut terminal = terminal(&bed, &["describe", "pod", "web", "-C", "eu-1,eu-2"]);
    shows(&mut terminal, "1 of 2 clusters, waiting for eu-2");
    fs::write(bed.path("go"), "").unwrap();
    let (code, screen) = terminal.end(DEADLINE).unwrap();
    assert_eq!(code, 0, "{screen}");
    assert_snapshot!(screen, @r"
    eu-1 | describe on eu-1
    eu-2 | describe on eu-2
    ");
}

#[test]
fn interrupt_clears_progress_line() {
    let bed = fleet("exec sleep 1000");
    let mut terminal = terminal(&bed, &["describe", "pod", "web", "-C", "eu-1,eu-2"]);
    shows(&mut terminal, "0 of 2 clusters, waiting for eu-1, eu-2");
    terminal.type_in("\x03").unwrap();
    let (code, screen) = terminal.end(DEADLINE).unwrap();
    assert_eq!((code, screen.trim()), (130, ""));
}

#[test]
fn signal_clears_the_step_of_an_installation() {
    let bed = Bed::streaming(|_, stream| stream.hold());
    for key in [Some("\x03"), None] {
        let mut terminal = terminal(&bed, &["install", "--image=i"]);
        shows(&mut terminal, "checking the host");
        match key {
            Some(key) => terminal.type_in(key).unwrap(),
            None => terminal.signal(Signal::TERM).unwrap(),
        }
        let (code, screen) = terminal.wait_for_end(DEADLINE).unwrap();
        // The signal itself ended the process, as a shell expects it.
        assert_eq!((code, screen.trim()), (-1, ""), "{key:?}");
        assert!(terminal.is_restored().unwrap());
        assert_eq!(terminal.cursor(), (0, 0), "{key:?}");
    }
}

#[test]
fn direct_requests_show_progress() {
    let (go, gone) = channel::<()>();
    let bed = Bed::serving(move |path| {
        // The host does not answer until the test drops the sender, and then answers every request.
        let _ = gone.recv();
        let row = if path.contains("/eu-1/") { "a" } else { "b" };
        let table = format!(
            r#"{{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [{{"name": "Name", "type": "string"}}],
                "rows": [{{"cells": ["{row}"], "object": {{"metadata": {{"name": "{row}"}}}}}}]}}"#
        );
        (200, "application/json", table)
    });
    let mut terminal = terminal(&bed, &["get", "configmaps", "-C", "eu-1,eu-2"]);
    shows(&mut terminal, "0 of 2 clusters, waiting for eu-1, eu-2");
    drop(go);
    let (code, screen) = terminal.end(DEADLINE).unwrap();
    assert_eq!(code, 0, "{screen}");
    assert_snapshot!(screen, @r"
    CLUSTER   NAME
    eu-1      a
    eu-2      b
    ");
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    // Longer than the delay after which progress is shown.
    let ran = fleet("sleep 1; echo x").run(&["describe", "pod", "web", "-C", "eu-1,eu-2"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}
