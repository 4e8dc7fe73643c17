//! Renames the documents of one member as the fleet view shows them: objects, rows of Tables and events of watches.
//! Every name gets the suffix of the member that sent it, whatever the response claims.

use std::sync::{Arc, OnceLock};

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::fleet::names;
use kubectl_mc_api::fleet::references::{self, Type};
use serde_json::{Value, json};

use super::bodies::{MAX_VALUES, values_are_at_most};
use super::cells::Columns;
use super::items::{Error, Items};

/// Renames what one member sends in one answer.
#[derive(Debug)]
pub struct Renamer {
    member: ClusterName,
    of: Type,
    /// The columns that the client gets, from the first Table of all members.
    shown: Shown,
    /// The columns of this member, once its Table is known to be one.
    columns: Option<Columns>,
    is_known: bool,
}

/// The columns of a Table that several members fill.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    columns: Arc<OnceLock<Columns>>,
    /// Whether a column names the member.
    with_cluster: bool,
}

impl Shown {
    pub fn new(with_cluster: bool) -> Self {
        Self { columns: Arc::default(), with_cluster }
    }

    /// The definitions for the client, once there is a Table.
    pub fn definitions(&self) -> Option<Value> {
        Some(self.columns.get()?.definitions(self.with_cluster))
    }
}

/// An event of a watch.
#[derive(Debug)]
pub struct Event {
    pub kind: Kind,
    /// The resource version on the member.
    pub version: Option<u64>,
    /// Kind and apiVersion of the object.
    pub of: Option<(String, String)>,
    /// The event as a line for the client.
    pub line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Change,
    Bookmark,
    /// An error with this code.
    Error(u64),
}

impl Renamer {
    pub fn new(member: ClusterName, of: Type, shown: Shown) -> Self {
        Self { member, of, shown, columns: None, is_known: false }
    }

    /// Whether the member sends a Table.
    pub fn is_table(&self) -> bool {
        self.columns.is_some()
    }

    /// An element of a list: an object, or the row of a Table.
    pub fn element(&mut self, list: &Items, element: &[u8]) -> Result<Vec<u8>, Error> {
        if !self.is_known {
            self.is_known = true;
            if let Some(before) = list.before_items().filter(is_table) {
                self.learn(&before);
            }
        }
        let mut element = parse(element, Error::NotAList)?;
        self.rename_element(&mut element)?;
        Ok(element.to_string().into_bytes())
    }

    /// The fields of a list besides its elements.
    pub fn rest(&self, list: &mut Value) {
        self.rename_list(list);
        if is_table(list)
            && let Some(definitions) = self.shown.definitions()
        {
            list["columnDefinitions"] = definitions;
        }
    }

    /// A complete document: an object, a list, a Table or a Status.
    pub fn document(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let mut document = parse(bytes, Error::Early)?;
        if is_status(&document) {
            return Ok(bytes.to_vec());
        }
        self.rename_document(&mut document)?;
        Ok(document.to_string().into_bytes())
    }

    /// An event of a watch, from its line.
    pub fn event(&mut self, line: &[u8]) -> Result<Event, Error> {
        let mut event = parse(line, Error::Early)?;
        let kind = match event.get("type").and_then(Value::as_str) {
            Some("ADDED" | "MODIFIED" | "DELETED") => Kind::Change,
            Some("BOOKMARK") => Kind::Bookmark,
            Some("ERROR") => {
                let code = event.pointer("/object/code").and_then(Value::as_u64);
                Kind::Error(code.unwrap_or_default())
            }
            _ => return Err(Error::NotAList),
        };
        let version = event.pointer("/object/metadata/resourceVersion").and_then(Value::as_str);
        let version = version.and_then(|version| version.parse().ok());
        let text = |pointer| Some(event.pointer(pointer)?.as_str()?.to_owned());
        let of = text("/object/kind").zip(text("/object/apiVersion"));
        // Only an error has a Status. A change that claims to be one would keep the names that it claims.
        let is_error = matches!(kind, Kind::Error(_));
        if let Some(object) = event.get_mut("object").filter(|_| !is_error) {
            self.rename_document(object)?;
        }
        let mut line = event.to_string().into_bytes();
        line.push(b'\n');
        Ok(Event { kind, version, of, line })
    }

