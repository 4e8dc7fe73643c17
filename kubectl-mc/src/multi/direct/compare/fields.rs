//! An object as a map from field paths to texts, without the fields that a cluster writes itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::server_text::is_unsafe;

/// The fields of an object by their paths.
pub(super) fn of(object: &Value) -> BTreeMap<String, String> {
    let mut object = object.clone();
    for (parent, name) in OF_THE_CLUSTER {
        if let Some(fields) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            fields.remove(*name);
        }
    }
    let mut fields = BTreeMap::new();
    walk("", &object, &mut fields);
    fields
}

/// Whether a Secret keeps its values there, or copies of them.
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
                // Containers, ports and variables are known by their names, wherever they stand.
                let key = by_name(items, item).map_or_else(|| at.to_string(), |name| format!("name={name}"));
                walk(&format!("{path}[{key}]"), item, fields);
            }
        }
        Value::String(text) => drop(fields.insert(path.to_owned(), one_line(text))),
        other => drop(fields.insert(path.to_owned(), other.to_string())),
    }
}

/// The name of an item in a list whose items all have one of their own.
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

/// A text that stays on its line and in its column.
fn one_line(text: &str) -> String {
    if text.chars().any(is_unsafe) || text.is_empty() { format!("{text:?}") } else { text.to_owned() }
}

/// Parents and names of what each cluster writes of itself.
const OF_THE_CLUSTER: &[(&str, &str)] = &[
    ("", "status"),
    ("/metadata", "creationTimestamp"),
    ("/metadata", "generation"),
    ("/metadata", "managedFields"),
    ("/metadata", "ownerReferences"),
    ("/metadata", "resourceVersion"),
    ("/metadata", "selfLink"),
    ("/metadata", "uid"),
    ("/metadata/annotations", "deployment.kubernetes.io/revision"),
    ("/metadata/annotations", "kubectl.kubernetes.io/last-applied-configuration"),
    ("/spec", "clusterIP"),
    ("/spec", "clusterIPs"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_paths_and_items_their_names() {
        let object = serde_json::json!({
            "metadata": {"uid": "1", "labels": {"a/b": "c"}, "annotations": {"deployment.kubernetes.io/revision": "2"}},
            "spec": {"containers": [{"name": "x", "image": "i"}], "args": ["a", "b\nc"]}, "status": {"x": 1},
        });
        let fields: Vec<_> = of(&object).into_iter().collect();
        let expected = [
            (".metadata.annotations", "{}"),
            (".metadata.labels[\"a/b\"]", "c"),
            (".spec.args[0]", "a"),
            (".spec.args[1]", "\"b\\nc\""),
            (".spec.containers[name=x].image", "i"),
            (".spec.containers[name=x].name", "x"),
        ];
        assert_eq!(fields, expected.map(|(path, value)| (path.to_owned(), value.to_owned())));
    }
}
