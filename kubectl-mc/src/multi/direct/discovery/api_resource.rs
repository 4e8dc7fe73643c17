//! A type of a member, and its path.

use serde::{Deserialize, Serialize};

use crate::multi::direct::path_name::is_name;

/// A type of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApiResource {
    #[serde(rename = "g", default, skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    #[serde(rename = "v")]
    pub(crate) version: String,
    #[serde(rename = "k")]
    pub(crate) kind: String,
    #[serde(rename = "p")]
    pub(crate) plural: String,
    #[serde(rename = "s")]
    pub(super) singular: String,
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) short: Vec<String>,
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) categories: Vec<String>,
    #[serde(rename = "n", default)]
    pub(crate) namespaced: bool,
}

impl ApiResource {
    /// A type without namespaces, short names and categories. Without a singular, its kind is used, as in
    /// kubectl.
    pub(in crate::multi::direct) fn new(
        group: &str,
        version: &str,
        kind: String,
        plural: String,
        singular: String,
    ) -> Self {
        let singular = if singular.is_empty() { kind.to_lowercase() } else { singular };
        let (group, version) = (group.to_owned(), version.to_owned());
        let (short, categories) = (Vec::new(), Vec::new());
        Self { group, version, kind, plural, singular, short, categories, namespaced: false }
    }

    #[must_use]
    pub(in crate::multi::direct) fn called(self, short: Vec<String>, categories: Vec<String>) -> Self {
        Self { short, categories, ..self }
    }

    #[must_use]
    pub(in crate::multi::direct) fn in_namespaces(self, namespaced: bool) -> Self {
        Self { namespaced, ..self }
    }

    /// Such as `pods` or `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The prefix that kubectl prints before an object's name, such as `pod` or `deployment.apps`.
    pub(crate) fn prefix(&self) -> String {
        let kind = self.kind.to_lowercase();
        if self.group.is_empty() { kind } else { format!("{kind}.{}", self.group) }
    }

    /// Such as `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether its names are safe in a path.
    pub(super) fn has_path(&self) -> bool {
        let Self { group, version, plural, .. } = self;
        (group.is_empty() || is_name(group)) && is_name(version) && is_name(plural)
    }

    /// The path of a list, with a namespace if the type is namespaced and one is given.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let version = self.api_version();
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{version}/{}", self.plural),
        }
    }
}
