//! Tests `kubectl mc use`, which sets a cluster for later commands with one kubeconfig context.

use std::fs;

use crate::bed::Bed;

const LIST: &str =
    r#"{"kind": "ClusterList", "items": [{"metadata": {"name": "m1"}}, {"metadata": {"name": "m2"}}]}"#;

fn bed() -> Bed {
    Bed::answering((200, "application/json", LIST.to_owned()))
}

/// The cluster to which kubectl's overlay points.
fn cluster(bed: &Bed, words: &[&str]) -> String {
    let ran = bed.run(words);
    let overlay = fs::read_to_string(ran.kubeconfig().0).unwrap();
    overlay.split("/clusters/").nth(1).unwrap().split('/').next().unwrap().to_owned()
}

#[test]
fn chosen_cluster_serves_commands_without_a_choice() {
    let bed = bed().by_kubectl();
    assert_eq!(bed.run(&["use"]).failed().0, 1);
    let chosen = bed.run(&["use", "m1"]);
    assert_eq!((chosen.code, chosen.out.as_str()), (Some(0), ""), "{chosen:?}");
    assert_eq!(bed.run(&["use"]).out, "m1\n");
    assert_eq!(cluster(&bed, &["get", "pods"]), "m1");
    assert_eq!(bed.run(&["get", "pods"]).err, "");
    let said = "cluster m1, chosen by `kubectl mc use`\n";
    assert_eq!(bed.run(&["delete", "pod", "x"]).err, said);
    assert_eq!(bed.run(&["-C", "m2", "delete", "pod", "x"]).err, "");
    assert_eq!(cluster(&bed, &["-C", "m2", "get", "pods"]), "m2");
    let ran = bed.run_with("KUBECTL_MC_CLUSTER", "m2", &["delete", "pod", "x"]);
    assert!(ran.err.is_empty() && fs::read_to_string(ran.kubeconfig().0).unwrap().contains("/clusters/m2/"));
    assert!(
        !fs::read_to_string(bed.path("kubeconfig")).unwrap().contains("m1"),
        "the user's file stays as it is"
    );
}

#[test]
fn dash_returns_to_the_previous_cluster_and_unset_to_none() {
    let bed = bed();
    assert_eq!(bed.run(&["use", "-"]).failed().0, 1);
    for (words, expected) in [
        (&["use", "m1"][..], "m1\n"),
        (&["use", "-C", "m2"], "m2\n"),
        (&["use", "-"], "m1\n"),
        (&["use", "-"], "m2\n"),
    ] {
        assert_eq!(bed.run(words).code, Some(0));
        assert_eq!(bed.run(&["use"]).out, expected, "{words:?}");
    }
    assert_eq!(bed.run(&["use", "--unset"]).code, Some(0));
    assert_eq!(bed.run(&["use"]).failed().0, 1);
    assert!(bed.run(&["get", "pods"]).failed().1.starts_with("error: no cluster chosen\n"));
    bed.run(&["use", "-"]);
    assert_eq!(bed.run(&["use"]).out, "m2\n");
}

#[test]
fn choice_belongs_to_context_and_server() {
    let bed = bed();
    bed.run(&["use", "m1"]);
    let kubeconfig = fs::read_to_string(bed.path("kubeconfig")).unwrap();
    for (name, changed) in [
        ("server", kubeconfig.replace("/pre", "/other")),
        ("context", kubeconfig.replace("\"host\"", "\"another\"")),
    ] {
        fs::write(bed.path(name), changed).unwrap();
        let ran = bed.run_with("KUBECONFIG", bed.path(name), &["use"]);
        assert!(ran.failed().1.starts_with("error: no cluster is chosen for "), "{name}: {ran:?}");
    }
}

#[test]
fn unknown_cluster_is_not_chosen() {
    let bed = bed();
    let ran = bed.run(&["use", "m3"]);
    assert_eq!(ran.failed().0, 3);
    assert!(ran.err.starts_with("error: cluster unknown: m3\n"), "{ran:?}");
    assert_eq!(bed.run(&["use"]).code, Some(1));
    let ran = Bed::unreachable().run(&["use", "m3"]);
    assert!(ran.code == Some(0) && ran.err.starts_with("warning: m3 was not looked up: "), "{ran:?}");
}
