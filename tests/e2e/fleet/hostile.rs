//! A member that misbehaves harms its own part of the view only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use harness::fake_member::{FakeMember, Request, Step, ok, reply};
use harness::tool::Tool;
use harness::wait::SOON;
use serde_json::{Value, json};

use super::View;

const JSON: &str = "Content-Type: application/json\r\n";

/// A view of m1 and a fake member.
fn view_with(name: &str, fake: &FakeMember) -> Result<(View, Tool)> {
    let (view, caller) = View::with_fake(name, fake)?;
    let kubectl = Tool::kubectl(&caller)?;
    Ok((view, kubectl))
}

fn is_list(request: &Request) -> bool {
    request.target().contains("/configmaps") && !request.target().contains("watch=")
}

#[test]
fn endless_object_is_an_error_of_its_member_only() -> Result<()> {
    let fake = FakeMember::start("e2e-fleet-endless", |request| {
        if !is_list(request) {
            return ok();
        }
        let head = format!("HTTP/1.1 200 OK\r\n{JSON}Content-Length: 4294967296\r\n\r\n");
        let begin = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"data":{"a":""#;
        vec![Step::Send([&head, begin].concat().into()), Step::Repeat(vec![b'x'; 65536], 65536)]
    })?;
    let (_view, kubectl) = view_with("fleet-endless", &fake)?;
    let path = "/api/v1/namespaces/e2e-fleet-endless/configmaps?labelSelector=test%3Da";
    let list: Value = serde_json::from_str(&kubectl.ok(&["get", "--raw", path])?)?;
    ensure!(list["items"].as_array().is_some_and(|items| items.len() == 1), "{list}");
    let errors = list["metadata"]["clusterErrors"].as_array().context("no errors")?;
    ensure!(errors.len() == 1 && errors[0]["cluster"] == fake.name, "{list}");
    ensure!(errors[0]["message"].as_str().is_some_and(|message| message.contains("4 MiB")), "{list}");
    Ok(())
}

#[test]
fn object_that_claims_another_member_is_shown_as_its_own() -> Result<()> {
    let metadata = json!({
        "name": "a", "namespace": "e2e-fleet-claim_m1", "labels": {"test": "a"}, "resourceVersion": "m1.1",
        "annotations": {"fleet.kubectl-mc.dev/cluster": "m1"},
    });
    let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": metadata}]});
    let fake = FakeMember::start("e2e-fleet-claims", move |request| match is_list(request) {
        true => reply("200 OK", JSON, &list.to_string()),
        false => ok(),
    })?;
    let (_view, kubectl) = view_with("fleet-claim", &fake)?;
    let path = "/api/v1/namespaces/e2e-fleet-claim/configmaps?labelSelector=test%3Da";
    let list: Value = serde_json::from_str(&kubectl.ok(&["get", "--raw", path])?)?;
    let items = list["items"].as_array().context("no items")?;
    let of_m1 = items.iter().filter(|item| item["metadata"]["namespace"] == "e2e-fleet-claim_m1").count();
    ensure!(items.len() == 2 && of_m1 == 1, "{list}");
    ensure!(list.to_string().contains("e2e-fleet-claim_m1_e2e-fleet-claims"), "{list}");
    Ok(())
}

#[test]
fn lost_member_deletes_nothing_and_is_named_in_bookmarks() -> Result<()> {
    let is_lost = Arc::new(AtomicBool::new(false));
    let lost = is_lost.clone();
    let item = json!({"metadata": {"name": "f", "namespace": "e2e-fleet-lost", "resourceVersion": "5"}});
    let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [item]});
    let fake = FakeMember::start("e2e-fleet-lost", move |request| {
        if is_list(request) {
            return reply("200 OK", JSON, &list.to_string());
        }
        if !request.target().contains("watch=") {
            return ok();
        }
        let head = format!("HTTP/1.1 200 OK\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n");
        let event = r#"{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"f","namespace":"e2e-fleet-lost","resourceVersion":"9"}}}"#;
        let event = format!("{:x}\r\n{event}\n\r\n", event.len() + 1);
        match lost.load(Ordering::SeqCst) {
            true => reply("503 Service Unavailable", JSON, "{}"),
            false => vec![Step::Send([head, event].concat().into()), Step::Close],
        }
    })?;
    let (_view, kubectl) = view_with("fleet-lost", &fake)?;
    let path = "/api/v1/namespaces/e2e-fleet-lost/configmaps?watch=1&allowWatchBookmarks=1";
    let mut events = kubectl.start(&["get", "--raw", path])?;
    events.wait_for(r#""resourceVersion":"e2e-fleet-lost.9""#, SOON)?;
    is_lost.store(true, Ordering::SeqCst);
    fake.wait_for("watch=", |request| request.target().contains("resourceVersion=9"))?;
    events.wait_for("fleet.kubectl-mc.dev/unreachable", SOON)?;
    ensure!(!events.stdout().contains("DELETED"), "{}", events.stdout());
    Ok(())
}

#[test]
fn list_that_breaks_in_a_watch_is_read_again_at_its_version() -> Result<()> {
    let item = |name: &str| json!({"metadata": {"name": name, "namespace": "e2e-fleet-break", "resourceVersion": "5"}});
    // The version comes before the objects, as in the lists of a kube-apiserver.
    let begin = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":["#;
    let (broken, whole) =
        (format!("{begin}{},", item("f")), format!("{begin}{},{}]}}", item("f"), item("g")));
    let fake = FakeMember::start("e2e-fleet-breaks", move |request| {
        if !is_list(request) {
            return ok();
        }
        if request.target().contains("resourceVersion=7&resourceVersionMatch=Exact") {
            return reply("200 OK", JSON, &whole);
        }
        let head = format!("HTTP/1.1 200 OK\r\n{JSON}Content-Length: 100000\r\n\r\n");
        vec![Step::Send([&*head, &broken].concat().into()), Step::Close]
    })?;
    let (_view, kubectl) = view_with("fleet-break", &fake)?;
    let path =
        "/api/v1/namespaces/e2e-fleet-break/configmaps?watch=1&allowWatchBookmarks=1&sendInitialEvents=true";
    let mut events = kubectl.start(&["get", "--raw", path])?;
    events.wait_for(r#""name":"g""#, SOON)?;
    ensure!(!events.stdout().contains("ERROR"), "{}", events.stdout());
    Ok(())
}
