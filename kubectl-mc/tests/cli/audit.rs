//! Tests `kubectl mc audit`: it finds one request in the logs of the sidecar's pods or in files.

use serde_json::json;

use crate::bed::{Answer, Bed, status};

fn event(id: &str, user: &str) -> String {
    json!({
        "kind": "Event", "auditID": id, "stage": "ResponseComplete", "verb": "list", "requestURI": "/x",
        "user": {"username": user}, "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-11-25T03:00:00.000000Z",
    })
    .to_string()
}

/// A host with two pods of the sidecar, of which one has restarted.
fn bed() -> Bed {
    Bed::serving(|path| {
        let log = |events: String| Answer::from((200, "text/plain", format!("INFO serving\n{events}\n")));
        match path.strip_prefix("/pre/api/v1/namespaces/kubectl-mc-system/pods").unwrap_or_default() {
            "?labelSelector=app.kubernetes.io%2Fname%3Dmc-sidecar" => {
                let pods = ["one", "two", "../../secrets"].map(|name| json!({"metadata": {"name": name}}));
                Answer::from((200, "application/json", json!({"items": pods}).to_string()))
            }
            "/one/log?container=mc-sidecar&previous=true" => log(event("a1", "jane")),
            "/one/log?container=mc-sidecar" => log(event("b2", "bob")),
            "/two/log?container=mc-sidecar" => log(event("c3", "carol\u{1b}[2J")),
            "/two/log?container=mc-sidecar&previous=true" => {
                Answer::from((400, "application/json", r#"{"message": "no previous container"}"#.to_owned()))
            }
            other => status(500, "host", &format!("unexpected: {other}")),
        }
    })
}

#[test]
fn request_is_found_in_the_logs_of_all_pods() {
    let bed = bed();
    for (id, caller) in [("a1", "jane"), ("b2", "bob"), ("c3", "carol^[[2J")] {
        let ran = bed.run(&["audit", id]);
        let expected = format!("request    {id}\ncaller     {caller}\nwhat       list\n");
        assert!(ran.code == Some(0) && ran.out.starts_with(&expected), "{ran:?}");
    }
    let ran = bed.run(&["audit", "b2", "-o", "json"]);
    assert!(ran.out.contains(r#""username": "bob""#), "{ran:?}");
}

#[test]
fn missing_request_is_an_error_with_a_hint() {
    let ran = bed().run(&["audit", "none"]);
    let (code, said) = ran.failed();
    assert!(
        code == 1 && said.starts_with("error: no audit event of request none\nhint: pods write events"),
        "{said}"
    );
    assert!(said.contains("kubectl --context=host -n kubectl-mc-system get deploy mc-sidecar"), "{said}");
}

#[test]
fn forbidden_or_missing_pods_are_an_error() {
    let bed = Bed::answering(status(403, "host", "pods is forbidden"));
    let ran = bed.run(&["audit", "a1"]);
    let (code, said) = ran.failed();
    assert!(code == 1 && said.contains("in namespace kubectl-mc-system: pods is forbidden"), "{said}");
    assert!(said.contains("hint: it needs the rights to list pods"), "{said}");
    let none = Bed::answering((200, "application/json", "{}".to_owned())).run(&["audit", "a1"]);
    assert!(
        none.failed().1.contains("has no pods of the sidecar in namespace kubectl-mc-system"),
        "{none:?}"
    );
}

#[test]
fn unreadable_pod_log_hides_no_other_log() {
    let bed = Bed::serving(|path| match path {
        path if path.contains("?labelSelector=") => {
            let pods = ["starting", "one"].map(|name| json!({"metadata": {"name": name}}));
            Answer::from((200, "application/json", json!({"items": pods}).to_string()))
        }
        path if path.contains("/one/log?") && !path.contains("previous") => {
            Answer::from((200, "text/plain", event("a1", "jane") + "\n"))
        }
        _ => status(400, "host", "container is waiting to start"),
    });
    let ran = bed.run(&["audit", "a1"]);
    assert!(ran.code == Some(0) && ran.out.contains("caller     jane\n"), "{ran:?}");
    let ran = bed.run(&["audit", "b2"]);
    assert!(ran.failed().1.contains("container is waiting to start"), "{ran:?}");
}

#[test]
fn request_is_found_in_files_without_a_host() {
    let bed = Bed::unreachable();
    for (name, text) in [("old.log", event("a1", "jane")), ("new.log", event("b2", "bob"))] {
        std::fs::write(bed.path(name), text + "\n").unwrap();
    }
    let ran = bed.run(&["audit", "a1", "--file=new.log", "--file=old.log"]);
    assert!(ran.code == Some(0) && ran.out.contains("caller     jane\n"), "{ran:?}");
    let ran = bed.run(&["audit", "a1", "--file=new.log"]);
    assert!(ran.failed().1.contains("hint: name the rotated files too"), "{ran:?}");
    let ran = bed.run(&["audit", "a1", "--file=none.log"]);
    assert!(ran.failed().1.starts_with("error: cannot read none.log: No such file"), "{ran:?}");
}

#[test]
fn invalid_request_id_is_a_usage_error() {
    let ran = Bed::unreachable().run(&["audit", "a b"]);
    assert_eq!(ran.failed().0, 2, "{ran:?}");
    let ran = Bed::unreachable().run(&["-C", "m1", "audit", "a"]);
    assert!(ran.failed().1.contains("takes no choice of clusters"), "{ran:?}");
}
