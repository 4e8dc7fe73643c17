//! Implements `kubectl mc access list`: prints the ClusterAccesses of the host and the grants by name as one
//! table.

use http::{Method, StatusCode};
use jiff::Timestamp;
use kubectl_mc_api::cluster_access::RoleKind;
use kubectl_mc_api::names::{FLEET_GROUP, FLEET_GROUP_VERSION, HOST_GRANT};
use kubectl_mc_api::{ClusterName, age, path};
use serde_json::{Value, json};

use super::role::host_prefix;
use crate::cli::{AccessFormat, AccessListArgs};
use crate::cluster::connection::Connection;
use crate::cluster::fields::{condition, into_items};
use crate::error::{CommandLine, Failure, Hint, mc};
use crate::exit::ExitStatus;
use crate::json;
use crate::multi::direct::render_table;
use crate::printer::Printer;
use crate::yaml;

pub(super) async fn run(
    arguments: &AccessListArgs,
    clusters: Option<&[ClusterName]>,
    host: &Connection,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let AccessListArgs { output, no_headers } = arguments;
    let (accesses, now) = accesses(host).await?;
    let bindings =
        host.readable(&format!("/apis/{RBAC}/clusterrolebindings?labelSelector={HOST_GRANT}")).await?;
    if bindings.is_none() {
        printer.note_line("grants by name are not shown: you may not list the host's ClusterRoleBindings");
    }
    let is_shown = |names: Vec<&str>| {
        clusters.is_none_or(|shown| names.iter().any(|name| shown.iter().any(|one| one.as_str() == *name)))
    };
    let accesses = typed(accesses, FLEET_GROUP_VERSION, "ClusterAccess");
    let accesses: Vec<_> = accesses.into_iter().filter(|access| is_shown(clusters_of(access))).collect();
    let bindings = typed(bindings.unwrap_or_default(), RBAC, "ClusterRoleBinding");
    let bindings: Vec<_> =
        bindings.into_iter().filter(|binding| is_shown(vec![granted_cluster(binding)])).collect();

    let objects = || accesses.iter().chain(&bindings).cloned().collect::<Vec<_>>();
    match output {
        None | Some(AccessFormat::Wide) => {
            let rows =
                accesses.iter().map(|access| of_access(access, now)).chain(bindings.iter().map(of_binding));
            let table = table(rows.collect());
            match render_table(&table, output.is_some(), *no_headers).0 {
                text if text.is_empty() => printer.note("No grants found\n"),
                text => printer.out(&text),
            }
        }
        Some(AccessFormat::Name) => {
            for object in objects() {
                let group = object["apiVersion"].as_str().unwrap_or_default().split('/').next();
                let kind = text(&object, "kind").to_lowercase();
                printer.out_line(&format!("{kind}.{}/{}", group.unwrap_or_default(), name(&object)));
            }
        }
        Some(AccessFormat::Json) => printer.out(&(json::text(&list(objects()), 0) + "\n")),
        Some(AccessFormat::Yaml) => printer.out(&yaml::text(&list(objects()), 0)),
    }
    Ok(ExitStatus::Success)
}

/// The ClusterAccesses, and the host's clock. The list is empty if the host does not serve the kind.
async fn accesses(host: &Connection) -> Result<(Value, Timestamp), Failure> {
    let answer = host.send(Method::GET, path::CLUSTER_ACCESSES_PATH, None).await?;
    let now = answer.date.unwrap_or_else(Timestamp::now);
    match answer.status {
        status if status.is_success() => Ok((answer.json(), now)),
        StatusCode::NOT_FOUND => Ok((Value::Null, now)),
        StatusCode::FORBIDDEN => {
            let text =
                format!("the {}, refused to list ClusterAccesses: {}", host.describe(), answer.message());
            let may = format!("{} auth can-i list clusteraccesses.{FLEET_GROUP}", host.cluster.kubectl());
            let hint = Hint::from("ask an admin of the host for the right to list them")
                .and(CommandLine::new(may).after("see"))
                .and(mc("access explain").that("shows your own access"));
            Err(Failure::new(text).with_hint(hint))
        }
        _ => Err(host.refused("list ClusterAccesses".to_owned(), &answer).into()),
    }
}

