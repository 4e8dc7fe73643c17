//! What is served here, for the host's aggregator and for clients: groups and resources, OpenAPI and
//! the version. The host waits for these before it deletes a namespace, so nothing here asks anybody:
//! every document is built once, from constants.

use std::sync::LazyLock;

use http::{HeaderMap, Response, StatusCode};

use crate::endpoints::clusters::accept;
use crate::request::body::Body;
use crate::request::request_info::Document;

mod groups;
mod openapi;
mod published;
mod version;

use published::{JSON, Published};

/// Answers a request for one of the documents, or says that the client has it already.
pub fn respond(document: Document, headers: &HeaderMap) -> Response<Body> {
    match document {
        Document::Groups => groups(headers),
        Document::Group => DOCUMENTS.group.respond(headers),
        Document::Resources => DOCUMENTS.resources.respond(headers),
        Document::Version => DOCUMENTS.version.respond(headers),
        Document::OpenApiV3Index => DOCUMENTS.openapi_v3_index.respond(headers),
        Document::OpenApiV2 => json_only(&DOCUMENTS.openapi_v2, headers),
        Document::OpenApiV3 => json_only(&DOCUMENTS.openapi_v3, headers),
    }
}

/// `/apis` is one of three documents; the plain one is for who asks for neither of the others.
fn groups(headers: &HeaderMap) -> Response<Body> {
    let aggregated = |clause: &accept::Clause<'_>| {
        let conversion = clause.takes("application", "json").then(|| clause.conversion()).flatten()?;
        match conversion {
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(&DOCUMENTS.aggregated_v2),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
                Some(&DOCUMENTS.aggregated_v2beta1)
            }
            _ => None,
        }
    };
    let clauses = accept::clauses(headers);
    clauses.iter().find_map(aggregated).unwrap_or(&DOCUMENTS.groups).respond(headers)
}

/// The aggregator reads JSON. Who takes nothing but protobuf asks it, not us.
fn json_only(document: &Published, headers: &HeaderMap) -> Response<Body> {
    if accept::clauses(headers).iter().any(|clause| clause.takes("application", "json")) {
        return document.respond(headers);
    }
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
    response
}

struct Documents {
    groups: Published,
    aggregated_v2: Published,
    aggregated_v2beta1: Published,
    group: Published,
    resources: Published,
    openapi_v2: Published,
    openapi_v3: Published,
    openapi_v3_index: Published,
    version: Published,
}

static DOCUMENTS: LazyLock<Documents> = LazyLock::new(|| {
    let openapi_v3 = Published::new(JSON, &openapi::v3());
    Documents {
        groups: Published::new(JSON, &groups::list()),
        aggregated_v2: Published::new(groups::AGGREGATED_V2, &groups::aggregated("v2")),
        aggregated_v2beta1: Published::new(groups::AGGREGATED_V2BETA1, &groups::aggregated("v2beta1")),
        group: Published::new(JSON, &groups::group()),
        resources: Published::new(JSON, &groups::resources()),
        openapi_v2: Published::new(JSON, &openapi::v2()),
        openapi_v3_index: Published::new(JSON, &openapi::v3_index(openapi_v3.hash())),
        openapi_v3,
        version: Published::new(JSON, &version::info()),
    }
});

#[cfg(test)]
mod tests;
