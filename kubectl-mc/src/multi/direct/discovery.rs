//! Resolves a word of `kubectl get` to a type of a member by the rules of kubectl's REST mapper: short names,
//! categories and the order of groups, from aggregated discovery.

mod api_resource;
mod core;
mod document;
mod store;

pub(crate) use api_resource::ApiResource;
pub(super) use document::Document;
pub(super) use store::Store;

use serde::{Deserialize, Serialize};

/// All types of a member in the order of discovery: `/api` first, and the preferred version of each group
/// first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Discovery(Vec<ApiResource>);

impl Discovery {
    /// The types for a word: one type, or all types of a category.
    pub(crate) fn expand(&self, word: &str) -> Result<Vec<ApiResource>, NoSuchType> {
        let mut of_category: Vec<&ApiResource> = Vec::new();
        for resource in self.0.iter().filter(|resource| resource.categories.iter().any(|name| name == word)) {
            if !of_category.iter().any(|seen| seen.qualified() == resource.qualified()) {
                of_category.push(resource);
            }
        }
        if of_category.is_empty() {
            return Ok(vec![self.resolve(word)?.clone()]);
        }
        of_category.into_iter().map(|resource| Ok(self.resolve(&resource.qualified())?.clone())).collect()
    }

    /// The type for a word: `pods`, `pod`, `po`, `deployments.apps`, `deployments.v1.apps` or `Pod`.
    pub(crate) fn resolve(&self, word: &str) -> Result<&ApiResource, NoSuchType> {
        let (name, rest) = word.split_once('.').unwrap_or((word, ""));
        let versioned = rest.split_once('.').and_then(|(version, group)| {
            self.named(name, group, true).find(|resource| resource.version == version)
        });
        let exact = || self.named(name, rest, !rest.is_empty()).next();
        // A group may be abbreviated: `deployments.app`.
        let by_prefix =
            || self.0.iter().find(|r| !rest.is_empty() && r.is_named(name) && r.group.starts_with(rest));
        let by_kind = || self.0.iter().find(|r| r.kind == name && (rest.is_empty() || r.group == rest));
        versioned
            .or_else(exact)
            .or_else(by_prefix)
            .or_else(by_kind)
            .ok_or_else(|| NoSuchType(name.to_owned()))
    }

    /// The other types for which the word is a short name; kubectl warns about them.
    pub(crate) fn also_matching(&self, word: &str) -> Vec<String> {
        let (name, group) = word.split_once('.').unwrap_or((word, ""));
        let is_exact = |r: &ApiResource| r.plural == name || r.categories.iter().any(|of| of == word);
        if self.0.iter().any(is_exact) {
            return Vec::new();
        }
        let mut matching: Vec<String> = Vec::new();
        for resource in &self.0 {
            let is_short = resource.short.iter().any(|short| short == name);
            let qualified = resource.qualified();
            if is_short && (group.is_empty() || resource.group == group) && !matching.contains(&qualified) {
                matching.push(qualified);
            }
        }
        matching.into_iter().skip(1).collect()
    }

    /// The types with that name, or with that short name if no type has the name.
    fn named<'a>(&'a self, name: &str, group: &str, in_group: bool) -> impl Iterator<Item = &'a ApiResource> {
        let lower = name.to_lowercase();
        let is_plural = self.0.iter().any(|resource| resource.plural == name);
        let short = self.0.iter().find(|resource| {
            !is_plural
                && resource.short.iter().any(|short| short == name)
                && (!in_group || resource.group == group)
        });
        let (plural, group, in_group) = match short {
            Some(resource) => (resource.plural.clone(), resource.group.clone(), true),
            None => (lower, group.to_owned(), in_group),
        };
        self.0
            .iter()
            .filter(move |resource| resource.is_named(&plural) && (!in_group || resource.group == group))
    }
}

impl ApiResource {
    fn is_named(&self, name: &str) -> bool {
        self.plural == name || self.singular == name
    }
}

impl FromIterator<ApiResource> for Discovery {
    fn from_iter<T: IntoIterator<Item = ApiResource>>(resources: T) -> Self {
        Self(resources.into_iter().filter(ApiResource::has_path).collect())
    }
}

/// The type for a word on every Kubernetes version: a full name in `v1`, which precedes all groups. These
/// need no discovery request.
pub(super) fn everywhere(word: &str) -> Option<ApiResource> {
    core::resource(word)
}

/// The error text of kubectl.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the server doesn't have a resource type {0:?}")]
pub(crate) struct NoSuchType(pub(super) String);

