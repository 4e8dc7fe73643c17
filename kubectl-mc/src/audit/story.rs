//! Prints the events of a request in readable form. Several requests can have the same id: the
//! client chooses it, and kubectl repeats some requests.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::Value;

use crate::server_text::ServerText;

/// Describes each request of these events, in the order of their start.
pub(super) fn tell(events: &[Value]) -> String {
    let mut requests: Vec<Vec<&Value>> = Vec::new();
    for event in events {
        let is_same = |request: &Vec<&Value>| KEY.iter().all(|field| request[0][*field] == event[*field]);
        match requests.iter_mut().find(|request| is_same(request)) {
            Some(request) => request.push(event),
            None => requests.push(vec![event]),
        }
    }
    requests.sort_by_key(|request| time(&request[0]["requestReceivedTimestamp"]));
    let mut text = String::new();
    for request in &requests {
        if !text.is_empty() {
            text.push('\n');
        }
        one(request, &mut text);
    }
    text
}

/// Describes one request by its last event.
fn one(events: &[&Value], text: &mut String) {
    let Some(last) = events.iter().max_by_key(|event| stage(event)) else { return };
    let annotation = |key: &str| string(&last["annotations"][format!("kubectl-mc.dev/{key}")]);
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<10} {value}");
        }
    };
    let cluster = annotation("cluster");
    line("request", string(&last["auditID"]));
    line("caller", user(&last["user"]));
    line("as", user(&last["impersonatedUser"]));
    line("from", list(&last["sourceIPs"]));
    line("client", string(&last["userAgent"]));
    line("member", cluster.clone());
    line("what", what(last));
    line("uri", string(&last["requestURI"]));
    line("begun", string(&last["requestReceivedTimestamp"]));
    line("decision", decision(last));
    line("outcome", outcome(last));
    line("stopped at", annotation("hop"));
    line(
        "took",
        Some(annotation("duration-seconds")).filter(|s| !s.is_empty()).map_or(String::new(), |s| s + " s"),
    );
    let (to_member, to_caller) = (annotation("bytes-to-member"), annotation("bytes-to-caller"));
    if !to_member.is_empty() {
        line("tunnel", format!("{to_member} bytes to the member, {to_caller} to the caller"));
    }
    let from_caller = annotation("bytes-from-caller");
    if !from_caller.is_empty() {
        line("tunnel", format!("{from_caller} bytes from the agent, {to_caller} to the agent"));
    }
    line("end", annotation("end"));
    line("replica", annotation("replica"));
    line("elsewhere", elsewhere(&string(&last["auditID"]), &cluster));
}

fn user(user: &Value) -> String {
    let name = string(&user["username"]);
    let groups = list(&user["groups"]);
    let uid = string(&user["uid"]);
    let mut text = name;
    if !groups.is_empty() {
        let _ = write!(text, ", groups {groups}");
    }
    if !uid.is_empty() {
        let _ = write!(text, ", uid {uid}");
    }
    for (key, values) in user["extra"].as_object().into_iter().flatten() {
        let _ = write!(text, ", {} {}", ServerText::from(key.as_str()), list(values));
    }
    text
}

/// `create pods/exec web in namespace shop`
fn what(event: &Value) -> String {
    let object = &event["objectRef"];
    let field = |name: &str| string(&object[name]);
    let mut text = string(&event["verb"]);
    if object.is_null() {
        return text;
    }
    let _ = write!(text, " {}", field("resource"));
    let (subresource, group) = (field("subresource"), field("apiGroup"));
    if !group.is_empty() {
        let _ = write!(text, ".{group}");
    }
    if !subresource.is_empty() {
        let _ = write!(text, "/{subresource}");
    }
    for (before, name) in [(" ", "name"), (" in namespace ", "namespace")] {
        let value = field(name);
        if !value.is_empty() {
            let _ = write!(text, "{before}{value}");
        }
    }
    text
}

fn decision(event: &Value) -> String {
    let annotation = |key: &str| string(&event["annotations"][format!("authorization.k8s.io/{key}")]);
    let (decision, reason) = (annotation("decision"), annotation("reason"));
    if reason.is_empty() { decision } else { format!("{decision}: {reason}") }
}

fn outcome(event: &Value) -> String {
    let status = &event["responseStatus"];
    let (reason, message) = (string(&status["reason"]), string(&status["message"]));
    let state = match (string(&event["stage"]).as_str(), status["code"].as_u64()) {
        ("RequestReceived", _) => "no end is recorded yet".to_owned(),
        ("ResponseStarted", Some(code)) if code < 400 => format!("{code}, no end is recorded yet"),
        ("Panic", _) => "500, the sidecar panicked: please report it".to_owned(),
        (_, Some(code)) => code.to_string(),
        (_, None) => "no answer".to_owned(),
    };
    match (reason.is_empty(), message.is_empty()) {
        (false, false) => format!("{state} {reason}: {message}"),
        _ => state,
    }
}

