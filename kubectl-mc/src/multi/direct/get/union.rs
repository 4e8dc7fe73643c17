//! Sorts the objects of all clusters together (`--sort-by`), and prints them with one template.
//! Both are kubectl's own work ([`printing`]), on one list in which each object has its cluster as
//! an annotation.

pub(super) mod template;

use std::ffi::OsString;

use serde_json::Value;

pub(super) use self::template::Template;
use super::ask::MemberResults;
use super::plan::{GetPlan, Output};
use super::{list, objects};
use crate::cache::Cache;
use crate::cache::RunFolder;
use crate::cluster::client::ClientError;
use crate::multi::direct::failure::MemberFailure;
use crate::multi::direct::path_name::is_name;
use crate::multi::direct::printing::{self, PrintError};
use crate::multi::direct::task::Task;
use crate::multi::direct::text::Text;
use crate::multi::document::{self, Document, Format};

/// Why `get` has no result from any cluster.
#[derive(Debug)]
pub(in crate::multi::direct) enum GetError {
    Client(ClientError),
    Print(PrintError),
}

impl From<ClientError> for GetError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// Requests all objects, then prints them.
pub(super) async fn run(
    plan: &GetPlan,
    task: &Task<'_>,
    text: &mut dyn Text,
) -> Result<Vec<Result<(), MemberFailure>>, GetError> {
    let (found, results) = objects(plan, task).await?;
    let mut results = MemberResults(results);
    let mut objects = Vec::new();
    for (place, mut object) in found {
        if !is_well_formed(&object) {
            let failure = MemberFailure::Unreadable("an object of the list has no valid type".into());
            results.note(place, Err(failure));
            continue;
        }
        if !plan.managed_fields && matches!(plan.output, Output::Json | Output::Yaml | Output::NdJson) {
            list::remove_managed_fields(&mut object);
        }
        document::mark(&mut object, &task.clusters[place]);
        objects.push(Found { place, object });
    }
    match write(plan, task, objects, &results).await {
        Ok(()) => Ok(results.0),
        Err(error) => {
            failed(task, text, &results);
            Err(GetError::Print(error))
        }
    }
}

/// Prints the errors of clusters before an error that ends the command.
pub(super) fn failed(task: &Task<'_>, text: &mut dyn Text, results: &MemberResults) {
    for (cluster, result) in task.clusters.iter().zip(&results.0) {
        if let Err(failure) = result {
            text.failed(cluster, failure);
        }
    }
}

/// An object, and the position of its cluster.
struct Found {
    place: usize,
    object: Value,
}

async fn write(
    plan: &GetPlan,
    task: &Task<'_>,
    found: Vec<Found>,
    results: &MemberResults,
) -> Result<(), PrintError> {
    if let Output::Template(template) = &plan.output {
        return print(template, plan, task, found).await;
    }
    let objects: Vec<_> = found.iter().map(|found| found.object.clone()).collect();
    let order = match &plan.sort_by {
        Some(field) => printing::order(&objects, field, task.env).await?,
        None => (0..objects.len()).collect(),
    };
    let sorted = order.into_iter().filter_map(|at| found.get(at));
    let width = task.width();
    let text: String = match &plan.output {
        Output::Json => document(Format::Json, sorted, task, results),
        Output::Yaml => document(Format::Yaml, sorted, task, results),
        Output::NdJson => sorted.map(|found| format!("{}\n", found.object)).collect(),
        Output::Name | Output::Table(_) | Output::Template(_) => sorted
            .map(|Found { place, object }| {
                let name = list::marked_name(&task.clusters[*place], width, &name(object));
                format!("{name}\n")
            })
            .collect(),
    };
    let _ = task.printer.stream(text.as_bytes());
    Ok(())
}

/// Prints with a template.
async fn print(
    template: &Template,
    plan: &GetPlan,
    task: &Task<'_>,
    found: Vec<Found>,
) -> Result<(), PrintError> {
    let objects: Vec<_> = found.into_iter().map(|found| found.object).collect();
    let folder = RunFolder::new(Cache::open(task.env)?.folder());
    let mut flags = template.flags(&folder)?;
    flags.extend(plan.sort_by.iter().map(|field| OsString::from(format!("--sort-by={field}"))));
    let printed = printing::print(&objects, &flags, task.env).await?;
    printed.err.lines().for_each(|line| task.printer.note_line(line));
    if printed.out.is_empty() && !objects.is_empty() {
        task.printer
            .note_line("the template printed nothing: on several clusters it sees one List, as .items[*]");
    }
    let _ = task.printer.stream(&printed.out);
    Ok(())
}

fn document<'a>(
    format: Format,
    sorted: impl Iterator<Item = &'a Found>,
    task: &Task<'_>,
    results: &MemberResults,
) -> String {
    let mut document = Document::new(format);
    for Found { place, object } in sorted {
        document.add(&task.clusters[*place], object.clone());
    }
    for (cluster, fault) in task.faults(&results.0) {
        document.fail(&cluster, &fault);
    }
    document.render()
}

/// `deployment.apps/web`
fn name(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let group = text("/apiVersion").split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    format!("{}{group}/{}", text("/kind").to_lowercase(), text("/metadata/name"))
}

/// Whether kubectl accepts the object in a list. One that it refuses would spoil the output of every cluster.
fn is_well_formed(object: &Value) -> bool {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or_else(|| ("v1", text("apiVersion")));
    let kind = text("kind");
    let is_kind = !kind.is_empty() && kind.bytes().all(|letter| letter.is_ascii_alphanumeric());
    let is_typed = is_name(group) && is_name(version) && is_kind;
    is_typed && object.get("metadata").is_some_and(Value::is_object) && object.get("items").is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn object_without_a_valid_type_is_not_well_formed() {
        let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {}});
        assert!(is_well_formed(&object("v1", "Pod")) && is_well_formed(&object("apps/v1", "Deployment")));
        for (version, kind) in [("", "Pod"), ("a/b/c", "Pod"), ("v1", ""), ("v1", "a/b"), ("/v1", "Pod")] {
            assert!(!is_well_formed(&object(version, kind)), "{version} {kind}");
        }
        let mut list = object("v1", "PodList");
        list["items"] = json!([{"kind": "Pod"}]);
        assert!(!is_well_formed(&list) && !is_well_formed(&json!({"apiVersion": "v1", "kind": "Pod"})));
    }

    #[test]
    fn name_has_kind_and_group() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
        assert_eq!(name(&object), "deployment.apps/web");
    }
}