    fn rename_document(&mut self, document: &mut Value) -> Result<(), Error> {
        let is_list = document.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
        if is_table(document) {
            self.learn(document);
            let definitions = document.get("columnDefinitions").and_then(Value::as_array);
            let has_definitions = definitions.is_some_and(|definitions| !definitions.is_empty());
            if let Some(Value::Array(rows)) = document.get_mut("rows") {
                rows.iter_mut().try_for_each(|row| self.rename_element(row))?;
            }
            if has_definitions {
                self.rest(document);
            } else {
                self.rename_list(document);
            }
        } else if let Some(Value::Array(items)) = document.get_mut("items").filter(|_| is_list) {
            items.iter_mut().for_each(|item| references::to_fleet(item, self.of, &self.member));
            self.rest(document);
        } else {
            references::to_fleet(document, self.of, &self.member);
        }
        Ok(())
    }

    /// Drops all metadata that a list does not have: a name, for example, could be that of an object of another member.
    fn rename_list(&self, list: &mut Value) {
        if let Some(Value::Object(metadata)) = list.get_mut("metadata") {
            metadata.retain(|field, _| LIST_META.contains(&field.as_str()));
            if let Some(Value::String(version)) = metadata.get_mut("resourceVersion") {
                *version = names::join_version(version, &self.member).into_owned();
            }
        }
    }

    fn rename_element(&self, element: &mut Value) -> Result<(), Error> {
        let Some(columns) = &self.columns else {
            references::to_fleet(element, self.of, &self.member);
            return Ok(());
        };
        let object = element.get_mut("object").ok_or(Error::NotAList)?;
        references::to_fleet(object, self.of, &self.member);
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let is_namespaced = text("/metadata/namespace").is_some_and(|namespace| !namespace.is_empty());
        let own_name = text("/metadata/name").filter(|_| !is_namespaced).map(str::to_owned);
        if let Some(Value::Array(cells)) = element.get_mut("cells") {
            let shown = self.shown.columns.get().unwrap_or(columns);
            let (cells_of, member) = (std::mem::take(cells), &self.member);
            *cells = shown.cells(columns, cells_of, own_name.as_deref(), member, self.shown.with_cluster);
        }
        Ok(())
    }

    fn learn(&mut self, table: &Value) {
        if let Some(columns) = Columns::of(table) {
            self.shown.columns.get_or_init(|| columns.clone());
            self.columns = Some(columns);
        }
        // A Table whose columns are unknown is still one.
        self.columns.get_or_insert_default();
    }
}

/// The values of a JSON text take much more memory than the text, so they are bounded as in a caller's body.
fn parse(text: &[u8], otherwise: Error) -> Result<Value, Error> {
    if !values_are_at_most(MAX_VALUES, text) {
        return Err(Error::TooLarge);
    }
    serde_json::from_slice(text).map_err(|_| otherwise)
}

fn is_table(document: &Value) -> bool {
    document.get("kind").and_then(Value::as_str) == Some("Table")
}

fn is_status(document: &Value) -> bool {
    let text = |key: &str| document.get(key).and_then(Value::as_str);
    text("kind") == Some("Status") && text("apiVersion") == Some("v1")
}

/// The end of the collection of a merged list: its elements have been written.
pub fn end_of_list(mut rest: Value) -> Vec<u8> {
    if let Value::Object(fields) = &mut rest {
        fields.remove("items");
        fields.remove("rows");
    }
    let rest = match rest {
        Value::Object(fields) if !fields.is_empty() => json!(fields).to_string(),
        _ => return b"]}".to_vec(),
    };
    format!("],{}", &rest[1..]).into_bytes()
}

/// The begin of a list, up to its elements.
pub fn begin_of_list(is_table: bool) -> &'static [u8] {
    if is_table { br#"{"rows":["# } else { br#"{"items":["# }
}

/// The fields of ListMeta (apimachinery: `meta/v1/types.go`).
const LIST_META: [&str; 4] = ["selfLink", "resourceVersion", "continue", "remainingItemCount"];

#[cfg(test)]
mod tests {
    use kubectl_mc_api::fleet::references::Scope;

    use super::*;

    fn renamer(group: &str, resource: &str) -> Renamer {
        let of = Type::new(group, resource, "", Scope::Cluster);
        Renamer::new("m1".parse().unwrap(), of, Shown::default())
    }

