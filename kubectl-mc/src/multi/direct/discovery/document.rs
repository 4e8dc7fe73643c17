//! Parses the discovery documents of members: aggregated (`apidiscovery.k8s.io`, Kubernetes 1.27 and later),
//! with the preferred version of a group first.

use serde::Deserialize;

use super::api_resource::ApiResource;

/// The response to `/api` or `/apis`.
#[derive(Debug, Deserialize)]
pub(in crate::multi::direct) struct Document {
    kind: String,
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    resource: String,
    response_kind: Option<Kind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    #[serde(default)]
    kind: String,
}

impl Document {
    /// The Accept header of the request.
    pub(in crate::multi::direct) const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
        application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

    /// Whether the document is aggregated.
    pub(in crate::multi::direct) fn is_aggregated(&self) -> bool {
        self.kind == "APIGroupDiscoveryList"
    }

    /// The types, in order.
    pub(in crate::multi::direct) fn resources(self) -> impl Iterator<Item = ApiResource> {
        self.items.into_iter().flat_map(|Group { metadata, versions }| {
            versions.into_iter().flat_map(move |Version { version, resources }| {
                let group = metadata.name.clone();
                resources.into_iter().filter_map(move |entry| {
                    let kind = entry.response_kind?.kind;
                    let resource =
                        ApiResource::new(&group, &version, kind, entry.resource, entry.singular_resource);
                    let resource = resource.called(entry.short_names, entry.categories);
                    Some(resource.in_namespaces(entry.scope == "Namespaced"))
                })
            })
        })
    }
}