/// The objects of a list. Sets the type, which items of a list may lack.
fn typed(list: Value, api_version: &str, kind: &str) -> Vec<Value> {
    let mut items = into_items(list);
    for item in &mut items {
        item["apiVersion"] = api_version.into();
        item["kind"] = kind.into();
    }
    items
}

fn list(items: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
}

/// A table in the format of a server's Table.
fn table(rows: Vec<Vec<String>>) -> Value {
    let column = |name: &str, priority: u8| json!({"name": name, "type": "string", "priority": priority});
    json!({
        "kind": "Table",
        "columnDefinitions": [
            column("Name", 0), column("Subjects", 0), column("Role", 0), column("Namespaces", 0), column("Clusters", 0),
            column("Expires", 0), column("Ready", 0), column("Selection", 1), column("Message", 1),
        ],
        "rows": rows.into_iter().map(|cells| json!({"cells": cells})).collect::<Vec<_>>(),
    })
}

fn of_access(access: &Value, now: Timestamp) -> Vec<String> {
    let (spec, status) = (&access["spec"], &access["status"]);
    let names = |list: &Value| {
        let names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        Some(names.collect::<Vec<_>>().join(",")).filter(|names| !names.is_empty())
    };
    let ready = condition(access, "Ready");
    let ready_text = ready.map_or("Unknown", |ready| match text(ready, "status") {
        "True" => "True",
        _ => text(ready, "reason"),
    });
    vec![
        name(access).to_owned(),
        subjects(&spec["subjects"]),
        role(&spec["roleRef"]),
        names(&spec["namespaces"]).unwrap_or_else(|| ALL.to_owned()),
        status["summary"].as_str().unwrap_or("-").to_owned(),
        spec["expirationTimestamp"].as_str().map_or_else(|| "-".to_owned(), |end| remaining(end, now)),
        ready_text.to_owned(),
        names(&spec["clusters"]).unwrap_or_else(|| selection(&spec["clusterSelector"])),
        ready.map_or("", |ready| text(ready, "message")).to_owned(),
    ]
}

fn of_binding(binding: &Value) -> Vec<String> {
    let cluster = granted_cluster(binding);
    let host_role = text(&binding["roleRef"], "name");
    let of_role = host_role.strip_prefix(&host_prefix(RoleKind::Role, cluster));
    let (role, namespace) = match of_role.and_then(|rest| rest.split_once(':')) {
        Some((namespace, role)) => (format!("role/{role}"), namespace),
        None => {
            let role = host_role.strip_prefix(&host_prefix(RoleKind::ClusterRole, cluster));
            // kubectl-mc:CLUSTER:ROLE@NAMESPACE:SUBJECT
            let rest = name(binding).strip_prefix(host_role).and_then(|rest| rest.strip_prefix('@'));
            let namespace = rest.and_then(|rest| rest.split(':').next()).unwrap_or(ALL);
            (role.unwrap_or(host_role).to_owned(), namespace)
        }
    };
    let row = ["-", &subjects(&binding["subjects"]), &role, namespace, cluster, "-", "-", cluster, ""];
    row.map(str::to_owned).to_vec()
}

/// A role reference in the notation of `access grant`.
pub(super) fn role(reference: &Value) -> String {
    let name = text(reference, "name");
    if reference["kind"] == "Role" { format!("role/{name}") } else { name.to_owned() }
}

/// The cluster of a grant by name.
fn granted_cluster(binding: &Value) -> &str {
    text(&binding["metadata"]["labels"], HOST_GRANT)
}

/// The known clusters of a ClusterAccess.
fn clusters_of(access: &Value) -> Vec<&str> {
    let named = access["spec"]["clusters"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let selected = access["status"]["clusters"].as_array().into_iter().flatten();
    named.chain(selected.filter_map(|cluster| cluster["name"].as_str())).collect()
}

pub(super) fn subjects(list: &Value) -> String {
    let subject = |subject: &Value| {
        let (kind, name) = (text(subject, "kind").to_lowercase(), text(subject, "name"));
        match subject["namespace"].as_str() {
            Some(namespace) => format!("{kind}:{namespace}:{name}"),
            None => format!("{kind}:{name}"),
        }
    };
    list.as_array().into_iter().flatten().map(subject).collect::<Vec<_>>().join(",")
}

/// A selector in the notation of kubectl's flags.
pub(super) fn selection(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|expression| {
        let key = text(expression, "key");
        let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let values = values.collect::<Vec<_>>().join(",");
        match text(expression, "operator") {
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            operator => format!("{key} {} ({values})", operator.to_lowercase()),
        }
    });
    let parts: Vec<_> = labels.chain(expressions).collect();
    if parts.is_empty() { ALL.to_owned() } else { parts.join(",") }
}