    fn document(renamer: &mut Renamer, document: &Value) -> Value {
        serde_json::from_slice(&renamer.document(document.to_string().as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn objects_lists_and_tables_are_renamed() {
        let pod = json!({"metadata": {"name": "a", "namespace": "shop", "resourceVersion": "7"}});
        let list = json!({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [pod]});
        let list = document(&mut renamer("", "pods"), &list);
        assert_eq!(list["metadata"]["resourceVersion"], "m1.9");
        assert_eq!(list["items"][0]["metadata"]["namespace"], "shop_m1");
        assert_eq!(list["items"][0]["metadata"]["resourceVersion"], "m1.7");
        let row = json!({"cells": ["n", "Ready"], "object": {"metadata": {"name": "n"}}});
        let columns = json!([{"name": "Name"}, {"name": "Status"}]);
        let table = json!({"kind": "Table", "columnDefinitions": columns, "rows": [row]});
        let table = document(&mut renamer("", "nodes"), &table);
        assert_eq!(table["rows"][0]["cells"], json!(["n_m1", "Ready"]));
        assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "n_m1");
    }

    #[test]
    fn object_cannot_claim_another_member() {
        let metadata = json!({"name": "n_m2", "annotations": {"fleet.kubectl-mc.dev/cluster": "m2"}, "resourceVersion": "m2.7"});
        let node = document(&mut renamer("", "nodes"), &json!({"kind": "Node", "metadata": metadata}));
        assert_eq!(node["metadata"]["name"], "n_m2_m1");
        assert_eq!(node["metadata"]["annotations"]["fleet.kubectl-mc.dev/cluster"], "m1");
        assert_eq!(node["metadata"]["resourceVersion"], "m1.m2.7");
        let pod =
            json!({"kind": "CustomResourceDefinition", "metadata": {"name": "a", "namespace": "shop_m2"}});
        assert_eq!(document(&mut renamer("", "pods"), &pod)["metadata"]["namespace"], "shop_m2_m1");
        // The path names the type, and not the object.
        let node = json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "n"}});
        assert_eq!(document(&mut renamer("", "nodes"), &node)["metadata"]["name"], "n_m1");
    }

    #[test]
    fn status_stays_as_it_is() {
        let status =
            br#"{ "kind":"Status","apiVersion":"v1","metadata":{},"message":"pods \"a\" not found"}"#;
        assert_eq!(renamer("", "pods").document(status).unwrap(), status);
    }

    #[test]
    fn object_that_claims_another_kind_is_renamed() {
        let metadata = json!({"name": "n", "namespace": "shop_m2", "resourceVersion": "7"});
        for fields in [
            json!({"kind": "Status", "apiVersion": "v1"}),
            json!({"kind": "PodList", "apiVersion": "v1", "items": []}),
            json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []}),
            json!({"kind": "Table", "columnDefinitions": [{"name": "Name"}], "rows": []}),
        ] {
            let mut object = fields;
            object["metadata"] = metadata.clone();
            let event = json!({"type": "MODIFIED", "object": object}).to_string();
            let line = renamer("", "pods").event(event.as_bytes()).unwrap().line;
            let line: Value = serde_json::from_slice(&line).unwrap();
            let namespace = line.pointer("/object/metadata/namespace").cloned().unwrap_or_default();
            assert!(namespace == "shop_m2_m1" || namespace.is_null(), "{line}");
            assert_eq!(line["object"]["metadata"]["resourceVersion"], "m1.7");
        }
    }

    #[test]
    fn events_are_renamed() {
        let mut renamer = renamer("", "pods");
        let event = renamer
            .event(br#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"s","resourceVersion":"7"}}}"#)
            .unwrap();
        assert_eq!((event.kind, event.version), (Kind::Change, Some(7)));
        let line: Value = serde_json::from_slice(&event.line).unwrap();
        assert_eq!(line["object"]["metadata"]["namespace"], "s_m1");
        let expired = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410}}"#;
        assert_eq!(renamer.event(expired).unwrap().kind, Kind::Error(410));
        let row = r#"{"cells":["a"],"object":{"metadata":{"name":"a","namespace":"s"}}}"#;
        let columns = r#"[{"name":"Name"}]"#;
        for (columns, has_columns) in [(columns, true), ("null", false)] {
            let event = format!(
                r#"{{"type":"ADDED","object":{{"kind":"Table","columnDefinitions":{columns},"rows":[{row}]}}}}"#
            );
            let line: Value = serde_json::from_slice(&renamer.event(event.as_bytes()).unwrap().line).unwrap();
            assert_eq!(line["object"]["columnDefinitions"].is_array(), has_columns);
            assert_eq!(line["object"]["rows"][0]["object"]["metadata"]["namespace"], "s_m1");
        }
        assert!(renamer.event(b"{}").is_err());
    }
}
