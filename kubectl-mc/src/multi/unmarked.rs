//! Cleans manifests on standard input that came from `get -o yaml` on several clusters. It removes the fields
//! of the original clusters, and refuses several copies of one object, because the last one would win.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use kubectl_mc_api::names;
use serde_json::{Value, json};

use crate::argv::Scanned;
use crate::error::{Context, Failure};
use crate::kubectl::verb;

/// The standard input of a command, cleaned for its verb.
pub(crate) fn unmarked(scanned: &Scanned, input: Arc<[u8]>) -> Result<Arc<[u8]>, Failure> {
    if !takes_manifests(scanned) {
        return Ok(input);
    }
    Ok(rewritten(&input)?.map_or(input, Into::into))
}

/// The same for a kubectl that replaces this process: a file that is already unlinked.
pub(crate) fn unmarked_file(scanned: &Scanned, folder: &Path) -> Result<Option<File>, Failure> {
    if !takes_manifests(scanned) || !verb::reads_stdin(scanned) {
        return Ok(None);
    }
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input).context(|| "cannot read standard input")?;
    let input = rewritten(&input)?.unwrap_or(input);
    let path = folder.join(format!("input-{}", std::process::id()));
    let file = nameless(&path, &input).context(|| "cannot keep standard input in the cache folder")?;
    Ok(Some(file))
}

/// A new unlinked file with this text, positioned at its start.
fn nameless(path: &Path, text: &[u8]) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    fs::remove_file(path)?;
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}

/// Whether the verb sends whole objects.
fn takes_manifests(scanned: &Scanned) -> bool {
    let verb = scanned.verb().and_then(OsStr::to_str).unwrap_or_default();
    matches!(verb, "apply" | "create" | "replace" | "diff")
}

/// The objects without their marks; `None` if there is no mark, or if kubectl should report an error.
fn rewritten(input: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    let Some(text) = std::str::from_utf8(input).ok().filter(|text| text.contains(names::CLUSTER)) else {
        return Ok(None);
    };
    let Ok(documents) = serde_saphyr::from_multiple::<Value>(text) else { return Ok(None) };
    let mut items = Vec::new();
    for document in documents {
        flatten(document, &mut items);
    }
    let mut origins: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in &mut items {
        let name = name(item);
        origins.entry(name).or_default().push(take_mark(item).unwrap_or_else(|| UNMARKED.to_owned()));
    }
    let is_copied =
        |origins: &Vec<String>| origins.len() > 1 && origins.iter().any(|origin| origin != UNMARKED);
    let copies: Vec<_> = origins
        .into_iter()
        .filter(|(_, origins)| is_copied(origins))
        .map(|(name, origins)| format!("{name} (of {})", origins.join(", ")))
        .collect();
    if !copies.is_empty() {
        let copies = copies.join(", ");
        return Err(Failure::usage(format!("standard input has several copies of one object: {copies}"))
            .with_hint(
                "each cluster would get all copies, and keep the last: get the objects from one cluster",
            ));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    Ok(Some(list.to_string().into_bytes()))
}

/// Adds the items of a list, or the object itself; skips an empty document.
fn flatten(document: Value, items: &mut Vec<Value>) {
    match document {
        Value::Null => {}
        Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
            if let Some(Value::Array(inner)) = list.remove("items") {
                inner.into_iter().for_each(|item| flatten(item, items));
            }
        }
        item => items.push(item),
    }
}

/// Removes the mark and the fields that belong to the original cluster; returns the name of that cluster.
fn take_mark(item: &mut Value) -> Option<String> {
    let metadata = item.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let cluster = annotations.remove(names::CLUSTER)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    for own in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"] {
        metadata.remove(own);
    }
    Some(cluster.as_str().unwrap_or_default().to_owned())
}

/// `Deployment.apps shop/web`
fn name(item: &Value) -> String {
    let text = |path: &str| item.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let group = text("/apiVersion").split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    let namespace = text("/metadata/namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{}{group} {namespace}{slash}{}", text("/kind"), text("/metadata/name"))
}

/// Stands for the cluster of an object without a mark.
const UNMARKED: &str = "the manifest";

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, cluster: Option<&str>) -> Value {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "shop"}, "spec": {"replicas": 1}});
        if let Some(cluster) = cluster {
            object["metadata"]["annotations"] = json!({names::CLUSTER: cluster});
            object["metadata"]["uid"] = "1-2".into();
            object["metadata"]["resourceVersion"] = "7".into();
        }
        object
    }

    fn list(items: &[Value]) -> String {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items,
            "metadata": {"resourceVersion": "", "clusterErrors": [{"cluster": "m9"}]}});
        crate::yaml::text(&list, 0)
    }

    #[test]
    fn cluster_marks_are_removed_from_objects() {
        let text = format!("{}---\n{}", list(&[object("a", Some("m1"))]), object("b", None));
        let read: Value = serde_json::from_slice(&rewritten(text.as_bytes()).unwrap().unwrap()).unwrap();
        let expected =
            json!({"apiVersion": "v1", "kind": "List", "items": [object("a", None), object("b", None)]});
        assert_eq!(read, expected);
    }

    #[test]
    fn several_copies_of_an_object_are_refused() {
        let text = list(&[object("a", Some("m1")), object("b", Some("m1")), object("a", Some("m2"))]);
        let error = rewritten(text.as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "standard input has several copies of one object: Deployment.apps shop/a (of m1, m2)"
        );
    }

    #[test]
    fn other_input_is_unchanged() {
        let twice = list(&[object("a", None), object("a", None)]);
        for text in [twice.as_str(), "", "no: [yaml fleet.kubectl-mc.dev/cluster", "\u{0}"] {
            assert!(rewritten(text.as_bytes()).unwrap().is_none(), "{text}");
        }
    }
}