/// The other places that record the same request.
fn elsewhere(id: &str, cluster: &str) -> String {
    let logs = match cluster {
        "" => "the audit log of the host's kube-apiserver".to_owned(),
        cluster => format!("the audit logs of the host's kube-apiserver and of {cluster}'s"),
    };
    format!("{logs}: \"auditID\":\"{id}\"")
}

fn string(value: &Value) -> String {
    ServerText::from(value.as_str().unwrap_or_default()).to_string()
}

fn list(values: &Value) -> String {
    values.as_array().into_iter().flatten().map(string).collect::<Vec<_>>().join(", ")
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(|text| text.parse().ok())
}

/// The order of the stages.
fn stage(event: &Value) -> usize {
    let stages = ["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"];
    stages.iter().position(|stage| event["stage"] == *stage).unwrap_or_default()
}

/// The fields that are equal in all events of one request.
const KEY: &[&str] = &["requestReceivedTimestamp", "requestURI", "verb"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exec(stage: &str, received: &str) -> Value {
        json!({
            "kind": "Event", "auditID": "5f2c", "stage": stage, "verb": "create",
            "requestURI": "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/namespaces/shop/pods/web/exec?command=sh",
            "user": {"username": "jane", "groups": ["dev"], "extra": {"scopes": ["a", "b"]}},
            "impersonatedUser": {"username": "carol\u{1b}[2J"}, "sourceIPs": ["192.0.2.7", "10.0.0.1"],
            "userAgent": "kubectl/v1.36.3", "requestReceivedTimestamp": received,
            "objectRef": {"resource": "pods", "subresource": "exec", "name": "web", "namespace": "shop"},
            "responseStatus": {"code": 101},
            "annotations": {
                "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "RBAC: allowed",
                "kubectl-mc.dev/cluster": "m1", "kubectl-mc.dev/replica": "mc-sidecar-1",
            },
        })
    }

    #[test]
    fn exec_is_described_by_its_last_event() {
        let begun = exec("ResponseStarted", "2026-11-25T03:00:00.000000Z");
        let mut ended = exec("ResponseComplete", "2026-11-25T03:00:00.000000Z");
        for (key, value) in [
            ("bytes-to-member", "7"),
            ("bytes-to-caller", "42"),
            ("end", "ended"),
            ("duration-seconds", "4.2"),
        ] {
            ended["annotations"][format!("kubectl-mc.dev/{key}")] = json!(value);
        }
        insta::assert_snapshot!(tell(&[ended, begun]), @r#"
request    5f2c
caller     jane, groups dev, scopes a, b
as         carol^[[2J
from       192.0.2.7, 10.0.0.1
client     kubectl/v1.36.3
member     m1
what       create pods/exec web in namespace shop
uri        /apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/namespaces/shop/pods/web/exec?command=sh
begun      2026-11-25T03:00:00.000000Z
decision   allow: RBAC: allowed
outcome    101
took       4.2 s
tunnel     7 bytes to the member, 42 to the caller
end        ended
replica    mc-sidecar-1
elsewhere  the audit logs of the host's kube-apiserver and of m1's: "auditID":"5f2c"
    "#);
    }

    #[test]
    fn requests_with_one_id_are_listed_in_order() {
        let (one, two) = ("2026-11-25T03:00:00.000000Z", "2026-11-25T03:00:01.000000Z");
        let text = tell(&[exec("ResponseStarted", two), exec("RequestReceived", one)]);
        let begun: Vec<_> = text.lines().filter(|line| line.starts_with("begun")).collect();
        assert_eq!(begun, [format!("begun      {one}"), format!("begun      {two}")]);
        assert!(text.contains("101, no end is recorded yet"), "{text}");
    }

    #[test]
    fn refusal_names_reason_message_and_hop() {
        let mut event = exec("ResponseComplete", "2026-11-25T03:00:00.000000Z");
        event["responseStatus"] = json!({"code": 403, "reason": "Forbidden", "message": "you may not"});
        event["annotations"]["kubectl-mc.dev/hop"] = json!("host authorization");
        let text = tell(&[event]);
        assert!(
            text.contains("outcome    403 Forbidden: you may not\nstopped at host authorization\n"),
            "{text}"
        );
    }
}
