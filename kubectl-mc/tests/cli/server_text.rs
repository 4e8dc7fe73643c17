//! Tests that text of a hostile host or member is escaped wherever the plugin prints it: tables, errors,
//! summaries and prefixes.

use harness::hostile::texts::{CONTROLS as HOSTILE, acted_on};
use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran, status};

/// The escaped text in a cell, which shows only the first line.
const ESCAPED: &str = "x^[[2J\\u009b31m^G^?\\u202e\\u2066\\u200f\\u2028\\ufeff";

#[test]
fn fault_81_server_text_cannot_control_the_terminal() {
    let fleet = ["-C", "m1,m2"];
    for (what, words, answer) in [
        ("a table of clusters", &["clusters"][..], ok(&table())),
        ("a wide table of clusters", &["clusters", "-o", "wide"], ok(&table())),
        ("names of clusters", &["clusters", "-o", "name"], ok(&table())),
        ("a list of clusters", &["clusters"], ok(&list())),
        ("a refused list of clusters", &["clusters"], failure(500)),
        ("a forbidden list of clusters", &["clusters"], failure(403)),
        ("a page of a proxy", &["clusters"], (502, "text/html", HOSTILE.to_owned()).into()),
        (
            "a refusal on the way",
            &["-C", "m1", "describe", "pod"],
            status(502, "member unreachable", HOSTILE),
        ),
        ("refusals on the way", &["describe", "pod"], status(502, "member unreachable", HOSTILE)),
        ("a table of members", &["get", "pods"], ok(&table())),
        ("namespaces and labels", &["get", "pods", "-A", "--show-labels", "-L", "app"], ok(&table())),
        ("a wide table", &["get", "pods", "-o", "wide"], ok(&table())),
        ("names of objects", &["get", "pods", "-o", "name"], ok(&list())),
        ("errors of members", &["get", "pods"], failure(403).of("member")),
        (
            "texts of members",
            &["get", "pods"],
            Answer::from((500, "text/plain", HOSTILE.to_owned())).of("member"),
        ),
        ("conditions of clusters", &["get", "pods", "--all-clusters"], ok(&unready())),
        ("conditions, by kubectl", &["describe", "pods", "--all-clusters"], ok(&unready())),
        ("a question about rights", &["access", "explain", "-C", "m1", "get", "pods"], failure(500)),
        ("an answer about rights", &["access", "explain", "-C", "m1", "get", "pods"], ok(&review())),
        ("a difference of rights", &["access", "diff", "m1"], failure(500)),
    ] {
        let needs_fleet = ["get", "describe"].contains(&words[0]) && !words.contains(&"--all-clusters");
        let words = if needs_fleet { [words, &fleet].concat() } else { words.to_vec() };
        assert_escaped(what, &Bed::answering(answer).run(&words));
    }
}

#[test]
fn fault_81_compared_text_cannot_control_the_terminal() {
    let bed = Bed::serving(|path| {
        let other = if path.contains("/m2/") { "other" } else { HOSTILE };
        ok(&json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": HOSTILE, "namespace": HOSTILE},
            "spec": {"plain": format!("{other}{HOSTILE}"), "list": [{"name": HOSTILE, "value": other}], "bidi": format!("\u{202e}{}", other.len())},
        }))
    });
    assert_escaped("a difference", &bed.run(&["compare", "pod", "web", "-C", "m1,m2"]));
}

#[test]
fn fault_81_log_prefix_cannot_control_the_terminal() {
    let bed = Bed::serving(|path| match path {
        path if path.contains("/log") => Answer::from((200, "text/plain", "\u{1b}[1mcontent\n".to_owned())),
        _ => ok(&json!({"kind": "PodList", "items": [{
            "metadata": {"name": "web", "namespace": "ns"}, "spec": {"containers": [{"name": HOSTILE}]},
        }]})),
    });
    let ran = bed.run(&["logs", "-l", "app=web", "--prefix", "-C", "m1,m2"]);
    let content = "\u{1b}[1mcontent";
    assert!(ran.out.contains(content), "a log is shown as it is: {ran:?}");
    assert_escaped("a log", &Ran { out: ran.out.replace(content, ""), ..ran });
}