/// The time until the end.
fn remaining(end: &str, now: Timestamp) -> String {
    match end.parse::<Timestamp>() {
        Ok(end) if end <= now => "expired".to_owned(),
        Ok(end) => age::human(end.duration_since(now).unsigned_abs()),
        Err(_) => end.to_owned(),
    }
}

fn name(object: &Value) -> &str {
    text(&object["metadata"], "name")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Every namespace, or every cluster.
pub(super) const ALL: &str = "<all>";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-23T09:00:00Z".parse().unwrap()
    }

    #[test]
    fn cluster_access_becomes_a_row() {
        let access = json!({
            "metadata": {"name": "on-call"},
            "spec": {
                "subjects": [{"kind": "User", "name": "jane"}, {"kind": "ServiceAccount", "name": "bot", "namespace": "ci"}],
                "roleRef": {"name": "edit"}, "namespaces": ["shop", "web"],
                "clusterSelector": {
                    "matchLabels": {"env": "prod"},
                    "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["a", "b"]}, {"key": "gpu", "operator": "Exists"}],
                },
                "expirationTimestamp": "2026-11-23T16:00:00Z",
            },
            "status": {
                "summary": "3/4", "clusters": [{"name": "m1"}],
                "conditions": [{"type": "Ready", "status": "False", "reason": "NotGranted", "message": "not on: m4"}],
            },
        });
        let selection = "env=prod,tier notin (a,b),gpu";
        let row = [
            "on-call",
            "user:jane,serviceaccount:ci:bot",
            "edit",
            "shop,web",
            "3/4",
            "7h",
            "NotGranted",
            selection,
            "not on: m4",
        ];
        assert_eq!(of_access(&access, now()), row);
        assert_eq!(clusters_of(&access), ["m1"]);
        assert_eq!(role(&json!({"kind": "Role", "name": "deployer"})), "role/deployer");
        assert_eq!(role(&json!({"kind": "ClusterRole", "name": "view"})), "view");
        let bare = of_access(
            &json!({"spec": {"clusters": ["m1"], "expirationTimestamp": "2026-11-23T09:00:00Z"}}),
            now(),
        );
        assert_eq!(bare, ["", "", "", "<all>", "-", "expired", "Unknown", "m1", ""]);
    }

    #[test]
    fn grant_by_name_becomes_a_row() {
        let binding = |name: &str| {
            json!({
                "metadata": {"name": name, "labels": {HOST_GRANT: "m1"}}, "roleRef": {"name": "kubectl-mc:m1:view"},
                "subjects": [{"kind": "Group", "name": "dev"}],
            })
        };
        let row = of_binding(&binding("kubectl-mc:m1:view@shop:group:dev"));
        assert_eq!(row[..5], ["-", "group:dev", "view", "shop", "m1"]);
        assert_eq!(of_binding(&binding("kubectl-mc:m1:view:group:dev"))[3], "<all>");
        let mut of_role = binding("kubectl-mc-role:m1:shop:deployer:group:dev");
        of_role["roleRef"]["name"] = "kubectl-mc-role:m1:shop:deployer".into();
        assert_eq!(of_binding(&of_role)[2..4], ["role/deployer", "shop"]);
    }

    #[test]
    fn rows_become_a_table() {
        let row = of_binding(&json!({"metadata": {"labels": {HOST_GRANT: "m1"}}}));
        let (text, _) = render_table(&table(vec![row]), false, false);
        assert!(
            text.starts_with("NAME   SUBJECTS   ROLE   NAMESPACES   CLUSTERS   EXPIRES   READY\n"),
            "{text}"
        );
    }
}
