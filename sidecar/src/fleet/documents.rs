//! Merges the documents by which clients discover the members' APIs: the union of all groups, versions and resources. Where
//! members differ, the first one that has an entry decides.

use serde_json::{Map, Value};

/// The union of documents of one kind.
#[derive(Debug, Default)]
pub struct Union(Option<Value>);

impl Union {
    /// Adds a member's document. One of another kind, as of another version of Kubernetes, adds nothing; that is an error.
    pub fn add(&mut self, document: Value) -> Result<(), OtherKind> {
        let Some(union) = &mut self.0 else {
            self.0 = Some(document);
            return Ok(());
        };
        if kind(union) != kind(&document) {
            return Err(OtherKind);
        }
        let Some((field, key)) = list_of(kind(&document)) else {
            if let (Some(Value::Object(paths)), Some(Value::Object(more))) =
                (union.get_mut("paths"), document.get("paths"))
            {
                add_fields(paths, more);
            }
            return Ok(());
        };
        let (Some(Value::Array(all)), Some(Value::Array(more))) = (union.get_mut(field), document.get(field))
        else {
            return Ok(());
        };
        add_entries(all, more, key);
        Ok(())
    }

    pub fn into_document(self) -> Option<Value> {
        self.0
    }
}

/// The document is of another kind than the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the document has another form than those of other members")]
pub struct OtherKind;

fn kind(document: &Value) -> &str {
    document.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// The list of a kind of document, and the field that identifies an entry.
fn list_of(kind: &str) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        "APIGroupDiscoveryList" => ("items", "/metadata/name"),
        "APIGroupList" => ("groups", "/name"),
        "APIGroup" => ("versions", "/version"),
        "APIResourceList" => ("resources", "/name"),
        "APIVersions" => ("versions", ""),
        _ => return None,
    })
}

/// Adds the entries that are new. In both lists an entry with the same key may have versions and resources of its own.
fn add_entries(all: &mut Vec<Value>, more: &[Value], key: &str) {
    for entry in more {
        let known = all.iter_mut().find(|known| known.pointer(key) == entry.pointer(key));
        match known {
            None => all.push(entry.clone()),
            Some(known) => {
                for (list, key) in
                    [("versions", "/version"), ("resources", "/resource"), ("subresources", "/subresource")]
                {
                    if let (Some(Value::Array(known)), Some(Value::Array(more))) =
                        (known.get_mut(list), entry.get(list))
                    {
                        add_entries(known, more, key);
                    }
                }
            }
        }
    }
}

fn add_fields(all: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, value) in more {
        all.entry(name).or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn union(documents: impl IntoIterator<Item = Value>) -> Value {
        let mut union = Union::default();
        documents.into_iter().for_each(|document| union.add(document).unwrap());
        union.into_document().unwrap()
    }

    #[test]
    fn union_has_the_resources_of_all_members() {
        let group = |name: &str, version: &str, resource: &str| {
            let resources = json!([{"resource": resource, "subresources": [{"subresource": "status"}]}]);
            json!({"metadata": {"name": name}, "versions": [{"version": version, "resources": resources}]})
        };
        let list = |groups: Value| json!({"kind": "APIGroupDiscoveryList", "items": groups});
        let merged = union([
            list(json!([group("apps", "v1", "deployments")])),
            list(json!([group("apps", "v1", "replicasets"), group("apps", "v2", "deployments")])),
            list(json!([group("example.com", "v1", "widgets"), group("apps", "v1", "deployments")])),
        ]);
        let resources = |at: &str| merged.pointer(at).unwrap().as_array().unwrap().len();
        assert_eq!(merged["items"].as_array().unwrap().len(), 2);
        assert_eq!((resources("/items/0/versions"), resources("/items/0/versions/0/resources")), (2, 2));
        assert_eq!(resources("/items/0/versions/0/resources/0/subresources"), 1);
    }

    #[test]
    fn old_forms_are_merged() {
        let groups = |names: &[&str]| json!({"kind": "APIGroupList", "groups": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
        assert_eq!(union([groups(&["a", "b"]), groups(&["b", "c"])]), groups(&["a", "b", "c"]));
        let versions = |all: &[&str]| json!({"kind": "APIVersions", "versions": all});
        assert_eq!(union([versions(&["v1"]), versions(&["v1", "v2"])]), versions(&["v1", "v2"]));
        let paths = |name: &str| json!({"paths": {name: {"serverRelativeURL": "/x"}}});
        assert_eq!(union([paths("a"), paths("b")])["paths"].as_object().unwrap().len(), 2);
        let mut union = Union::default();
        union.add(groups(&["a"])).unwrap();
        assert_eq!(union.add(versions(&["v1"])), Err(OtherKind));
    }
}
