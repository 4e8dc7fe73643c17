//! Parses a `Table` of a member, and prints its rows as kubectl does (cli-runtime: the human readable
//! printer).

use std::collections::BTreeMap;

use jiff::Timestamp;
use kubectl_mc_api::age;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::{self, ListMeta};
use super::failure::MemberFailure;
use crate::server_text::ServerText;
use crate::tabwriter::TabWriter;

/// A `Table`, or the plain objects that some servers send instead.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    pub(super) metadata: ListMeta,
    #[serde(default, deserialize_with = "or_default")]
    column_definitions: Vec<Column>,
    #[serde(default, deserialize_with = "or_default")]
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(super) struct Column {
    #[serde(default)]
    name: ServerText,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    format: String,
    #[serde(default)]
    priority: i64,
}

#[derive(Debug, Deserialize)]
struct Row {
    #[serde(default, deserialize_with = "or_default")]
    cells: Vec<Value>,
    #[serde(default)]
    object: Option<Object>,
}

/// The fields of the object behind a row.
#[derive(Debug, Default, Deserialize)]
struct Object {
    #[serde(default)]
    metadata: ObjectMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectMeta {
    #[serde(default)]
    name: ServerText,
    #[serde(default)]
    namespace: ServerText,
    #[serde(default, deserialize_with = "or_default")]
    labels: BTreeMap<String, ServerText>,
    #[serde(default)]
    resource_version: String,
    creation_timestamp: Option<String>,
}

/// The columns of a table in addition to those of the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Columns {
    pub(super) wide: bool,
    pub(super) no_headers: bool,
    pub(super) show_labels: bool,
    pub(super) labels: Vec<String>,
}

/// Additional parts of a table, besides the plan's columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) columns: Columns,
    /// A NAMESPACE column.
    pub(super) namespace: bool,
    /// A type prefix such as `pod/` before names.
    pub(super) prefix: Option<String>,
}

/// A table as text: the header and the rows, with cells separated by tabs.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TableLines {
    pub(super) header: String,
    pub(super) rows: Vec<String>,
    /// The object behind each row.
    pub(super) objects: Vec<Shadow>,
    /// The whole object behind each row, if it was requested.
    pub(super) whole: Vec<Value>,
}

/// The fields of an object that a watch remembers.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Shadow {
    /// Its namespace and name.
    pub(super) name: String,
    pub(super) version: String,
}

impl Table {
    /// Parses the answer to the request for a list. A server without tables sends the list itself.
    pub(super) fn of_list(body: &[u8]) -> Result<Self, MemberFailure> {
        match Self::parse(body)? {
            Some(table) => Ok(table),
            None => {
                answer::list::<IgnoredAny>(body)?;
                Ok(Self::of_objects(&answer::parse(body)?, Timestamp::now()))
            }
        }
    }

    /// The same for one object of this kind.
    pub(super) fn of_object(body: &[u8], kind: &str) -> Result<Self, MemberFailure> {
        match Self::parse(body)? {
            Some(table) => Ok(table),
            None => Ok(Self::of_objects(&answer::object(body, kind)?, Timestamp::now())),
        }
    }

    fn parse(body: &[u8]) -> Result<Option<Self>, MemberFailure> {
        let table: Self = answer::parse(body)?;
        Ok((table.kind == "Table").then_some(table))
    }

    /// The table in a parsed JSON response; plain objects become names and ages.
    fn of_answer(answer: &Value) -> Self {
        let table = Self::deserialize(answer).ok().filter(|table| table.kind == "Table");
        table.unwrap_or_else(|| Self::of_objects(answer, Timestamp::now()))
    }

