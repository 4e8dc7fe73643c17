//! A table of clusters: the columns of the server (`meta.k8s.io/v1` `Table`), printed as by kubectl.

use jiff::Timestamp;
use kubectl_mc_api::age;
use serde_json::Value;

use crate::server_text::ServerText;
use crate::tabwriter::TabWriter;

/// Columns and rows, with each row's object name.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Debug, PartialEq)]
struct Column {
    name: ServerText,
    /// Shown only when asked for a wide table.
    wide: bool,
}

#[derive(Debug, PartialEq)]
struct Row {
    name: ServerText,
    cells: Vec<ServerText>,
}

impl Table {
    /// Reads a `Table`, or makes one of a plain list of clusters.
    pub(crate) fn of(answer: &Value) -> Self {
        if answer.get("kind").is_some_and(|kind| kind == "Table") {
            Self::of_server(answer)
        } else {
            Self::of_list(answer, Timestamp::now())
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &ServerText> {
        self.rows.iter().map(|row| &row.name)
    }

    /// The table as text, aligned.
    pub(crate) fn render(&self, wide: bool, headers: bool) -> String {
        let shown = |values: &mut dyn Iterator<Item = String>| -> String {
            let cells = self.columns.iter().zip(values).filter(|(column, _)| wide || !column.wide);
            cells.map(|(_, cell)| cell).collect::<Vec<_>>().join("\t")
        };
        let mut writer = TabWriter::default();
        if headers {
            writer.line(&shown(
                &mut self
                    .columns
                    .iter()
                    .map(|column| ServerText::from(column.name.raw().to_uppercase()).to_string()),
            ));
        }
        for row in &self.rows {
            writer.line(&shown(&mut row.cells.iter().map(ToString::to_string)));
        }
        writer.flush()
    }

    fn of_server(table: &Value) -> Self {
        let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
        let columns = list(table.get("columnDefinitions"));
        let rows = list(table.get("rows"));
        Self {
            columns: columns
                .iter()
                .map(|column| Column {
                    name: text(column.get("name")),
                    wide: column.get("priority").and_then(Value::as_i64).unwrap_or(0) != 0,
                })
                .collect(),
            rows: rows
                .iter()
                .map(|row| {
                    let cells: Vec<_> =
                        list(row.get("cells")).iter().map(|cell| self::text(Some(cell))).collect();
                    let name = row.pointer("/object/metadata/name").map(|name| text(Some(name)));
                    Row { name: name.or_else(|| cells.first().cloned()).unwrap_or_default(), cells }
                })
                .collect(),
        }
    }

    fn of_list(list: &Value, now: Timestamp) -> Self {
        let column = |name: &str| Column { name: name.into(), wide: false };
        let items = list.get("items").and_then(Value::as_array);
        let rows = items.into_iter().flatten().map(|item| {
            let name = text(item.pointer("/metadata/name"));
            let conditions = item.pointer("/status/conditions").and_then(Value::as_array);
            let mut conditions = conditions.into_iter().flatten();
            let ready =
                conditions.find(|condition| condition.get("type").is_some_and(|kind| kind == "Ready"));
            let age = text(item.pointer("/metadata/creationTimestamp")).raw().parse::<Timestamp>();
            let age = age::since(age.ok(), now);
            let ready = ready.map_or_else(|| "Unknown".into(), |ready| text(ready.get("status")));
            Row { cells: vec![name.clone(), ready, text(item.pointer("/status/version")), age.into()], name }
        });
        Self { columns: ["Name", "Ready", "Version", "Age"].map(column).into(), rows: rows.collect() }
    }
}

/// A cell as kubectl prints it: its first line only, nothing for null.
fn text(cell: Option<&Value>) -> ServerText {
    let text = match cell {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    match text.find(['\n', '\r', '\x0c']) {
        Some(end) => format!("{}...", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_table() -> Value {
        serde_json::json!({
            "kind": "Table",
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "Ready", "priority": 0},
                {"name": "Server", "priority": 1}, {"name": "Age"}],
            "rows": [
                {"cells": ["m1", "True", "https://a", "2m"], "object": {"metadata": {"name": "m1"}}},
                {"cells": ["long-name", null, "two\nlines", 3], "object": {"metadata": {"name": "long-name"}}}]
        })
    }

    #[test]
    fn the_servers_columns_are_aligned_as_kubectl_does() {
        let table = Table::of(&server_table());
        assert_eq!(
            table.render(false, true),
            "NAME        READY   AGE\nm1          True    2m\nlong-name           3\n"
        );
        assert_eq!(
            table.render(true, false),
            "m1          True   https://a   2m\nlong-name          two...      3\n"
        );
        assert_eq!(table.names().map(ServerText::raw).collect::<Vec<_>>(), ["m1", "long-name"]);
    }

    #[test]
    fn a_plain_list_is_shown_too() {
        let list = serde_json::json!({"kind": "ClusterList", "items": [
            {"metadata": {"name": "m1", "creationTimestamp": "2026-01-01T00:00:00Z"},
             "status": {"version": "v1.36.3", "conditions": [{"type": "Ready", "status": "True"}]}},
            {"metadata": {"name": "m2"}}]});
        let table = Table::of_list(&list, "2026-01-01T00:03:20Z".parse().unwrap());
        assert_eq!(
            table.render(false, true),
            "NAME   READY     VERSION   AGE\nm1     True      v1.36.3   3m20s\nm2     Unknown             <unknown>\n"
        );
    }
}
