//! Reads fields that all kinds of objects and lists have, in JSON from a server.

use serde_json::Value;

/// The objects of a list.
pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

/// Moves the objects out of a list.
pub(crate) fn into_items(mut list: Value) -> Vec<Value> {
    list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default()
}

/// The condition of this type in the object's status.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind)
}
