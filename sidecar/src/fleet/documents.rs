//! Merges the documents by which clients discover the members' APIs: the union of all groups, versions and resources. Where
//! members differ, the first one that has an entry decides.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value};

/// The union of documents of one kind.
#[derive(Debug, Default)]
pub struct Union {
    document: Option<Value>,
    /// The length of its text, about.
    length: usize,
}

impl Union {
    /// Adds a member's document.
    ///
    /// # Errors
    ///
    /// It is of another kind, as of another version of Kubernetes, and adds nothing, or there is no room for all it adds.
    pub fn add(&mut self, document: Value) -> Result<(), Error> {
        let Some(union) = &mut self.document else {
            self.length = document.to_string().len();
            self.document = Some(document);
            return Ok(());
        };
        if kind(union) != kind(&document) {
            return Err(Error::OtherKind);
        }
        let length = &mut self.length;
        let Some((field, key)) = list_of(kind(&document)) else {
            if let (Some(Value::Object(paths)), Some(Value::Object(more))) =
                (union.get_mut("paths"), document.get("paths"))
            {
                return add_fields(paths, more, length);
            }
            return Ok(());
        };
        let (Some(Value::Array(all)), Some(Value::Array(more))) = (union.get_mut(field), document.get(field))
        else {
            return Ok(());
        };
        add_entries(all, more, key, length)
    }

    pub fn into_document(self) -> Option<Value> {
        self.document
    }
}

/// Why a document is not part of the union.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the document has another form than those of other members")]
    OtherKind,
    #[error("the documents of all members are larger than {} MiB", MAX_LENGTH / 1024 / 1024)]
    TooLarge,
}

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
fn add_entries(all: &mut Vec<Value>, more: &[Value], key: &str, length: &mut usize) -> Result<(), Error> {
    let key_of = |entry: &Value| entry.pointer(key).map(Value::to_string);
    let mut places = HashMap::new();
    for (place, entry) in all.iter().enumerate() {
        places.entry(key_of(entry)).or_insert(place);
    }
    for entry in more {
        match places.entry(key_of(entry)) {
            Entry::Vacant(vacant) => {
                grow(length, entry)?;
                vacant.insert(all.len());
                all.push(entry.clone());
            }
            Entry::Occupied(known) => {
                let known = &mut all[*known.get()];
                for (list, key) in
                    [("versions", "/version"), ("resources", "/resource"), ("subresources", "/subresource")]
                {
                    if let (Some(Value::Array(known)), Some(Value::Array(more))) =
                        (known.get_mut(list), entry.get(list))
                    {
                        add_entries(known, more, key, length)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn add_fields(
    all: &mut Map<String, Value>,
    more: &Map<String, Value>,
    length: &mut usize,
) -> Result<(), Error> {
    for (name, value) in more {
        if !all.contains_key(name) {
            *length += name.len();
            grow(length, value)?;
            all.insert(name.clone(), value.clone());
        }
    }
    Ok(())
}

fn grow(length: &mut usize, value: &Value) -> Result<(), Error> {
    *length += value.to_string().len();
    if *length > MAX_LENGTH { Err(Error::TooLarge) } else { Ok(()) }
}

/// Many times the discovery of a cluster with a thousand definitions.
const MAX_LENGTH: usize = 16 * 1024 * 1024;

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
    fn union_of_many_large_documents_has_a_bound() {
        let list = |of: usize| {
            let groups =
                (0..50).map(|n| json!({"name": format!("{of}.{n}"), "versions": ["x".repeat(20_000)]}));
            json!({"kind": "APIGroupList", "groups": groups.collect::<Vec<_>>()})
        };
        let mut union = Union::default();
        let full = (0..40).find(|of| union.add(list(*of)) == Err(Error::TooLarge));
        assert_eq!(full, Some(MAX_LENGTH / 1_000_000));
        let length = union.into_document().unwrap().to_string().len();
        assert!(length <= MAX_LENGTH, "{length}");
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
        assert_eq!(union.add(versions(&["v1"])), Err(Error::OtherKind));
    }
}
