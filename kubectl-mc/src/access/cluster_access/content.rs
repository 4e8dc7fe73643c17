//! The content of a grant: the part that a stored ClusterAccess and a command line with its name
//! must have in common. The expiry may differ, and so may the verbs on the proxy, which are derived
//! from the role.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::access::list::{ALL, role, selection, subjects};

/// The role, the subjects and the place of a grant.
#[derive(Debug, PartialEq)]
pub(super) struct Content {
    role: String,
    subjects: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    clusters: Clusters,
}

#[derive(Debug, PartialEq)]
enum Clusters {
    Named(BTreeSet<String>),
    Selected(String),
}

impl Content {
    /// Reads the spec of a ClusterAccess.
    pub(super) fn of(spec: &Value) -> Self {
        let words = |text: &str| text.split(',').map(str::to_owned).collect();
        Self {
            role: role(&spec["roleRef"]),
            subjects: words(&subjects(&spec["subjects"])),
            namespaces: names(&spec["namespaces"]),
            clusters: match spec["clusters"].is_array() {
                true => Clusters::Named(names(&spec["clusters"])),
                false => Clusters::Selected(selection(&spec["clusterSelector"])),
            },
        }
    }

    /// Whether the other is the same grant. A pattern may match other clusters than before.
    pub(super) fn is_same(&self, other: &Self, has_pattern: bool) -> bool {
        let is_same_place = match (&self.clusters, &other.clusters) {
            (Clusters::Named(one), Clusters::Named(other)) if has_pattern => !one.is_disjoint(other),
            (one, other) => one == other,
        };
        is_same_place
            && (&self.role, &self.subjects, &self.namespaces)
                == (&other.role, &other.subjects, &other.namespaces)
    }
}

fn names(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// `view for user:jane in shop on m1,m2`
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined =
            |words: &BTreeSet<String>| words.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        write!(f, "{} for {}", self.role, joined(&self.subjects))?;
        if !self.namespaces.is_empty() {
            write!(f, " in {}", joined(&self.namespaces))?;
        }
        match &self.clusters {
            Clusters::Named(names) => write!(f, " on {}", joined(names)),
            Clusters::Selected(selector) if selector == ALL => f.write_str(" on all clusters"),
            Clusters::Selected(selector) => write!(f, " on clusters with {selector}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(clusters: &Value) -> Content {
        Content::of(&json!({
            "roleRef": {"kind": "ClusterRole", "name": "view"}, "namespaces": ["shop"], "clusters": clusters,
            "subjects": [{"kind": "User", "name": "joe"}, {"kind": "User", "name": "jane"}],
        }))
    }

    #[test]
    fn pattern_may_match_other_clusters_than_before() {
        let (before, after) = (content(&json!(["m1", "m2"])), content(&json!(["m2", "m3"])));
        assert!(before.is_same(&after, true) && !before.is_same(&after, false));
        assert!(before.is_same(&content(&json!(["m2", "m1"])), false), "in another order");
        assert!(!before.is_same(&content(&json!(["m3"])), true));
        assert!(!before.is_same(&content(&Value::Null), true), "a selector");
    }

    #[test]
    fn content_reads_like_the_command_line() {
        assert_eq!(content(&json!(["m1", "m2"])).to_string(), "view for user:jane,user:joe in shop on m1,m2");
        assert!(content(&Value::Null).to_string().ends_with(" on all clusters"));
    }
}
