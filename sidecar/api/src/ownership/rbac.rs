//! Generates the RBAC of one agent from the table of the requests that it needs. The names are those of
//! `karmadactl register`, so applying it narrows the rights that a registration has granted. An agent has
//! only one ClusterRoleBinding, for the kinds without a namespace: the host compares each request with every
//! ClusterRoleBinding, but only with the RoleBindings of one namespace.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::table::{self, Names, Place, Row};
use super::{Layout, execution_namespace, subject};
use crate::names::{KARMADA_AGENT, KUBECTL_MC, MANAGED_BY};

/// Roles and bindings of the agent of this cluster.
pub fn objects(layout: &Layout, cluster: &str) -> Vec<Value> {
    let mut rules: BTreeMap<(String, &str), Vec<Value>> = BTreeMap::new();
    for row in table::AGENT.iter().filter(|row| row.subresource != APPROVAL) {
        let place = match row.place {
            Place::Cluster | Place::Everywhere => (String::new(), "agent"),
            Place::ClusterNamespace => (layout.cluster_namespace.clone(), "agent-secret"),
            Place::Execution => (execution_namespace(cluster), "agent-work"),
            Place::AgentNamespace => (layout.agent_namespace.clone(), "agent-election"),
            Place::Default => ("default".to_owned(), "agent-events"),
        };
        rules.entry(place).or_default().extend(of_row(row, layout, cluster));
    }
    let objects = rules.into_iter().flat_map(|((namespace, suffix), rules)| {
        role_and_binding(&namespace, &format!("system:karmada:{cluster}:{suffix}"), cluster, &rules)
    });
    objects.collect()
}

/// RBAC compares the names of existing objects, and of lists with a field selector for the name. Admission
/// checks the name of a new object.
fn of_row(row: &Row, layout: &Layout, cluster: &str) -> Vec<Value> {
    let names = row.names.listed(cluster);
    let is_unnamed = |verb: &&&str| {
        let lists_all =
            layout.agents_list_clusters && row.names == Names::Cluster && row.place == Place::Cluster;
        names.is_none() || **verb == "create" || (lists_all && ["list", "watch"].contains(verb))
    };
    let (unnamed, named): (Vec<&&str>, Vec<&&str>) = row.verbs.iter().partition(is_unnamed);
    let resource = resource(row);
    let mut rules = Vec::new();
    if !named.is_empty() {
        rules.push(json!({
            "apiGroups": [row.group], "resources": [resource], "resourceNames": names, "verbs": named,
        }));
    }
    if !unnamed.is_empty() {
        rules.push(json!({"apiGroups": [row.group], "resources": [resource], "verbs": unnamed}));
    }
    rules
}

/// `works/status`
fn resource(row: &Row) -> String {
    match row.subresource {
        "" => row.resource.to_owned(),
        subresource => format!("{}/{subresource}", row.resource),
    }
}

fn role_and_binding(namespace: &str, name: &str, cluster: &str, rules: &[Value]) -> [Value; 2] {
    let (role, binding) =
        if namespace.is_empty() { ("ClusterRole", "ClusterRoleBinding") } else { ("Role", "RoleBinding") };
    let mut metadata = json!({"name": name, "labels": {MANAGED_BY: KUBECTL_MC, KARMADA_AGENT: cluster}});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    let version = format!("{GROUP}/v1");
    [
        json!({"apiVersion": version, "kind": role, "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": version, "kind": binding, "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": role, "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": subject::user(cluster)}],
        }),
    ]
}

const GROUP: &str = "rbac.authorization.k8s.io";
/// Karmada grants this to the group of all agents, unless an administrator approves certificates by
/// hand.
const APPROVAL: &str = "selfclusteragent";

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(layout: &Layout, name: &str) -> Vec<Value> {
        let objects = objects(layout, "m1");
        let is_role = |object: &&Value| {
            object["metadata"]["name"] == format!("system:karmada:m1:{name}")
                && object["kind"].as_str().is_some_and(|kind| kind.ends_with("Role"))
        };
        objects.iter().find(is_role).unwrap()["rules"].as_array().unwrap().clone()
    }

    #[test]
    fn rights_on_clusters_are_limited_by_name() {
        let rules = rules(&Layout::default(), "agent");
        assert_eq!(
            rules[..3],
            [
                json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "resourceNames": ["m1"],
                    "verbs": ["get", "list", "watch", "delete"]}),
                json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["create"]}),
                json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/status"],
                    "resourceNames": ["m1"], "verbs": ["update"]}),
            ]
        );
        assert!(
            !rules
                .iter()
                .any(|rule| rule.to_string().contains("secrets") || rule.to_string().contains("leases"))
        );
    }

    #[test]
    fn agents_list_clusters_grants_lists_of_all_clusters() {
        let rules = rules(&Layout { agents_list_clusters: true, ..Layout::default() }, "agent");
        assert_eq!(rules[1]["verbs"], json!(["list", "watch", "create"]));
        assert!(rules[1]["resourceNames"].is_null());
    }

    #[test]
    fn secrets_and_leases_are_in_their_namespaces() {
        let rules = rules(&Layout::default(), "agent-secret");
        assert_eq!(rules[0]["resourceNames"], json!(["m1", "m1-impersonator"]));
        assert_eq!(rules[2]["resources"], json!(["leases"]));
        let places: Vec<_> = objects(&Layout::default(), "m1")
            .iter()
            .map(|object| {
                let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
                format!("{} {}", text(&object["kind"]), text(&object["metadata"]["namespace"]))
            })
            .collect();
        assert_eq!(
            places,
            [
                "ClusterRole -",
                "ClusterRoleBinding -",
                "Role default",
                "RoleBinding default",
                "Role karmada-cluster",
                "RoleBinding karmada-cluster",
                "Role karmada-es-m1",
                "RoleBinding karmada-es-m1",
                "Role karmada-system",
                "RoleBinding karmada-system",
            ]
        );
    }
}