    /// The lines of this table. `columns` are those of an earlier table, because later tables omit
    /// them; they are then used for this one.
    pub(super) fn lines(self, columns: &mut Vec<Column>, shown: &Shown) -> TableLines {
        let Self { column_definitions, rows, .. } = self;
        if !column_definitions.is_empty() {
            *columns = column_definitions;
        }
        let columns = columns.as_slice();
        let Shown { columns: extra, namespace, prefix } = shown;
        let named = |column: &Column| column.format == "name" && column.kind == "string";
        let name_column = prefix.as_ref().and_then(|_| columns.iter().position(named));
        let visible = |column: &&Column| extra.wide || column.priority == 0;
        let mut header: Vec<String> = Vec::new();
        header.extend(namespace.then(|| "NAMESPACE".to_owned()));
        let upper = |column: &Column| ServerText::from(column.name.raw().to_uppercase()).to_string();
        header.extend(columns.iter().filter(visible).map(upper));
        header.extend(
            extra.labels.iter().map(|label| label.rsplit('/').next().unwrap_or(label).to_uppercase()),
        );
        header.extend(extra.show_labels.then(|| "LABELS".to_owned()));
        let mut objects = Vec::with_capacity(rows.len());
        let rows =
            rows.into_iter()
                .map(|Row { mut cells, object }| {
                    if let (Some(at), Some(prefix)) = (name_column, prefix)
                        && let Some(cell) = cells.get_mut(at)
                    {
                        *cell = format!("{prefix}/{}", go_text(cell)).into();
                    }
                    let object = object.unwrap_or_default().metadata;
                    let mut line: Vec<String> = Vec::new();
                    line.extend(namespace.then(|| object.namespace.to_string()));
                    let cells = cells.iter().zip(columns).filter(|(_, column)| visible(column));
                    line.extend(cells.map(|(cell, _)| cell_text(cell).to_string()));
                    line.extend(
                        extra.labels.iter().map(|label| {
                            object.labels.get(label).map_or_else(String::new, ToString::to_string)
                        }),
                    );
                    line.extend(extra.show_labels.then(|| labels_text(&object.labels).to_string()));
                    let name = format!("{}/{}", object.namespace.raw(), object.name.raw());
                    objects.push(Shadow { name, version: object.resource_version });
                    line.join("\t")
                })
                .collect();
        TableLines { header: header.join("\t"), rows, objects, whole: Vec::new() }
    }

    /// kubectl's table for objects without a table: names and ages.
    fn of_objects(answer: &Value, now: Timestamp) -> Self {
        let column = |name: &str, format: &str| Column {
            name: name.into(),
            kind: "string".to_owned(),
            format: format.to_owned(),
            priority: 0,
        };
        let list = answer.get("items").and_then(Value::as_array);
        let objects = list.map_or_else(|| std::slice::from_ref(answer), Vec::as_slice);
        let rows = objects.iter().map(|object| {
            let object = Object::deserialize(object).unwrap_or_default();
            let created = object.metadata.creation_timestamp.as_deref().unwrap_or_default();
            let age = age::since(created.parse().ok(), now);
            Row { cells: vec![object.metadata.name.raw().into(), age.into()], object: Some(object) }
        });
        Self {
            kind: "Table".to_owned(),
            metadata: answer
                .get("metadata")
                .and_then(|meta| ListMeta::deserialize(meta).ok())
                .unwrap_or_default(),
            column_definitions: vec![column("Name", "name"), column("Age", "")],
            rows: rows.collect(),
        }
    }
}

/// The whole objects behind the rows of an answer.
pub(super) fn row_objects(body: &[u8]) -> Result<Vec<&RawValue>, MemberFailure> {
    #[derive(Deserialize)]
    struct Rows<'a> {
        #[serde(borrow)]
        rows: Option<Vec<WholeRow<'a>>>,
        /// A list of plain objects instead of a table.
        #[serde(borrow)]
        items: Option<Vec<&'a RawValue>>,
    }
    #[derive(Deserialize)]
    struct WholeRow<'a> {
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let Rows { rows, items } = answer::parse(body)?;
    match (rows, items) {
        (Some(rows), _) => Ok(rows.into_iter().map(|row| row.object).collect()),
        (None, Some(items)) => Ok(items),
        (None, None) => Ok(vec![answer::parse(body)?]),
    }
}

/// A table in the format of `kubectl get`, and the names of its objects. The text is empty without rows.
pub(crate) fn render(answer: &Value, wide: bool, no_headers: bool) -> (String, Vec<String>) {
    let columns = Columns { wide, no_headers, ..Columns::default() };
    let shown = Shown { columns, ..Shown::default() };
    let TableLines { header, rows, objects, .. } = Table::of_answer(answer).lines(&mut Vec::new(), &shown);
    let mut writer = TabWriter::default();
    if !no_headers && !rows.is_empty() {
        writer.line(&header);
    }
    rows.iter().for_each(|row| writer.line(row));
    let name = |object: Shadow| object.name.rsplit('/').next().unwrap_or_default().to_owned();
    (writer.flush(), objects.into_iter().map(name).collect())
}