#[cfg(test)]
mod tests {
    use super::*;

    fn discovery() -> Discovery {
        let resource =
            |group: &str, version: &str, kind: &str, plural: &str, short: &[&str], all: bool| ApiResource {
                group: group.into(),
                version: version.into(),
                kind: kind.into(),
                plural: plural.into(),
                singular: kind.to_lowercase(),
                short: short.iter().map(|&s| s.to_owned()).collect(),
                categories: if all { vec!["all".into()] } else { Vec::new() },
                namespaced: true,
            };
        [
            resource("", "v1", "Pod", "pods", &["po"], true),
            resource("", "v1", "Event", "events", &["ev"], false),
            resource("apps", "v1", "Deployment", "deployments", &["deploy"], true),
            resource("events.k8s.io", "v1", "Event", "events", &["ev"], false),
            resource(
                "autoscaling",
                "v2",
                "HorizontalPodAutoscaler",
                "horizontalpodautoscalers",
                &["hpa"],
                true,
            ),
            resource(
                "autoscaling",
                "v1",
                "HorizontalPodAutoscaler",
                "horizontalpodautoscalers",
                &["hpa"],
                true,
            ),
            resource("x.example", "v1", "Odd", "po-odd", &[], false),
        ]
        .into_iter()
        .collect()
    }

    #[test]
    fn type_that_leads_elsewhere_is_left_out() {
        let new = |group, version, plural: &str| {
            ApiResource::new(group, version, "Pod".to_owned(), plural.to_owned(), String::new())
        };
        let all = [new("..", "v1", "a"), new("", "v1/../..", "b"), new("", "v1", "../c"), new("", "v1", "d")];
        let discovery: Discovery = all.into_iter().collect();
        assert_eq!(discovery.0.iter().map(|of| of.plural.as_str()).collect::<Vec<_>>(), ["d"]);
    }

    #[test]
    fn word_resolves_to_the_same_type_as_in_kubectl() {
        let discovery = discovery();
        for (word, path) in [
            ("pods", "/api/v1/namespaces/n/pods"),
            ("pod", "/api/v1/namespaces/n/pods"),
            ("po", "/api/v1/namespaces/n/pods"),
            ("Pods", "/api/v1/namespaces/n/pods"),
            ("Pod", "/api/v1/namespaces/n/pods"),
            ("events", "/api/v1/namespaces/n/events"),
            ("ev", "/api/v1/namespaces/n/events"),
            ("events.events.k8s.io", "/apis/events.k8s.io/v1/namespaces/n/events"),
            ("ev.events.k8s.io", "/apis/events.k8s.io/v1/namespaces/n/events"),
            ("deploy", "/apis/apps/v1/namespaces/n/deployments"),
            ("deployments.app", "/apis/apps/v1/namespaces/n/deployments"),
            ("deployments.v1.apps", "/apis/apps/v1/namespaces/n/deployments"),
            ("hpa", "/apis/autoscaling/v2/namespaces/n/horizontalpodautoscalers"),
            ("hpa.v1.autoscaling", "/apis/autoscaling/v1/namespaces/n/horizontalpodautoscalers"),
        ] {
            let path_of = |resource: &ApiResource| resource.path(Some("n"));
            assert_eq!(discovery.resolve(word).map(path_of).as_deref(), Ok(path), "{word}");
        }
        for (word, name) in [("nope", "nope"), ("pods.apps", "pods"), ("deploy.v9.none", "deploy")] {
            assert_eq!(discovery.resolve(word), Err(NoSuchType(name.to_owned())), "{word}");
        }
    }

    #[test]
    fn short_name_of_two_types_also_matches_the_second() {
        let discovery = discovery();
        assert_eq!(discovery.also_matching("ev"), ["events.events.k8s.io"]);
        // Two versions of one type do not count as two types.
        for word in ["po", "hpa", "pods", "events", "ev.events.k8s.io", "all", "nope"] {
            assert_eq!(discovery.also_matching(word), [""; 0], "{word}");
        }
    }

    #[test]
    fn category_lists_its_types_once_in_discovery_order() {
        let names: Vec<_> = discovery().expand("all").unwrap().iter().map(ApiResource::qualified).collect();
        assert_eq!(names, ["pods", "deployments.apps", "horizontalpodautoscalers.autoscaling"]);
        assert_eq!(discovery().expand("all").unwrap()[2].version, "v2");
        assert_eq!(discovery().expand("po").unwrap().len(), 1);
    }
}
