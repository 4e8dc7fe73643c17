//! Serves discovery for the host's aggregator and for clients: groups and resources, OpenAPI and the version.
//! The host needs these before it deletes a namespace, so every document is built in advance and no
//! request waits. For another server's group, the last documents that this server sent are used.

use http::{HeaderMap, Response, StatusCode};
use kubectl_mc_api::Origin;
use serde_json::Value;

use crate::endpoints::clusters::accept;
use crate::head::request_info::Document;
use crate::outbound::body::{self, Body};

mod groups;
mod openapi;
mod published;
mod version;

use published::{JSON, Published};

/// The documents for the served API groups.
pub struct Documents {
    list: Published,
    aggregated_v2: Published,
    aggregated_v2beta1: Published,
    openapi_v2: Published,
    openapi_v3_index: Published,
    version: Published,
    groups: Vec<OfGroup>,
    /// A served group whose documents are not known yet.
    awaited: Option<Origin>,
}

/// The documents of another server's API group.
#[derive(Clone, Debug, PartialEq)]
pub struct OfServer {
    pub origin: Origin,
    /// APIGroup
    pub group: Value,
    /// APIResourceList
    pub resources: Value,
    /// APIGroupDiscovery
    pub aggregated: Value,
    pub openapi_v2: Value,
    pub openapi_v3: Value,
}

/// The documents for one API group.
struct OfGroup {
    origin: Origin,
    group: Published,
    resources: Published,
    openapi_v3: Published,
}

impl Documents {
    /// The documents for the sidecar's own group, and for the group that belongs to a hub.
    pub fn new(hub: Option<Origin>) -> Self {
        Self::of(&[Origin::MemberCluster].into_iter().chain(hub).collect::<Vec<_>>(), None)
    }

    /// The documents for the sidecar's own group, before this hub's server has sent those of its group.
    pub fn awaiting(hub: Origin) -> Self {
        Self { awaited: Some(hub), ..Self::new(None) }
    }

    /// The documents for the sidecar's own group, and for another server's group.
    pub fn with_server(server: &OfServer) -> Self {
        Self::of(&[Origin::MemberCluster], Some(server))
    }

    fn of(own: &[Origin], server: Option<&OfServer>) -> Self {
        let of_server = server.map(OfGroup::of_server);
        let groups: Vec<_> = own.iter().map(|&origin| OfGroup::new(origin)).chain(of_server).collect();
        let hashes = groups.iter().map(|group| (group.origin, group.openapi_v3.hash()));
        let of_each = |own_document: fn(Origin) -> Value, of_server: fn(&OfServer) -> &Value| {
            let own = own.iter().map(|&origin| own_document(origin));
            own.chain(server.map(of_server).cloned()).collect::<Vec<_>>()
        };
        let list = of_each(groups::group, |server| &server.group);
        let items = of_each(groups::aggregated_group, |server| &server.aggregated);
        let mut openapi_v2 = openapi::v2(own);
        if let Some(server) = server {
            openapi_v2 = openapi::merged(openapi_v2, &server.openapi_v2);
        }
        Self {
            list: Published::new(JSON, &groups::list(&list)),
            aggregated_v2: Published::new(groups::AGGREGATED_V2, &groups::aggregated("v2", &items)),
            aggregated_v2beta1: Published::new(
                groups::AGGREGATED_V2BETA1,
                &groups::aggregated("v2beta1", &items),
            ),
            openapi_v2: Published::new(JSON, &openapi_v2),
            openapi_v3_index: Published::new(JSON, &openapi::v3_index(hashes)),
            version: Published::new(JSON, &version::info()),
            groups,
            awaited: None,
        }
    }

    /// Whether the group that belongs to this inventory is served.
    pub fn has_group(&self, origin: Origin) -> bool {
        self.of_group(origin).is_some() || self.awaited == Some(origin)
    }

    /// Answers a request for one of the documents, or answers 304 if the client's copy is current.
    pub fn respond(&self, document: Document, headers: &HeaderMap) -> Response<Body> {
        match document {
            Document::Groups => self.groups(headers),
            Document::Version => self.version.respond(headers),
            Document::OpenApiV3Index => self.openapi_v3_index.respond(headers),
            Document::OpenApiV2 => json_only(&self.openapi_v2, headers),
            Document::Group(origin) | Document::Resources(origin) | Document::OpenApiV3(origin) => {
                match (document, self.of_group(origin)) {
                    (Document::Group(_), Some(of_group)) => of_group.group.respond(headers),
                    (Document::Resources(_), Some(of_group)) => of_group.resources.respond(headers),
                    (_, Some(of_group)) => json_only(&of_group.openapi_v3, headers),
                    (_, None) if self.awaited == Some(origin) => {
                        body::response(StatusCode::SERVICE_UNAVAILABLE, Body::Empty)
                    }
                    (_, None) => body::response(StatusCode::NOT_FOUND, Body::Empty),
                }
            }
        }
    }

    /// `/apis` has three formats; the plain one is for clients that ask for neither of the others.
    fn groups(&self, headers: &HeaderMap) -> Response<Body> {
        let aggregated = |clause: &accept::Clause<'_>| {
            let conversion = clause.takes("application", "json").then(|| clause.conversion()).flatten()?;
            match conversion {
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(&self.aggregated_v2),
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => Some(&self.aggregated_v2beta1),
                _ => None,
            }
        };
        let clauses = accept::clauses(headers);
        clauses.iter().find_map(aggregated).unwrap_or(&self.list).respond(headers)
    }

    fn of_group(&self, origin: Origin) -> Option<&OfGroup> {
        self.groups.iter().find(|group| group.origin == origin)
    }
}

impl OfGroup {
    fn new(origin: Origin) -> Self {
        Self {
            origin,
            group: Published::new(JSON, &groups::group(origin)),
            resources: Published::new(JSON, &groups::resources(origin)),
            openapi_v3: Published::new(JSON, &openapi::v3(origin)),
        }
    }

    fn of_server(server: &OfServer) -> Self {
        Self {
            origin: server.origin,
            group: Published::new(JSON, &server.group),
            resources: Published::new(JSON, &server.resources),
            openapi_v3: Published::new(JSON, &server.openapi_v3),
        }
    }
}

/// The aggregator reads JSON. A client that accepts only protobuf gets it from the host.
fn json_only(document: &Published, headers: &HeaderMap) -> Response<Body> {
    if accept::clauses(headers).iter().any(|clause| clause.takes("application", "json")) {
        return document.respond(headers);
    }
    body::response(StatusCode::NOT_ACCEPTABLE, Body::Empty)
}

#[cfg(test)]
mod tests;