/// A cell in the format of kubectl: only its first line, and empty for null.
fn cell_text(cell: &Value) -> ServerText {
    let text = go_text(cell);
    if cell.is_string()
        && let Some(end) = text.find(['\n', '\r', '\x0c'])
    {
        return format!("{}...", &text[..end]).into();
    }
    text.into()
}

/// The format of Go's `fmt.Sprint` for a JSON value.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(on) => on.to_string(),
        Value::Number(number) => crate::json::go_number(number),
        Value::Array(values) => format!("[{}]", values.iter().map(go_inner).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}:{}", go_inner(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
    }
}

fn go_inner(value: &Value) -> String {
    if value.is_null() { "<nil>".to_owned() } else { go_text(value) }
}

/// The same as Go's `labels.FormatLabels`.
fn labels_text(labels: &BTreeMap<String, ServerText>) -> ServerText {
    if labels.is_empty() {
        return "<none>".into();
    }
    let label = |(name, value): (&String, &ServerText)| format!("{name}={}", value.raw());
    labels.iter().map(label).collect::<Vec<_>>().join(",").into()
}

/// Go writes an empty list or map as null.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"{"kind": "Table", "metadata": {"resourceVersion": "7", "continue": "next"},
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name", "priority": 0},
            {"name": "Ready", "type": "integer", "priority": 0},
            {"name": "Node", "type": "string", "priority": 1}],
        "rows": [
            {"cells": ["web", 3, "n1"], "object": {"metadata": {"name": "web", "namespace": "x", "labels": {"b": "2", "a/c": "1"}, "resourceVersion": "5"}}},
            {"cells": ["two\nlines", null, "n\u001b[2J"], "object": null}]}"#;

    fn lines(shown: &Shown) -> TableLines {
        Table::of_list(TABLE.as_bytes()).unwrap().lines(&mut Vec::new(), shown)
    }

    #[test]
    fn columns_are_chosen_as_kubectl_does() {
        assert_eq!(lines(&Shown::default()).header, "NAME\tREADY");
        assert_eq!(lines(&Shown::default()).rows, ["web\t3", "two...\t"]);
        let columns =
            Columns { wide: true, show_labels: true, labels: vec!["a/c".into()], no_headers: false };
        let shown = Shown { columns, namespace: true, prefix: Some("pod".into()) };
        let all = lines(&shown);
        assert_eq!(all.header, "NAMESPACE\tNAME\tREADY\tNODE\tC\tLABELS");
        assert_eq!(all.rows, ["x\tpod/web\t3\tn1\t1\ta/c=1,b=2", "\tpod/two...\t\tn^[[2J\t\t<none>"]);
    }

    #[test]
    fn plain_objects_print_names_and_ages() {
        let list = serde_json::json!({"kind": "FooList", "metadata": {"continue": "c"}, "items": [
            {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}}, {"metadata": {"name": "b"}}]});
        let table = Table::of_objects(&list, "2026-01-01T00:01:00Z".parse().unwrap());
        assert_eq!(table.metadata.next, "c");
        let lines = table.lines(&mut Vec::new(), &Shown::default());
        assert_eq!(
            (lines.header.as_str(), lines.rows),
            ("NAME\tAGE", vec!["a\t60s".to_owned(), "b\t<unknown>".to_owned()])
        );
    }

    #[test]
    fn values_are_printed_as_go_does() {
        for (json, text) in [
            ("1", "1"),
            ("1.50", "1.5"),
            ("1e21", "1e+21"),
            ("true", "true"),
            ("[1,\"a\",null]", "[1 a <nil>]"),
            ("{\"b\":1,\"a\":[]}", "map[a:[] b:1]"),
        ] {
            assert_eq!(cell_text(&serde_json::from_str(json).unwrap()).raw(), text);
        }
    }
}
