//! Tests typical mistakes of new users: a cluster in the place of the verb, flags and names that
//! are almost right, and commands without an object.

use std::time::Duration;

use harness::pty::Terminal;

use crate::bed::Bed;

const LIST: &str = r#"{"kind": "ClusterList", "apiVersion": "proxy.kubectl-mc.dev/v1alpha1", "items": [
  {"metadata": {"name": "eu-1"}}, {"metadata": {"name": "us-1"}}]}"#;

const DEADLINE: Duration = Duration::from_secs(60);

/// A host with two clusters, which does not know others.
fn bed() -> Bed {
    let bed = Bed::serving(|path| match path {
        path if path.contains("/clusters/eu-1/") || path.contains("/clusters/us-1/") => {
            (200, "application/json", "{}".to_owned()).into()
        }
        path if path.contains("/clusters/") => crate::bed::status(404, "cluster unknown", "not found"),
        _ => crate::bed::Answer::from((200, "application/json", LIST.to_owned())),
    });
    bed.kubectl("echo \"$1 on $cluster\"");
    bed
}

#[test]
fn cluster_in_the_place_of_the_verb_is_explained() {
    let bed = bed();
    for (words, hint) in [
        (&["m1", "get", "pods", "-n", "a b"][..], "if m1 is a cluster: kubectl mc -C m1 get pods -n 'a b'"),
        (
            &["eu-1", "exec", "-it", "web", "--", "sh"],
            "if eu-1 is a cluster: kubectl mc -C eu-1 exec -it web -- sh",
        ),
        (&["m1,m2", "clusters"], "if m1,m2 is a cluster: kubectl mc -C m1,m2 clusters"),
        (&["gte", "get", "pods"], "did you mean get? if gte is a cluster: kubectl mc -C gte get pods"),
        (&["m1"], "if m1 is a cluster: kubectl mc -C m1 COMMAND"),
    ] {
        let said = format!(
            "error: unknown command {:?}: no plugin kubectl-{} is in PATH\nhint: {hint}\n",
            words[0], words[0]
        );
        assert_eq!(bed.run(words).failed(), (2, said.as_str()), "{words:?}");
    }
    assert!(bed.requests().is_empty());
    bed.script("bin/kubectl-m1", "#!/bin/sh\n");
    let plugin = bed.run(&["-C", "eu-1", "m1", "get"]);
    assert_eq!((plugin.code, plugin.out.as_str()), (Some(0), "m1 on eu-1\n"), "{plugin:?}");
}

#[test]
fn all_is_explained_before_any_request() {
    let bed = bed();
    let said = "error: no cluster chosen\nhint: did you mean --all-clusters, or -C NAME for one cluster?\n";
    for words in [&["get", "pods", "--all"][..], &["--all", "get", "pods"]] {
        assert_eq!(bed.run(words).failed(), (2, said), "{words:?}");
    }
    assert!(bed.requests().is_empty());
}

#[test]
fn unknown_name_lists_the_visible_clusters() {
    for (name, hint) in [("m7", "there are eu-1, us-1"), ("eu-2", "did you mean eu-1?")] {
        for by_kubectl in [false, true] {
            let bed = if by_kubectl { bed().by_kubectl() } else { bed() };
            let ran = bed.run(&["-C", name, "get", "pods"]);
            assert!(ran.code == Some(3) && ran.err.ends_with(&format!("\nhint: {hint}\n")), "{ran:?}");
        }
    }
}

#[test]
fn delete_without_an_object_is_refused_before_the_question() {
    let bed = bed();
    for (words, what) in [(&["delete"][..], "delete"), (&["delete", "pods", "-n", "x"], "delete pods")] {
        let ran = bed.run(&[&["--all-clusters", "--yes"], words].concat());
        let said = format!("error: {what} names no object\nhint: name objects (");
        assert!(ran.code == Some(2) && ran.err.starts_with(&said), "{ran:?}");
    }
}

#[test]
fn picked_cluster_is_named_and_its_change_is_confirmed() {
    let bed = bed();
    let picked = |words: &[&str]| {
        let mut terminal = Terminal::of(&bed.command(words), 24, 100).unwrap();
        terminal
            .wait_until("the list", DEADLINE, |terminal| terminal.screen().contains("Clusters:"))
            .unwrap();
        terminal.type_in("us\r").unwrap();
        terminal
    };
    let (code, screen) = picked(&["describe", "pod", "web"]).end(DEADLINE).unwrap();
    assert!(code == 0 && screen.contains("cluster us-1\ndescribe on us-1"), "{screen}");
    for (answer, expected) in [("n\r", 1), ("y\r", 0)] {
        let mut terminal = picked(&["delete", "pod", "web"]);
        terminal
            .wait_until("the question", DEADLINE, |terminal| terminal.screen().contains("(y/N)"))
            .unwrap();
        assert!(terminal.screen().contains("This changes 1 cluster of "), "{}", terminal.screen());
        assert!(
            terminal.screen().contains("\n  us-1\nby:\n  kubectl delete pod web\n"),
            "{}",
            terminal.screen()
        );
        terminal.type_in(answer).unwrap();
        let (code, screen) = terminal.end(DEADLINE).unwrap();
        assert_eq!((code, screen.contains("delete on us-1")), (expected, expected == 0), "{screen}");
    }
}

#[test]
fn forbidden_on_a_terminal_names_cluster_and_hop() {
    let bed = Bed::serving(|path| match path.contains("/pods") {
        true => {
            let said =
                r#"{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "pods is forbidden"}"#;
            crate::bed::Answer::from((403, "application/json", said.to_owned())).sent_by_member()
        }
        false => crate::bed::Answer::from((200, "application/json", "{}".to_owned())).sent_by_member(),
    });
    bed.kubectl("echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1");
    let words = ["-C", "m1", "get", "pods", "-n", "shop"];
    let ran = bed.run(&words);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), "Error from server (Forbidden): pods is forbidden\n"));
    let (code, screen) = Terminal::of(&bed.command(&words), 24, 200).unwrap().end(DEADLINE).unwrap();
    let expected = "m1: the member refused it, and not the host; see: kubectl mc --context=host access explain -C m1 get pods -n \
                    shop\nError from server (Forbidden): pods is forbidden";
    assert!(code == 1 && screen.contains(expected), "{screen}");
}
