//! Renames the operations of a JSON patch (RFC 6902). A value is renamed according to the path that it is written to or
//! compared with. The value of a `copy` or `move` is not known here, so its target must not be a path that holds names.

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::fleet::names::CLUSTER_ANNOTATION;
use kubectl_mc_api::fleet::references::{self, Type};
use serde_json::Value;

use super::error::Error;

/// The operations of a JSON patch.
#[derive(Debug)]
pub(super) struct Patch(Vec<Operation>);

#[derive(Debug)]
struct Operation {
    kind: Kind,
    path: String,
    place: Vec<String>,
    operation: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `add`, `replace` and `test`.
    Value,
    Remove,
    /// `copy` and `move`.
    From,
}

impl Patch {
    pub(super) fn parse(patch: Value) -> Result<Self, Error> {
        let Value::Array(operations) = patch else {
            return Err(Error::JsonPatch("it is no list of operations".to_owned()));
        };
        operations.into_iter().map(Operation::parse).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn into_members(self, of: Type, member: &ClusterName) -> Result<Value, Error> {
        let operations = self.0.into_iter().map(|operation| operation.into_members(of, member));
        let operations: Vec<_> = operations.collect::<Result<_, _>>()?;
        Ok(operations.into_iter().flatten().collect())
    }
}

impl Operation {
    fn parse(operation: Value) -> Result<Self, Error> {
        let text = |key| operation.get(key).and_then(Value::as_str);
        let kind = match text("op") {
            Some("add" | "replace" | "test") => Kind::Value,
            Some("remove") => Kind::Remove,
            Some("copy" | "move") => Kind::From,
            other => {
                return Err(Error::JsonPatch(format!("unknown operation {:?}", other.unwrap_or_default())));
            }
        };
        let path = text("path").ok_or_else(|| Error::JsonPatch("an operation has no path".to_owned()))?;
        let (path, place) = (path.to_owned(), place(path)?);
        if kind == Kind::From {
            let from: Vec<_> = self::place(text("from").unwrap_or_default())?;
            if from.iter().eq(&ANNOTATION) {
                return Err(Error::JsonPatch(format!("annotation {CLUSTER_ANNOTATION} cannot be copied")));
            }
        }
        Ok(Self { kind, path, place, operation })
    }

    /// The operation on the member's object, if there is something to do.
    fn into_members(mut self, of: Type, member: &ClusterName) -> Result<Option<Value>, Error> {
        let place: Vec<_> = self.place.iter().map(String::as_str).collect();
        if place.starts_with(&ANNOTATION) {
            // The member's object does not have the annotation, and the view's object always has this value.
            return match (self.kind, self.operation.get("value").and_then(Value::as_str)) {
                (Kind::Remove, _) => Ok(None),
                (Kind::Value, Some(value)) if value == member.as_str() && place.len() == ANNOTATION.len() => {
                    Ok(None)
                }
                _ => Err(Error::JsonPatch(format!(
                    "annotation {CLUSTER_ANNOTATION} is {member} and cannot change"
                ))),
            };
        }
        match self.kind {
            Kind::Remove => {}
            Kind::From if references::holds_names(&place, of) => {
                return Err(Error::JsonPatch(format!("a value cannot be copied to {}: add it", self.path)));
            }
            Kind::From => {}
            Kind::Value => {
                if let Some(value) = self.operation.get_mut("value") {
                    references::part_to_member(value, &place, of, member)?;
                }
            }
        }
        Ok(Some(self.operation))
    }
}

/// The keys and indexes of a JSON pointer (RFC 6901). A kube-apiserver ignores the text before the first slash, so a
/// pointer must begin with a slash.
fn place(pointer: &str) -> Result<Vec<String>, Error> {
    let invalid = || Error::JsonPatch(format!("{pointer:?} is no JSON pointer"));
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let keys = pointer.strip_prefix('/').ok_or_else(invalid)?.split('/');
    keys.map(|key| {
        let escapes = key.split('~').skip(1);
        match escapes.into_iter().all(|rest| rest.starts_with(['0', '1'])) {
            true => Ok(key.replace("~1", "/").replace("~0", "~")),
            false => Err(invalid()),
        }
    })
    .collect()
}

const ANNOTATION: [&str; 3] = ["metadata", "annotations", CLUSTER_ANNOTATION];
