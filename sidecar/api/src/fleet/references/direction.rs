//! The two directions of the renaming: each name and each version that an object holds, and what is refused.

use std::borrow::Cow;
use std::convert::Infallible;

use serde_json::{Map, Value};

use crate::ClusterName;
use crate::fleet::names::{self, CLUSTER_ANNOTATION, SEPARATOR};

/// One direction of the renaming.
pub(super) trait Direction {
    type Error;

    /// Renames a name. A name that is `own` cannot be without its suffix in the view.
    fn name(&self, name: &str, own: bool, field: &dyn Fn() -> String) -> Result<Option<String>, Self::Error>;

    fn version(&self, version: &str, field: &str) -> Result<Option<String>, Self::Error>;

    /// Checks the value of a field that refers to an object of an unknown kind, because only a part is sent.
    fn unknown(&self, value: &Value, field: &dyn Fn() -> String) -> Result<(), Self::Error>;

    /// Removes the annotation of the view.
    fn annotation(&self, annotations: &mut Map<String, Value>) -> Result<(), Self::Error>;
}

pub(super) struct ToFleet<'a>(pub(super) &'a ClusterName);

impl Direction for ToFleet<'_> {
    type Error = Infallible;

    fn name(&self, name: &str, _: bool, _: &dyn Fn() -> String) -> Result<Option<String>, Infallible> {
        Ok(Some(names::join(name, self.0)))
    }

    fn version(&self, version: &str, _: &str) -> Result<Option<String>, Infallible> {
        match names::join_version(version, self.0) {
            Cow::Owned(version) => Ok(Some(version)),
            Cow::Borrowed(_) => Ok(None),
        }
    }

    fn unknown(&self, _: &Value, _: &dyn Fn() -> String) -> Result<(), Infallible> {
        Ok(())
    }

    fn annotation(&self, _: &mut Map<String, Value>) -> Result<(), Infallible> {
        Ok(())
    }
}

pub(super) struct ToMember<'a>(pub(super) &'a ClusterName);

impl ToMember<'_> {
    fn refused(&self, field: impl Into<String>, value: &str, reason: impl Into<String>) -> Refused {
        let field = field.into().replace(".[]", "[]");
        Refused { field, value: value.to_owned(), reason: reason.into() }
    }
}

impl Direction for ToMember<'_> {
    type Error = Refused;

    fn name(&self, name: &str, own: bool, field: &dyn Fn() -> String) -> Result<Option<String>, Refused> {
        if let Some(name) = names::split_from(name, self.0) {
            return Ok(Some(name.to_owned()));
        }
        let member = self.0;
        if own || name.contains(SEPARATOR) {
            let reason = format!("is not a name on member {member}: names there end in _{member}");
            return Err(self.refused(field(), name, reason));
        }
        Ok(None)
    }

    fn version(&self, version: &str, field: &str) -> Result<Option<String>, Refused> {
        match names::version_on(version, self.0) {
            None => Err(self.refused(field, version, format!("is not a version of member {}", self.0))),
            Some(on_member) => Ok((on_member.len() != version.len()).then(|| on_member.to_owned())),
        }
    }

    fn unknown(&self, value: &Value, field: &dyn Fn() -> String) -> Result<(), Refused> {
        match value.as_str() {
            Some(text) if text.contains(SEPARATOR) => Err(self.refused(
                field(),
                text,
                "has a suffix, but not the kind: replace the whole reference",
            )),
            _ => Ok(()),
        }
    }

    fn annotation(&self, annotations: &mut Map<String, Value>) -> Result<(), Refused> {
        match annotations.remove(CLUSTER_ANNOTATION) {
            Some(Value::String(other)) if other != self.0.as_str() => {
                let reason = format!("is another member than {}, to which the request goes", self.0);
                Err(self.refused(format!("metadata.annotations[{CLUSTER_ANNOTATION}]"), &other, reason))
            }
            _ => Ok(()),
        }
    }
}

/// Why an object of the view cannot be sent to a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value:?} {reason}")]
pub struct Refused {
    field: String,
    value: String,
    reason: String,
}
