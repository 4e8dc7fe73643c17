//! Tests `-v` and its variable: the plugin's log, which contains no credential.

use crate::bed::{Bed, Ran};

const LIST: &str = r#"{"kind": "ClusterList", "items": [{"metadata": {"name": "m1"}}]}"#;

fn bed() -> Bed {
    Bed::answering((200, "application/json", LIST.to_owned()))
}

/// The logged requests, without the parts that differ from run to run.
fn requests(ran: &Ran) -> Vec<String> {
    let line =
        |line: &str| Some(line.split_once("] \"Response\" ")?.1.split(" milliseconds=").next()?.to_owned());
    ran.err.lines().filter_map(line).collect()
}

#[test]
fn requests_are_logged_at_level_six_without_credentials() {
    let bed = bed().of_known_hub();
    let path = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";
    let list = format!("verb=\"GET\" url=\"{}{path}\" status=\"200 OK\"", bed.server());
    let ran = bed.run(&["clusters", "-v=6"]);
    assert_eq!(requests(&ran).join(" "), list, "{ran:?}");
    let line = ran.err.lines().last().unwrap();
    assert!(line.starts_with('I') && line.contains(" kubectl-mc] \"Response\" "), "{line}");
    assert!(ran.err.contains("\"Chose cluster of kubeconfig\" context=\"host\""), "{ran:?}");
    for same in [
        bed.run(&["clusters", "--v", "6"]),
        bed.run(&["-v6", "clusters"]),
        bed.run_with("KUBECTL_MC_LOG", "6", &["clusters"]),
    ] {
        assert_eq!(requests(&same), requests(&ran));
    }
    let many = bed.run(&["--all-clusters", "get", "pods", "--v=6"]);
    assert_eq!(requests(&many)[0], list, "{many:?}");
    assert!(requests(&many).iter().any(|line| line.contains("/clusters/m1/proxy/")), "{many:?}");
    let token = bed.run(&["--token=hush", "-C", "m1", "-v=9", "get", "pods"]);
    assert_eq!(requests(&token).len(), 1, "{token:?}");
    for ran in [&ran, &many, &token] {
        assert!(
            !ran.err.contains("secret") && !ran.err.contains("hush") && !ran.err.contains("Bearer"),
            "{ran:?}"
        );
    }
    assert_eq!(bed.run(&["clusters", "-v=5"]).err.matches("Response").count(), 0);
    assert_eq!(bed.run(&["clusters"]).err, "");
}

#[test]
fn only_the_log_flag_is_passed_to_kubectl() {
    let ran = bed().by_kubectl().run(&["-C", "m1", "get", "pods", "-v=6"]);
    assert_eq!(ran.arguments(), ["get", "--context=mc/m1", "pods", "-v=6"]);
    assert!(ran.err.contains("\"Run kubectl\" cluster=\"m1\""), "{ran:?}");
    let ran = bed().by_kubectl().of_known_hub().run_with("KUBECTL_MC_LOG", "6", &["-C", "m1", "get", "pods"]);
    assert_eq!((ran.arguments(), requests(&ran).len()), (vec!["get", "--context=mc/m1", "pods"], 1));
}

#[test]
fn log_level_that_is_not_a_number_is_refused() {
    let ran = bed().run_with("KUBECTL_MC_LOG", "debug", &["clusters"]);
    assert_eq!(
        ran.failed(),
        (2, "error: invalid log level \"debug\" of KUBECTL_MC_LOG: expected a number\n")
    );
}

#[test]
fn log_level_changes_no_error() {
    let bed = Bed::unreachable();
    let (plain, logged) = (bed.run(&["clusters"]), bed.run(&["clusters", "-v=6"]));
    assert!(logged.err.ends_with(&plain.err) && plain.code == logged.code, "{plain:?} {logged:?}");
    assert!(requests(&logged)[0].contains("status=\"no answer: "), "{logged:?}");
}
