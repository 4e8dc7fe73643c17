//! Converts an object into a map from field paths to texts, without the fields that a cluster sets itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The fields of an object by their paths, without those that a cluster sets itself.
pub(super) fn of(object: &Value) -> BTreeMap<String, String> {
    let mut object = object.clone();
    for (parent, name) in OF_THE_CLUSTER {
        if let Some(fields) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            // A headless Service has no cluster IP.
            let is_chosen = |value: &Value| *value == "None" || *value == serde_json::json!(["None"]);
            if !fields.get(*name).is_some_and(is_chosen) {
                fields.remove(*name);
            }
        }
    }
    remove_unset_timestamps(&mut object);
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten().filter_map(Value::as_object_mut) {
        owner.remove("uid");
    }
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    if annotations.is_some_and(Map::is_empty)
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.remove("annotations");
    }
    all(&object)
}

/// Removes unset timestamps: Kubernetes before 1.34 writes `creationTimestamp: null` into the metadata of
/// templates, and later versions omit it.
fn remove_unset_timestamps(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("creationTimestamp").is_some_and(Value::is_null) {
                fields.remove("creationTimestamp");
            }
            fields.values_mut().for_each(remove_unset_timestamps);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_unset_timestamps),
        _ => {}
    }
}

/// All fields of an object by their paths.
pub(super) fn all(object: &Value) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    walk("", object, &mut fields);
    fields
}

/// Whether every cluster generates this object itself, such as its CA or its tokens.
pub(super) fn is_of_the_cluster(object: &Value) -> bool {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    match text("/kind") {
        "ConfigMap" => OWN_CONFIG_MAPS.contains(&text("/metadata/name")),
        "Secret" => text("/type") == "kubernetes.io/service-account-token",
        _ => false,
    }
}

/// Whether the field contains values of a Secret, or copies of them.
pub(super) fn is_secret(field: &str) -> bool {
    [".data", ".stringData", ".metadata.annotations"].iter().any(|secret| field.starts_with(secret))
}

fn walk(path: &str, value: &Value, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(inner) if !inner.is_empty() => {
            for (name, value) in inner {
                let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
                let path = if plain { format!("{path}.{name}") } else { format!("{path}[{name:?}]") };
                walk(&path, value, fields);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                // Containers, ports and variables are identified by their names, at any position.
                let key = by_name(items, item).map_or_else(|| at.to_string(), |name| format!("name={name}"));
                walk(&format!("{path}[{key}]"), item, fields);
            }
        }
        Value::String(text) if text.is_empty() => drop(fields.insert(path.to_owned(), "\"\"".to_owned())),
        Value::String(text) => drop(fields.insert(path.to_owned(), text.clone())),
        other => drop(fields.insert(path.to_owned(), other.to_string())),
    }
}

/// The name of a list item, if all items have unique names.
fn by_name<'a>(items: &[Value], item: &'a Value) -> Option<&'a str> {
    let name = |item: &'a Value| item.as_object().and_then(named);
    let mine = name(item)?;
    let mut names: Vec<_> =
        items.iter().map(|item| item.as_object().and_then(named)).collect::<Option<_>>()?;
    names.sort_unstable();
    names.windows(2).all(|pair| pair[0] != pair[1]).then_some(mine)
}

fn named(fields: &Map<String, Value>) -> Option<&str> {
    fields.get("name").and_then(Value::as_str)
}

/// Parents and names of the fields that each cluster sets itself.
const OF_THE_CLUSTER: &[(&str, &str)] = &[
    ("", "status"),
    ("/metadata", "creationTimestamp"),
    ("/metadata", "generation"),
    ("/metadata", "managedFields"),
    ("/metadata", "resourceVersion"),
    ("/metadata", "selfLink"),
    ("/metadata", "uid"),
    ("/metadata/annotations", "deployment.kubernetes.io/revision"),
    ("/metadata/annotations", "kubectl.kubernetes.io/last-applied-configuration"),
    ("/metadata/annotations", "pv.kubernetes.io/bind-completed"),
    ("/metadata/annotations", "pv.kubernetes.io/bound-by-controller"),
    ("/metadata/annotations", "volume.kubernetes.io/selected-node"),
    ("/spec", "clusterIP"),
    ("/spec", "clusterIPs"),
    ("/spec", "healthCheckNodePort"),
    ("/spec", "nodeName"),
    ("/spec", "volumeName"),
    ("/spec/claimRef", "resourceVersion"),
    ("/spec/claimRef", "uid"),
];

/// ConfigMaps that Kubernetes, OpenShift and Istio create in each namespace.
const OWN_CONFIG_MAPS: &[&str] = &["kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_paths_and_items_their_names() {
        let object = serde_json::json!({
            "metadata": {"uid": "1", "labels": {"a/b": "c"}, "annotations": {"deployment.kubernetes.io/revision": "2"},
                "ownerReferences": [{"name": "o", "uid": "2"}]},
            "spec": {"containers": [{"name": "x", "image": "i"}], "args": ["a", "b\nc"], "clusterIP": "10.0.0.1"},
            "status": {"x": 1},
        });
        let fields: Vec<_> = of(&object).into_iter().collect();
        let expected = [
            (".metadata.labels[\"a/b\"]", "c"),
            (".metadata.ownerReferences[name=o].name", "o"),
            (".spec.args[0]", "a"),
            (".spec.args[1]", "b\nc"),
            (".spec.containers[name=x].image", "i"),
            (".spec.containers[name=x].name", "x"),
        ];
        assert_eq!(fields, expected.map(|(path, value)| (path.to_owned(), value.to_owned())));
        assert!(all(&object).contains_key(".metadata.uid") && all(&object).contains_key(".status.x"));
    }

    #[test]
    fn unset_timestamps_of_templates_are_not_compared() {
        let template = |metadata: serde_json::Value| {
            serde_json::json!({"spec": {
                "template": {"metadata": metadata}, "volumeClaimTemplates": [{"metadata": metadata}],
            }})
        };
        let (old, new) = (
            template(serde_json::json!({"creationTimestamp": null, "name": "x"})),
            template(serde_json::json!({"name": "x"})),
        );
        assert_eq!(of(&old), of(&new));
        assert_ne!(all(&old), all(&new));
        // Any other null comes from a user.
        assert_ne!(of(&template(serde_json::json!({"other": null, "name": "x"}))), of(&new));
    }

    #[test]
    fn headless_service_differs_from_one_with_address() {
        let service = |ip: &str| of(&serde_json::json!({"spec": {"clusterIP": ip, "clusterIPs": [ip]}}));
        assert_eq!(service("10.0.0.1"), service("10.0.0.2"));
        assert_ne!(service("10.0.0.1"), service("None"));
    }

    #[test]
    fn objects_generated_per_cluster_are_recognized() {
        let is = |kind: &str, name: &str, of_type: &str| {
            is_of_the_cluster(&serde_json::json!({"kind": kind, "type": of_type, "metadata": {"name": name}}))
        };
        assert!(
            is("ConfigMap", "kube-root-ca.crt", "")
                && is("Secret", "x", "kubernetes.io/service-account-token")
        );
        assert!(!is("ConfigMap", "mine", "") && !is("Secret", "kube-root-ca.crt", "Opaque"));
    }
}
