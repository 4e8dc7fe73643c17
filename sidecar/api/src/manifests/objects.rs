//! Reads and changes the objects of a manifest.

use serde_json::{Value, json};

use super::error::Error;
use super::values::VERSION;
use crate::names::{KUBECTL_MC, MANAGED_BY, SIDECAR};

/// The objects of a manifest.
pub fn objects(text: &str) -> Result<Vec<Value>, Error> {
    serde_saphyr::from_multiple(text).map_err(|error| Error::Yaml(error.to_string()))
}

/// Adds Kubernetes' recommended labels to objects.
pub(super) fn labelled(mut objects: Vec<Value>, own: &[(&str, &str)]) -> Vec<Value> {
    for object in &mut objects {
        let labels = &mut object["metadata"]["labels"];
        for (key, value) in own {
            labels[key] = (*value).into();
        }
        labels["app.kubernetes.io/version"] = VERSION.into();
        labels[MANAGED_BY] = KUBECTL_MC.into();
    }
    objects
}

pub(super) fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

pub(super) fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

/// The labels of every object and of the pods. In the chart, the instance is the name of the release.
pub(super) const LABELS: [(&str, &str); 4] = [
    ("app.kubernetes.io/name", SIDECAR),
    ("app.kubernetes.io/instance", SIDECAR),
    ("app.kubernetes.io/component", "cluster-proxy"),
    ("app.kubernetes.io/part-of", KUBECTL_MC),
];
