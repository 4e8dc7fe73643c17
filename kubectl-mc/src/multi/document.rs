//! Merges JSON and YAML of several clusters into one valid `v1` `List`: each item has its cluster as an
//! annotation, and the list's metadata names the failed clusters as `clusterErrors`.

use kubectl_mc_api::names;
use serde_json::{Map, Value, json};

use super::fault::Fault;
use crate::cluster::cluster_id::ClusterId;
use crate::json;
use crate::yaml;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// Collects the list.
#[derive(Debug)]
pub(crate) struct Document {
    format: Format,
    /// The output of the current cluster.
    text: Vec<u8>,
    items: Vec<Value>,
    errors: Vec<Value>,
}

impl Document {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, text: Vec::new(), items: Vec::new(), errors: Vec::new() }
    }

    /// Adds an object of a cluster, or the items of a list.
    pub(crate) fn add(&mut self, cluster: &ClusterId, answer: Value) {
        let begun = self.items.len();
        match answer {
            Value::Object(mut list) if is_list(&list) => {
                let items = list.remove("items");
                let items = items.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
                self.items.extend(items);
            }
            answer => self.items.push(answer),
        }
        self.items[begun..].iter_mut().for_each(|item| mark(item, cluster));
    }

    /// Adds the failure of a cluster.
    pub(super) fn fail(&mut self, cluster: &ClusterId, fault: &Fault) {
        self.errors.extend(cluster_error(cluster, fault));
    }

    /// Renders the whole list.
    pub(crate) fn render(self) -> String {
        let format = self.format;
        let list = self.into_list();
        match format {
            Format::Json => json::text(&list, 0) + "\n",
            Format::Yaml => yaml::text(&list, 0),
        }
    }

    /// The whole list.
    pub(super) fn into_list(self) -> Value {
        let metadata = list_metadata(self.errors);
        json!({"apiVersion": "v1", "items": self.items, "kind": "List", "metadata": metadata})
    }

    /// Adds output of kubectl for the current cluster.
    pub(super) fn take(&mut self, _cluster: &ClusterId, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    /// Parses the output of a cluster after its end. For some verbs, kubectl writes several documents.
    pub(super) fn end(&mut self, cluster: &ClusterId, result: Result<(), Fault>) -> Result<(), Fault> {
        let text = std::mem::take(&mut self.text);
        let mut read = Ok(());
        for answer in serde_json::Deserializer::from_slice(&text).into_iter::<Value>() {
            match answer {
                Ok(answer) => self.add(cluster, answer),
                Err(error) => read = Err(Fault::said(format!("kubectl's answer is no JSON: {error}"))),
            }
        }
        let result = result.and(read);
        if let Err(fault) = &result {
            self.fail(cluster, fault);
        }
        result
    }
}

/// The entry of a cluster whose objects are missing; `None` if it did not fail.
pub(super) fn cluster_error(cluster: &ClusterId, fault: &Fault) -> Option<Value> {
    let message = || fault.detail().unwrap_or_else(|| fault.cause(cluster));
    fault
        .is_failure()
        .then(|| json!({"cluster": cluster.as_str(), "cause": fault.cause(cluster), "message": message()}))
}

/// The metadata of a list, with the clusters whose objects are missing.
pub(super) fn list_metadata(errors: Vec<Value>) -> Value {
    let mut metadata = json!({"resourceVersion": ""});
    if !errors.is_empty() {
        metadata["clusterErrors"] = errors.into();
    }
    metadata
}

/// Whether the object is a list, whose items are merged. Other objects may also have a field `items`.
fn is_list(object: &Map<String, Value>) -> bool {
    object.get("items").is_some_and(Value::is_array)
        && object.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"))
}

/// Adds the cluster of an object to its annotations.
pub(super) fn mark(item: &mut Value, cluster: &ClusterId) {
    let Some(object) = item.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return };
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[names::CLUSTER] = cluster.as_str().into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ClusterId {
        name.parse().unwrap()
    }

    #[test]
    fn lists_and_objects_become_one_list_with_the_errors_apart() {
        let mut document = Document::new(Format::Json);
        document
            .take(&name("m1"), br#"{"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "a"}}"#);
        document.take(&name("m1"), b"]}");
        assert_eq!(document.end(&name("m1"), Ok(())), Ok(()));
        document.take(
            &name("m2"),
            br#"{"kind": "Pod", "metadata": {"annotations": {"x": "y"}}} {"serverVersion": {}}"#,
        );
        assert_eq!(document.end(&name("m2"), Ok(())), Ok(()));
        let fault = Fault::NotReady("gone".into());
        assert_eq!(document.end(&name("m3"), Err(fault.clone())), Err(fault));
        document.take(&name("m4"), b"{\"kind\": ");
        assert!(matches!(document.end(&name("m4"), Ok(())), Err(Fault::Said { .. })));
        let list: Value = serde_json::from_str(&document.render()).unwrap();
        let cluster = |at: usize| &list["items"][at]["metadata"]["annotations"][names::CLUSTER];
        assert_eq!((cluster(0), cluster(1), cluster(2)), (&json!("m1"), &json!("m2"), &json!("m2")));
        assert_eq!(list["items"][1]["metadata"]["annotations"]["x"], "y");
        assert_eq!((list["apiVersion"].as_str(), list["kind"].as_str()), (Some("v1"), Some("List")));
        let errors = list["metadata"]["clusterErrors"].as_array().unwrap();
        assert_eq!(errors[0], json!({"cluster": "m3", "cause": "not ready", "message": "not ready: gone"}));
        assert_eq!(errors.len(), 2);
    }

    #[test]
    fn empty_output_is_a_valid_list() {
        let yaml = Document::new(Format::Yaml).render();
        assert_eq!(yaml, "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n");
    }
}
