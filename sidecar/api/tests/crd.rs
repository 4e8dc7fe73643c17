//! Tests that `sidecar/deploy/crd.yaml` and `docs/reference/fields.md` match the types. `UPDATE=1 cargo test -p
//! kubectl-mc-api --test crd` regenerates them.

use std::error::Error;

use kube::CustomResourceExt;
use kubectl_mc_api::{ClusterAccess, MemberCluster};
use serde_json::Value;

#[test]
fn definitions_match_the_types() -> Result<(), Box<dyn Error>> {
    let definitions = [MemberCluster::crd(), ClusterAccess::crd()];
    let texts: Result<Vec<_>, _> = definitions.iter().map(serde_saphyr::to_string).collect();
    compare("sidecar/deploy/crd.yaml", &format!("{HEAD}{}", texts?.join("---\n")))
}

#[test]
fn reference_has_every_field() -> Result<(), Box<dyn Error>> {
    let mut page = PAGE.to_owned();
    for definition in [MemberCluster::crd(), ClusterAccess::crd()] {
        let definition = serde_json::to_value(definition)?;
        let kind = text(&definition["spec"]["names"], "kind");
        for version in definition["spec"]["versions"].as_array().ok_or("no versions")? {
            let schema = &version["schema"]["openAPIV3Schema"];
            let (group, version) = (text(&definition["spec"], "group"), text(version, "name"));
            page +=
                &format!("\n## {kind}\n\n`{group}/{version}`. {}\n", sentence(text(schema, "description")));
            page += &rules("", schema).map(|rules| format!("{rules}\n")).unwrap_or_default();
            page += "\n| field | type | meaning |\n|---|---|---|\n";
            add_rows(&mut page, "", schema);
        }
    }
    compare("docs/reference/fields.md", &page)
}

/// Adds a row for each field below a schema, with its path.
fn add_rows(page: &mut String, path: &str, schema: &Value) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let is_required = schema["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name));
        let mut meaning = sentence(text(field, "description"));
        if is_required {
            meaning = format!("Required. {meaning}");
        }
        meaning += &rules(" ", field).unwrap_or_default();
        *page += &format!("| `{path}` | {} | {} |\n", kind(field), meaning.trim());
        let element =
            if field["items"].is_object() { &field["items"] } else { &field["additionalProperties"] };
        add_rows(page, &path, field);
        add_rows(page, &format!("{path}[]"), element);
    }
}

/// The type of a field, with its values and limits.
fn kind(field: &Value) -> String {
    if field["items"].is_object() {
        let limit =
            field["maxItems"].as_u64().map(|most| format!(", at most {most} items")).unwrap_or_default();
        return format!("list of {}{limit}", kind(&field["items"]));
    }
    if field["additionalProperties"].is_object() {
        return format!("map of {}", kind(&field["additionalProperties"]));
    }
    if let Some(values) = field["enum"].as_array() {
        let shown = |value: &Value| {
            let default = if field["default"] == *value { " (default)" } else { "" };
            format!("`{}`{default}", value.as_str().unwrap_or_default())
        };
        return values.iter().filter(|value| value.is_string()).map(shown).collect::<Vec<_>>().join(", ");
    }
    let mut shown =
        if text(field, "format") == "date-time" { "time" } else { text(field, "type") }.to_owned();
    if let Some(most) = field["maxLength"].as_u64() {
        shown += &format!(", at most {most} characters");
    }
    if let Some(pattern) = field["pattern"].as_str() {
        shown += &format!(", as in `{}`", pattern.replace('|', "\\|"));
    }
    shown
}

/// The rules that the API server checks in addition to the type.
fn rules(before: &str, schema: &Value) -> Option<String> {
    let rules = schema["x-kubernetes-validations"].as_array()?;
    let messages: Vec<_> = rules.iter().map(|rule| text(rule, "message")).collect();
    Some(format!("{before}Checked: {}", sentence(&messages.join("; "))))
}

/// One line that ends with a full stop and fits into a table cell.
fn sentence(words: &str) -> String {
    let line =
        words.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;");
    if line.is_empty() || line.ends_with('.') { line } else { format!("{line}.") }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Compares a file, or writes it.
fn compare(name: &str, fresh: &str) -> Result<(), Box<dyn Error>> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, fresh)?;
    }
    let is_current = std::fs::read_to_string(file)? == fresh;
    assert!(is_current, "{name} is not up to date: UPDATE=1 cargo test -p kubectl-mc-api --test crd");
    Ok(())
}

const HEAD: &str = "# Generated from the types: UPDATE=1 cargo test -p kubectl-mc-api --test crd\n";
const PAGE: &str = "# Fields of the custom resources\n\n\
    Generated from the schema by `UPDATE=1 cargo test -p kubectl-mc-api --test crd`. What they do: \
    [MemberCluster](member-cluster.md), [ClusterAccess](cluster-access.md), [conditions](conditions.md).\n";
