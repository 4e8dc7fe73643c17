//! Generates a member's pods for each request: as tables, objects or names, in chunks, and as large as real
//! pods.

/// The answer to a path below `/many/<pods>`: its content type and body.
pub(crate) fn answer(target: &str, accept: &str) -> (&'static str, String) {
    let path = target.split('?').next().unwrap_or_default();
    let count = path.strip_prefix(ROOT).and_then(|rest| rest.split('/').next()?.parse().ok()).unwrap_or(0);
    if path.ends_with("/pods") {
        let from = query(target, "continue").and_then(|token| token.parse().ok()).unwrap_or(0);
        let limit = query(target, "limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let to = count.min(usize::saturating_add(from, limit));
        return ("application/json", list(from..to, count, accept.contains("as=Table")));
    }
    let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    if path.ends_with("/api") {
        return (discovery, CORE.to_owned());
    }
    if path.ends_with("/apis") {
        return (
            discovery,
            r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}"#.to_owned(),
        );
    }
    ("application/json", r#"{"major":"1","minor":"36","gitVersion":"v1.36.3"}"#.to_owned())
}

/// The prefix of member paths.
pub(crate) const ROOT: &str = "/many/";

fn query<'a>(target: &'a str, name: &str) -> Option<&'a str> {
    let (_, query) = target.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

fn list(range: std::ops::Range<usize>, count: usize, table: bool) -> String {
    let next = if range.end < count { format!(r#","continue":"{}""#, range.end) } else { String::new() };
    let metadata = format!(r#"{{"resourceVersion":"1000"{next}}}"#);
    let items: Vec<String> = range.map(|number| if table { row(number) } else { pod(number) }).collect();
    let items = items.join(",");
    if table {
        let kind = r#""kind":"Table","apiVersion":"meta.k8s.io/v1""#;
        return format!(r#"{{{kind},"metadata":{metadata},"columnDefinitions":{COLUMNS},"rows":[{items}]}}"#);
    }
    format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{metadata},"items":[{items}]}}"#)
}

fn row(number: usize) -> String {
    let name = name(number);
    format!(
        r#"{{"cells":["{name}","1/1","Running","0","5d3h","10.1.2.3","node-1","<none>","<none>"],
        "object":{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{}}}}}"#,
        metadata(&name)
    )
}

fn pod(number: usize) -> String {
    let name = name(number);
    let environment: Vec<_> = (0..20)
        .map(|at| format!(r#"{{"name":"VARIABLE_{at}","value":"the value of a variable, {at}"}}"#))
        .collect();
    format!(
        r#"{{"metadata":{},"spec":{{"containers":[{{"name":"main","image":"registry.example/web:1.2.3",
        "env":[{}],"resources":{{"limits":{{"cpu":"100m","memory":"128Mi"}}}}}}],"nodeName":"node-1"}},
        "status":{{"phase":"Running","podIP":"10.1.2.3","startTime":"2026-11-16T12:00:00Z"}}}}"#,
        metadata(&name),
        environment.join(",")
    )
}

fn name(number: usize) -> String {
    format!("web-7d4b9c6f5d-{number:05}")
}

fn metadata(name: &str) -> String {
    let managed: Vec<_> =
        (0..30).map(|at| format!(r#""f:field{at}":{{"f:inner":{{}},"f:other":{{}}}}"#)).collect();
    format!(
        r#"{{"name":"{name}","namespace":"default","uid":"6a4f9b0e-93a3-4a27-8f07-0f6a3a3f2b1c",
        "resourceVersion":"1234","creationTimestamp":"2026-11-16T12:00:00Z",
        "labels":{{"app":"web","pod-template-hash":"7d4b9c6f5d"}},
        "managedFields":[{{"manager":"kubelet","operation":"Update","apiVersion":"v1","fieldsV1":{{{}}}}}]}}"#,
        managed.join(",")
    )
}

const COLUMNS: &str = r#"[{"name":"Name","type":"string","format":"name","priority":0},
    {"name":"Ready","type":"string","priority":0},{"name":"Status","type":"string","priority":0},
    {"name":"Restarts","type":"string","priority":0},{"name":"Age","type":"string","priority":0},
    {"name":"IP","type":"string","priority":1},{"name":"Node","type":"string","priority":1},
    {"name":"Nominated Node","type":"string","priority":1},{"name":"Readiness Gates","type":"string","priority":1}]"#;
const CORE: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":""},
    "versions":[{"version":"v1","freshness":"Current","resources":[{"resource":"pods","scope":"Namespaced",
    "responseKind":{"group":"","version":"v1","kind":"Pod"},"singularResource":"pod",
    "verbs":["get","list","watch"],"shortNames":["po"],"categories":["all"]}]}]}]}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_chunked_valid_json() {
        let (_, body) =
            answer("/many/10/api/v1/namespaces/default/pods?limit=4&continue=8", "application/json");
        let list: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
        assert!(list["metadata"]["continue"].is_null());
        let (_, body) =
            answer("/many/10/api/v1/namespaces/default/pods?limit=4", "application/json;as=Table;v=v1");
        let table: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (table["rows"].as_array().map(Vec::len), &table["metadata"]["continue"]),
            (Some(4), &"4".into())
        );
        assert!(serde_json::from_str::<serde_json::Value>(CORE).is_ok());
    }
}