#[test]
fn fault_81_kubectl_text_cannot_control_the_terminal() {
    let bed = Bed::answering(ok(&json!({})));
    let hostile = HOSTILE.replace('\n', " ");
    bed.kubectl(&format!(
        "printf '%s\\n' 'NAME      VALUE' 'a         {hostile}'; printf '%s\\n' 'Error from server ({hostile}): {hostile}' >&2; exit 1"
    ));
    assert_escaped("a table of kubectl's", &bed.run(&["top", "pods", "-C", "m1,m2"]));
    assert_escaped(
        "an error of kubectl's",
        &bed.run_with("KUBECTL_MC_DIRECT", "0", &["get", "pods", "-o", "json", "-C", "m1,m2"]),
    );
}

#[test]
fn fault_81_unreadable_object_cannot_control_the_terminal() {
    // The parser's error quotes the text that it cannot parse.
    let bed = Bed::answering(ok(&json!({
        "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster", "metadata": {"name": "m1"},
        "spec": {"impersonation": {"uid": HOSTILE}},
    })));
    assert_escaped("an object", &bed.run(&["access", "diff", "m1"]));
}

#[test]
fn server_text_in_json_is_unchanged() {
    let bed = Bed::answering(ok(&list()));
    let ran = bed.run(&["get", "pods", "-o", "json", "-C", "m1,m2"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["items"][0]["metadata"]["name"], HOSTILE, "{ran:?}");
    let ran = bed.run(&["clusters", "-o", "json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["items"][0]["metadata"]["name"], HOSTILE, "{ran:?}");
}

/// Asserts that the output contains nothing that a terminal interprets, and that it contains the
/// escaped text.
fn assert_escaped(what: &str, ran: &Ran) {
    for text in [&ran.out, &ran.err] {
        assert_eq!(acted_on(text, false), None, "{what}: {text:?}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("FORGED")), "{what}: {text}");
    }
    assert!(
        format!("{}{}", ran.out, ran.err).to_lowercase().contains(ESCAPED.to_lowercase().as_str()),
        "{what}: {ran:?}"
    );
}

fn ok(body: &Value) -> Answer {
    (200, "application/json", body.to_string()).into()
}

/// An error of a server, with hostile text in its fields.
fn failure(code: u16) -> Answer {
    let status = json!({"kind": "Status", "reason": HOSTILE, "message": HOSTILE, "code": code});
    (code, "application/json", status.to_string()).into()
}

fn object() -> Value {
    json!({"metadata": {"name": HOSTILE, "namespace": HOSTILE, "labels": {"app": HOSTILE, HOSTILE: HOSTILE}}})
}

fn table() -> Value {
    let column = |name: &str| json!({"name": name, "type": "string", "format": "name"});
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "columnDefinitions": [column(HOSTILE), column("List"), column("Map"),
            {"name": HOSTILE, "type": "string", "priority": 1}],
        "rows": [{"cells": [HOSTILE, [HOSTILE, 1], {HOSTILE: HOSTILE}, HOSTILE], "object": object()}],
    })
}

fn list() -> Value {
    json!({"kind": "PodList", "apiVersion": "v1", "items": [object()]})
}

/// A list of clusters of which none is ready.
fn unready() -> Value {
    let member = |name: &str| {
        json!({"metadata": {"name": name}, "status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": HOSTILE, "message": HOSTILE}]}})
    };
    json!({"kind": "ClusterList", "items": [member("m1"), member("m2")]})
}

/// An answer to a review, which is also used as every other object.
fn review() -> Value {
    json!({"status": {"allowed": false, "reason": HOSTILE, "userInfo": {"username": HOSTILE},
        "conditions": [{"type": "Ready", "status": "False", "reason": HOSTILE, "message": HOSTILE}]}})
}
