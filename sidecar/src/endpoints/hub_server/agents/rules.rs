//! Compares the Cluster that an agent's write would store with the stored one. Fields that are not
//! listed here stay unchanged, even if a later version of Karmada adds fields.
//!
//! karmada-agent writes its Cluster when it registers, and again when its flags have changed
//! (`cmd/agent/app/agent.go`). It never sets labels, annotations, taints, finalizers or owners. Karmada places
//! workloads by labels, annotations and taints, so an agent could attract workloads of other
//! clusters to its own.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::Refused;

/// The cluster of the agent, and the namespace of the Secrets that Clusters reference.
#[derive(Clone, Copy)]
pub(super) struct Own<'a> {
    pub(super) cluster: &'a str,
    pub(super) namespace: &'a str,
}

impl Own<'_> {
    /// The spec of a new Cluster.
    pub(super) fn registered(self, document: &Map<String, Value>) -> Result<Map<String, Value>, Refused> {
        for (key, value) in document {
            if !TOP.contains(&key.as_str()) && !is_zero(value) {
                return Err(Refused::Registration { field: key.clone() });
            }
        }
        for (key, value) in fields(document.get("metadata"))? {
            if key != "name" && !is_zero(value) {
                return Err(Refused::Registration { field: format!("metadata.{key}") });
            }
        }
        let mut spec = Map::new();
        for (key, value) in fields(document.get("spec"))?.iter().filter(|(_, value)| !is_zero(value)) {
            let value = match key.as_str() {
                "apiEndpoint" if !value.as_str().is_some_and(|text| text.starts_with("https://")) => {
                    return Err(Refused::Registration {
                        field: "an https:// URL in spec.apiEndpoint".to_owned(),
                    });
                }
                "apiEndpoint" | "proxyURL" | "id" | "insecureSkipTLSVerification" => value.clone(),
                field => match self.change(field, value) {
                    Some(value) => value?,
                    None => return Err(Refused::Registration { field: format!("spec.{field}") }),
                },
            };
            spec.insert(key.clone(), value);
        }
        Ok(spec)
    }

    /// The fields of the spec that a write changes; `null` removes one. `result` is the whole Cluster after
    /// the write.
    pub(super) fn changes(self, current: &Value, result: &Value) -> Result<Map<String, Value>, Refused> {
        let (old, new) = (fields(Some(current))?, fields(Some(result))?);
        for key in keys(old, new).filter(|key| !["metadata", "spec", "status"].contains(key)) {
            // A document need not contain its kind.
            if !(is_same(old, new, key) || is_zero(&result[key])) {
                return Err(self.kept(key.to_owned()));
            }
        }
        let (old, new) = (fields(old.get("metadata"))?, fields(new.get("metadata"))?);
        for key in keys(old, new).filter(|key| !OF_SERVER.contains(key)) {
            if !is_same(old, new, key) {
                return Err(self.kept(format!("metadata.{key}")));
            }
        }
        let (old, new) = (fields(current.get("spec"))?, fields(result.get("spec"))?);
        let mut changes = Map::new();
        for key in keys(old, new).filter(|key| !is_same(old, new, key)) {
            let value = new.get(key).unwrap_or(&Value::Null);
            let value = self.change(key, value).ok_or_else(|| self.kept(format!("spec.{key}")))??;
            changes.insert(key.to_owned(), value);
        }
        Ok(changes)
    }

    /// The value that is stored for a field of the spec, if an agent may change the field.
    fn change(self, field: &str, value: &Value) -> Option<Result<Value, Refused>> {
        match field {
            "provider" | "region" | "zone" | "zones" => Some(Ok(value.clone())),
            "syncMode" if value == "Pull" => Some(Ok(value.clone())),
            "secretRef" => Some(self.bound("secretRef", value, self.cluster.to_owned())),
            "impersonatorSecretRef" => {
                Some(self.bound("impersonatorSecretRef", value, format!("{}{IMPERSONATOR}", self.cluster)))
            }
            _ => None,
        }
    }

    fn bound(self, field: &'static str, value: &Value, name: String) -> Result<Value, Refused> {
        let bound = json!({"namespace": self.namespace, "name": name});
        match *value == bound {
            true => Ok(bound),
            false => Err(Refused::Reference { field, bound: format!("{}/{name}", self.namespace) }),
        }
    }

    fn kept(self, field: String) -> Refused {
        Refused::Kept { field, cluster: self.cluster.to_owned() }
    }
}

/// The fields of an object. No object has none.
pub(super) fn fields(value: Option<&Value>) -> Result<&Map<String, Value>, Refused> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    match value {
        None | Some(Value::Null) => Ok(&NONE),
        Some(Value::Object(fields)) => Ok(fields),
        Some(_) => Err(Refused::NotJson),
    }
}

fn keys<'a>(old: &'a Map<String, Value>, new: &'a Map<String, Value>) -> impl Iterator<Item = &'a str> {
    old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))).map(String::as_str)
}

fn is_same(old: &Map<String, Value>, new: &Map<String, Value>, key: &str) -> bool {
    let [old, new] = [old, new].map(|fields| fields.get(key).unwrap_or(&Value::Null));
    old == new || (is_zero(old) && is_zero(new))
}

/// Whether Go omits the value: a client may send it or leave it out.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

const TOP: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
/// The fields that the server writes. These are sent as they are stored.
const OF_SERVER: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];
const IMPERSONATOR: &str = "-impersonator";
