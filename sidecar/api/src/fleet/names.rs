//! Writes and reads the names of the fleet view: `<name>_<member>` for namespaces and cluster-scoped objects,
//! `<member>.<version>` for resource versions.
//!
//! No namespace, DNS name or member name can contain `_`, so the last one separates. RBAC names may contain it, so a
//! caller of this module decides by the request's path whether a name has a suffix at all, and never by its look: a
//! user `bob_m1` is legal. A member name has no dot, so the first one ends the member of a resource version.

use std::borrow::Cow;

use crate::ClusterName;

/// The segment of a path that stands for all members, as decoded; clients also send `%2A`.
pub const ALL_MEMBERS: &str = "*";

/// The annotation that names an object's member, on every object of the view.
pub const CLUSTER_ANNOTATION: &str = "fleet.kubectl-mc.dev/cluster";

/// Separates a name from its member.
pub const SEPARATOR: char = '_';

/// A name of a member in the view.
pub fn join(name: &str, member: &ClusterName) -> String {
    format!("{name}{SEPARATOR}{member}")
}

/// The name on the member, and the member, if the name has a suffix.
pub fn split(name: &str) -> Option<(&str, ClusterName)> {
    let (name, member) = name.rsplit_once(SEPARATOR)?;
    match name {
        "" => None,
        name => Some((name, member.parse().ok()?)),
    }
}

/// The name on the member, if the name has the suffix of this one.
pub fn split_from<'a>(name: &'a str, member: &ClusterName) -> Option<&'a str> {
    let name = name.strip_suffix(member.as_str())?.strip_suffix(SEPARATOR)?;
    (!name.is_empty()).then_some(name)
}

/// A resource version of a member in the view. Versions that mean "any" and "none" stay as they are.
pub fn join_version<'a>(version: &'a str, member: &ClusterName) -> Cow<'a, str> {
    match version {
        "" | "0" => Cow::Borrowed(version),
        version => Cow::Owned(format!("{member}.{version}")),
    }
}

/// The member of a resource version, and the version there. `None` for a version without a member, such as a decimal
/// number.
pub fn split_version(version: &str) -> Option<(ClusterName, &str)> {
    let (member, version) = version.split_once('.')?;
    Some((member.parse().ok()?, version))
}

/// The resource version on a member: the view's form of this member, or a version without a member. `None` if it
/// belongs to another member.
pub fn version_on<'a>(version: &'a str, member: &ClusterName) -> Option<&'a str> {
    match split_version(version) {
        Some((of, version)) => (of == *member).then_some(version),
        None => Some(version),
    }
}

/// Whether objects of this resource are merged by name in the view and have no suffix.
pub fn is_merged_resource(group: &str, resource: &str) -> bool {
    MERGED.iter().any(|merged| (merged.group, merged.resource) == (group, resource))
}

/// Whether objects of this kind are merged by name in the view and have no suffix.
pub fn is_merged_kind(group: &str, kind: &str) -> bool {
    MERGED.iter().any(|merged| (merged.group, merged.kind) == (group, kind))
}

struct Merged {
    group: &'static str,
    resource: &'static str,
    kind: &'static str,
}

/// Clients use the names of these objects to find other objects.
const MERGED: [Merged; 2] = [
    Merged {
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        kind: "CustomResourceDefinition",
    },
    Merged { group: "apiregistration.k8s.io", resource: "apiservices", kind: "APIService" },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    #[test]
    fn name_is_split_at_the_last_separator() {
        for (joined, name, of) in [
            ("kube-system_m1", "kube-system", "m1"),
            ("system:node_reader_eu-1", "system:node_reader", "eu-1"),
            ("default_m2_m1", "default_m2", "m1"),
            ("__m1", "_", "m1"),
        ] {
            assert_eq!(split(joined), Some((name, member(of))), "{joined}");
            assert_eq!(split_from(joined, &member(of)), Some(name), "{joined}");
            assert_eq!(join(name, &member(of)), joined);
        }
    }

    #[test]
    fn text_without_a_name_or_a_member_is_not_split() {
        for text in ["", "_", "m1", "_m1", "default_", "default_M1", "default_m.1", "default_*", "default_-m"]
        {
            assert_eq!(split(text), None, "{text}");
            assert_eq!(split_from(text, &member("m1")), None, "{text}");
        }
        assert_eq!(split_from("default_xm1", &member("m1")), None);
        assert_eq!(split_from("default_m1_m2", &member("m1")), None);
    }

    #[test]
    fn resource_version_names_its_member() {
        let m1 = member("m1");
        assert_eq!(join_version("42", &m1), "m1.42");
        assert_eq!(split_version("m1.42"), Some((m1.clone(), "42")));
        for (version, on_member) in
            [("m1.42", Some("42")), ("42", Some("42")), ("m2.42", None), ("", Some(""))]
        {
            assert_eq!(version_on(version, &m1), on_member, "{version}");
        }
        for any in ["", "0"] {
            assert_eq!(join_version(any, &m1), any);
        }
        // A member's versions are opaque: one of them may contain a dot.
        assert_eq!(version_on(&join_version("a.b", &m1), &m1), Some("a.b"));
    }

    #[test]
    fn definitions_of_types_are_merged() {
        assert!(is_merged_resource("apiextensions.k8s.io", "customresourcedefinitions"));
        assert!(is_merged_kind("apiregistration.k8s.io", "APIService"));
        assert!(!is_merged_resource("", "nodes"));
        assert!(!is_merged_kind("example.com", "APIService"));
    }

    proptest::proptest! {
        #[test]
        fn joined_name_is_split_again(name in ".{1,40}", of in "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?") {
            let of = member(&of);
            let joined = join(&name, &of);
            proptest::prop_assert_eq!(split(&joined), Some((name.as_str(), of.clone())));
            proptest::prop_assert_eq!(split_from(&joined, &of), Some(name.as_str()));
        }
    }
}
