//! Tests that the charts' `values.schema.json` and the tables of their READMEs match `values.yaml` and the
//! type into which the plugin reads values. `UPDATE=1 cargo test -p kubectl-mc-api --test chart_files`
//! regenerates them.

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;

use kube::CustomResourceExt;
use kubectl_mc_api::manifests::{AgentValues, Values};
use kubectl_mc_api::{ClusterAccess, MemberCluster};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

#[test]
fn schemas_match_the_values() -> Result<(), Box<dyn Error>> {
    schema::<Values>(SIDECAR)?;
    schema::<AgentValues>(AGENT)
}

fn schema<T: JsonSchema>(chart: &str) -> Result<(), Box<dyn Error>> {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    for row in rows(&read(chart, "values.yaml")?)? {
        let pointer: String = row.path.split('.').map(|key| format!("/properties/{key}")).collect();
        let of_value = schema.pointer_mut(&pointer).ok_or_else(|| format!("no {} in the type", row.path))?;
        of_value["description"] = row.description.into();
    }
    compare(chart, "values.schema.json", &format!("{}\n", serde_json::to_string_pretty(&schema)?))
}

#[test]
fn readmes_have_every_value() -> Result<(), Box<dyn Error>> {
    for chart in [SIDECAR, AGENT] {
        let kept = read(chart, "README.md")?;
        let (head, _) = kept.split_once(HEADING).ok_or("no heading of the values")?;
        let mut text = format!("{head}{HEADING}\n| value | meaning | default |\n|---|---|---|\n");
        for row in rows(&read(chart, "values.yaml")?)? {
            writeln!(text, "| `{}` | {} | `{}` |", row.path, row.description, row.default)?;
        }
        compare(chart, "README.md", &text)?;
    }
    Ok(())
}

#[test]
fn charts_have_the_version_of_the_crate() -> Result<(), Box<dyn Error>> {
    for chart in [SIDECAR, AGENT] {
        let file: Value = serde_saphyr::from_str(&read(chart, "Chart.yaml")?)?;
        assert_eq!(file["version"], env!("CARGO_PKG_VERSION"), "{chart}");
        assert_eq!(file["appVersion"], env!("CARGO_PKG_VERSION"), "{chart}");
    }
    Ok(())
}

/// Artifact Hub shows them.
#[test]
fn charts_name_their_license_and_the_definitions() -> Result<(), Box<dyn Error>> {
    for (chart, definitions) in [(SIDECAR, vec![MemberCluster::crd(), ClusterAccess::crd()]), (AGENT, vec![])]
    {
        let file: Value = serde_saphyr::from_str(&read(chart, "Chart.yaml")?)?;
        let annotation =
            |name: &str| file["annotations"][format!("artifacthub.io/{name}")].as_str().unwrap_or("[]");
        assert_eq!(annotation("license"), "Apache-2.0", "{chart}");
        let links: Vec<Value> = serde_saphyr::from_str(annotation("links"))?;
        assert!(links.iter().all(|link| link["url"].is_string() && link["name"].is_string()), "{links:?}");
        let named: Vec<Value> = serde_saphyr::from_str(annotation("crds"))?;
        let named: Vec<_> =
            named.iter().map(|named| (named["name"].as_str(), named["kind"].as_str())).collect();
        let expected: Vec<_> = definitions
            .iter()
            .map(|definition| {
                (definition.metadata.name.as_deref(), Some(definition.spec.names.kind.as_str()))
            })
            .collect();
        assert_eq!(named, expected, "{chart}");
    }
    Ok(())
}

struct Row {
    path: String,
    description: String,
    default: String,
}

/// The values that have a comment, in their order. Values nested below such a value belong to it.
fn rows(text: &str) -> Result<Vec<Row>, Box<dyn Error>> {
    let defaults: Value = serde_saphyr::from_str(text)?;
    let (mut rows, mut parents, mut comment) = (Vec::new(), Vec::new(), Vec::new());
    let mut described = None;
    // An empty line ends the head of the file.
    for line in text.lines().skip_while(|line| !line.is_empty()).skip(1) {
        let content = line.trim_start();
        let depth = (line.len() - content.len()) / 2;
        if let Some(words) = content.strip_prefix("# ") {
            comment.push(words);
            continue;
        }
        let (key, _) = content.split_once(':').ok_or_else(|| format!("no key: {line}"))?;
        parents.truncate(depth);
        parents.push(key);
        if described.is_some_and(|at| depth > at) {
            continue;
        }
        described = (!comment.is_empty()).then_some(depth);
        let default = &defaults.pointer(&format!("/{}", parents.join("/"))).ok_or("no such value")?;
        if !comment.is_empty() {
            let description = std::mem::take(&mut comment).join(" ");
            rows.push(Row { path: parents.join("."), description, default: default.to_string() });
        } else if !default.is_object() {
            return Err(format!("{} has no comment", parents.join(".")).into());
        }
    }
    Ok(rows)
}

fn compare(chart: &str, name: &str, fresh: &str) -> Result<(), Box<dyn Error>> {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path(chart, name), fresh)?;
    }
    let kept = std::fs::read_to_string(path(chart, name)).unwrap_or_default();
    assert!(
        kept == fresh,
        "{chart}/{name} is not up to date: UPDATE=1 cargo test -p kubectl-mc-api --test chart_files"
    );
    Ok(())
}

fn read(chart: &str, name: &str) -> std::io::Result<String> {
    std::fs::read_to_string(path(chart, name))
}

fn path(chart: &str, name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(chart).join(name)
}

const SIDECAR: &str = "chart";
const AGENT: &str = "agent-chart";
const HEADING: &str = "## Values\n";
