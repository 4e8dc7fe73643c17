//! Encodes answers: one cluster, a list, an event or a bookmark in the negotiated format.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kubectl_mc_api::path::PROXY_GROUP_VERSION;
use serde::Serialize;

use super::accept::Shape;
use super::object::{self, Cluster, KIND};
use super::table::{self, Include, Row, Table};

/// How to encode clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Object,
    Metadata,
    Table(Include),
}

/// Clusters of one answer.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) version: u64,
    pub(super) clusters: Vec<Arc<Cluster>>,
    pub(super) next: Option<String>,
    /// How many clusters follow, if this is cheap to determine.
    pub(super) remaining: Option<usize>,
}

impl Form {
    pub(super) fn new(shape: Shape, include: Include) -> Self {
        match shape {
            Shape::Object => Self::Object,
            Shape::Metadata | Shape::MetadataList => Self::Metadata,
            Shape::Table => Self::Table(include),
        }
    }

    /// Appends one cluster; `headers` asks a table for its column definitions.
    pub(super) fn write_one(self, out: &mut Vec<u8>, cluster: &Cluster, headers: bool) {
        let metadata = &cluster.object.metadata;
        match self {
            Self::Object => out.extend_from_slice(&cluster.json),
            Self::Metadata => write(out, &Partial::new(metadata)),
            Self::Table(include) => {
                let row = Row::new(cluster, include, Timestamp::now());
                write(out, &Table::new(table::of_one(&metadata.resource_version), vec![row], headers));
            }
        }
    }

    pub(super) fn page(self, page: &Page) -> Vec<u8> {
        let metadata = ListMetadata {
            resource_version: page.version.to_string(),
            r#continue: page.next.as_deref(),
            remaining_item_count: page.remaining,
        };
        let mut out = Vec::new();
        match self {
            Self::Object => {
                let json = page.clusters.iter().map(|cluster| cluster.json.as_ref());
                write_list(&mut out, "ClusterList", PROXY_GROUP_VERSION, &metadata, json);
            }
            Self::Metadata => {
                let json =
                    page.clusters.iter().map(|cluster| to_vec(&Partial::new(&cluster.object.metadata)));
                write_list(&mut out, "PartialObjectMetadataList", META_V1, &metadata, json);
            }
            Self::Table(include) => {
                let now = Timestamp::now();
                let rows = page.clusters.iter().map(|cluster| Row::new(cluster, include, now)).collect();
                write(&mut out, &Table::new(metadata, rows, true));
            }
        }
        out
    }

    /// Appends a bookmark's object; `initial_events_end` marks the end of a streamed list.
    pub(super) fn write_bookmark(
        self,
        out: &mut Vec<u8>,
        version: u64,
        initial_events_end: bool,
        headers: bool,
    ) {
        let (kind, api_version) = match self {
            Self::Object => (KIND, PROXY_GROUP_VERSION),
            Self::Metadata | Self::Table(_) => ("PartialObjectMetadata", META_V1),
        };
        let annotations =
            initial_events_end.then_some(("k8s.io/initial-events-end", "true")).into_iter().collect();
        let metadata =
            MarkerMetadata { resource_version: version.to_string(), creation_timestamp: None, annotations };
        let marker = Marker { kind, api_version, metadata };
        match self {
            Self::Object | Self::Metadata => write(out, &marker),
            Self::Table(_) => {
                let metadata = table::of_one(&marker.metadata.resource_version);
                write(out, &Table::new(metadata, vec![Row::of_marker(&marker)], headers));
            }
        }
    }
}

/// `PartialObjectMetadata`
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Partial<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: &'a object::Metadata,
}

impl<'a> Partial<'a> {
    pub(super) fn new(metadata: &'a object::Metadata) -> Self {
        Self { kind: "PartialObjectMetadata", api_version: META_V1, metadata }
    }
}

/// The object of a bookmark.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Marker {
    kind: &'static str,
    api_version: &'static str,
    metadata: MarkerMetadata,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MarkerMetadata {
    resource_version: String,
    creation_timestamp: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, &'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata<'a> {
    resource_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#continue: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_item_count: Option<usize>,
}

/// Metadata with only a resourceVersion.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RV<'a> {
    pub(super) resource_version: &'a str,
}

/// Encodes a list whose items are already encoded.
fn write_list(
    out: &mut Vec<u8>,
    kind: &str,
    api_version: &str,
    metadata: &ListMetadata<'_>,
    items: impl Iterator<Item: AsRef<[u8]>>,
) {
    out.extend_from_slice(
        format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":"#).as_bytes(),
    );
    write(out, metadata);
    out.extend_from_slice(br#","items":["#);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item.as_ref());
    }
    out.extend_from_slice(b"]}");
}

fn to_vec(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, value);
    out
}

fn write(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("our documents have string keys and no failing parts");
}

const META_V1: &str = "meta.k8s.io/v1";
