//! Tests that the hint of an error fits the situation: it names the right person, the command that
//! ran and the file.

use std::fs;

use serde_json::json;

use crate::bed::{Answer, Bed, status};

fn refusing(code: u16, hop: &'static str, message: &'static str) -> Bed {
    Bed::answering(status(code, hop, message)).by_kubectl()
}

/// The hint of a command on m1.
fn hint(bed: &Bed, words: &[&str]) -> String {
    let ran = bed.run(&[&["-C", "m1"], words].concat());
    let (_, text) = ran.failed();
    text.split_once("hint: ").unwrap_or_default().1.trim_end().to_owned()
}

const FORBIDDEN: &str =
    "clusters.proxy.kubectl-mc.dev \"m1\" is forbidden: User \"theo\" cannot get resource \"clusters/proxy\"";

#[test]
fn forbidden_hint_names_user_and_command() {
    let bed = refusing(403, "host authorization", FORBIDDEN);
    assert_eq!(
        hint(&bed, &["exec", "web", "-n", "shop", "--", "ls"]),
        "see: kubectl mc --context=host access explain -C m1 exec web -n shop; an admin of the host grants access: \
         kubectl mc --context=host access grant edit --user=theo -C m1"
    );
    assert_eq!(
        hint(&bed, &["get", "svc", "--as=jane", "--as-group=dev"]),
        "see: kubectl mc --context=host access explain --as=jane --as-group=dev -C m1 get svc; an admin of the host grants \
         access: kubectl mc --context=host access grant view --user=jane -C m1"
    );
}

#[test]
fn refused_as_hint_grants_no_role() {
    let said =
        "users \"jane\" is forbidden: User \"theo\" cannot impersonate resource \"users\" in API group \"\"";
    let hint = hint(&refusing(403, "host authorization", said), &["get", "pods", "--as=jane"]);
    assert!(hint.starts_with("theo may not act as jane") && !hint.contains("access grant"), "{hint}");
    assert!(hint.ends_with("see: kubectl --context=host auth can-i impersonate users/jane"), "{hint}");
}

#[test]
fn member_without_an_answer_is_described_as_seen() {
    let down = hint(&refusing(502, "member unreachable", "connection refused"), &["get", "pods"]);
    assert!(down.starts_with("m1 did not answer this request; "), "{down}");
    let untrusted = "invalid peer certificate: UnknownIssuer";
    let untrusted = hint(&refusing(502, "member unreachable", untrusted), &["get", "pods"]);
    assert!(untrusted.ends_with("kubectl mc --context=host join m1 --member-context=NAME"), "{untrusted}");
    let waiting = "the proxy is off: it gets its credential by `kubectl mc join m1 --agent --enroll`";
    let waiting = hint(&refusing(503, "proxy off", waiting), &["get", "pods"]);
    assert!(waiting.contains("`kubectl mc --context=host join m1 --agent --enroll`"), "{waiting}");
    assert!(!waiting.contains("--member-context"), "{waiting}");
}

#[test]
fn user_in_the_place_of_a_flag_is_understood() {
    let bed = Bed::unreachable();
    for words in [&["view", "jane", "-C", "m1"][..], &["view", "jane"], &["team-a", "jane", "--all-clusters"]]
    {
        for verb in ["grant", "revoke"] {
            let ran = bed.run(&[&["access", verb], words].concat());
            assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
            assert!(ran.err.ends_with("hint: did you mean --user=jane?\n"), "{words:?}: {ran:?}");
        }
    }
}

#[test]
fn grant_in_a_missing_namespace_names_it() {
    let bed = Bed::serving(|path| {
        let ok = |body: serde_json::Value| Answer::from((200, "application/json", body.to_string()));
        match path {
            path if path.contains("/rolebindings") => {
                let missing = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
                    "message": "namespaces \"nope\" not found"});
                Answer::from((404, "application/json", missing.to_string())).sent_by_member()
            }
            path if path.ends_with("/clusterroles/view") => ok(json!({"rules": []})).sent_by_member(),
            _ => ok(json!({"items": []})),
        }
    });
    let ran = bed.run(&["access", "grant", "view", "--user=jane", "-n", "nope", "-C", "m1"]);
    let hint = "hint: namespace nope is missing there: check its name, or create it\n";
    assert!(ran.code != Some(0) && ran.err.contains(hint) && !ran.err.contains("install"), "{ran:?}");
}

#[test]
fn summary_of_contexts_names_no_member() {
    let bed = Bed::answering((
        403,
        "application/json",
        r#"{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}"#.to_owned(),
    ));
    let context = |name: &str| json!({"name": name, "context": {"cluster": "c", "user": "u"}});
    let kubeconfig = json!({
        "contexts": [context("a"), context("b")],
        "clusters": [{"name": "c", "cluster": {"server": bed.server()}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    });
    fs::write(bed.path("kubeconfig"), kubeconfig.to_string()).unwrap();
    let ran = bed.run(&["--contexts", "--all-clusters", "get", "pods"]);
    assert!(ran.err.ends_with("2 of 2 clusters failed: 2 forbidden (a, b)\n"), "{ran:?}");
}

#[test]
fn missing_kubeconfig_is_named_with_contexts_too() {
    let bed = Bed::unreachable();
    let missing = bed.path("missing").display().to_string();
    let said = format!("no contexts in {missing} (no such file)\n");
    for words in [&["-C", "m1", "get", "pods"][..], &["get", "pods"], &["--all-clusters", "get", "pods"]] {
        let ran = bed.run_with("KUBECONFIG", &missing, &[&["--contexts"], words].concat());
        assert!(ran.code == Some(2) && ran.err.contains(&said), "{words:?}: {ran:?}");
    }
    let ran = bed.run_with("KUBECONFIG", &missing, &["clusters", "--contexts"]);
    assert_eq!((ran.code, ran.err), (Some(0), said));
}
