//! Encodes `meta.k8s.io/v1` `Table`, which `kubectl get` prints.

use std::time::Duration;

use jiff::Timestamp;
use kubectl_mc_api::{SEEN_INTERVAL, age};
use serde::Serialize;

use super::form::{Marker, Partial, RV};
use super::object::{Cluster, Object, Status};

/// The part of the object in each row besides its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Include {
    #[default]
    Metadata,
    None,
    Object,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table<'a, M> {
    kind: &'static str,
    api_version: &'static str,
    metadata: M,
    /// `null` after the first event of a watch, as upstream.
    column_definitions: Option<&'static [Column]>,
    rows: Vec<Row<'a>>,
}

#[derive(Debug, Serialize)]
struct Column {
    name: &'static str,
    r#type: &'static str,
    format: &'static str,
    description: &'static str,
    priority: u8,
}

#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    cells: [String; COLUMNS.len()],
    object: Option<Attachment<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Attachment<'a> {
    Metadata(Partial<'a>),
    Object(&'a Object),
    Marker(&'a Marker),
}

impl<'a, M> Table<'a, M> {
    pub(super) fn new(metadata: M, rows: Vec<Row<'a>>, headers: bool) -> Self {
        let column_definitions = headers.then_some(COLUMNS.as_slice());
        Self { kind: "Table", api_version: "meta.k8s.io/v1", metadata, column_definitions, rows }
    }
}

impl<'a> Row<'a> {
    pub(super) fn new(cluster: &'a Cluster, include: Include, now: Timestamp) -> Self {
        let Object { metadata, status, .. } = &cluster.object;
        let ready = status.ready();
        let cells = [
            metadata.name.clone(),
            ready.map_or_else(unknown, |ready| ready.status.clone()),
            status.version.clone().unwrap_or_else(unknown),
            age::since(metadata.creation_timestamp.as_ref().map(|time| time.0), now),
            ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
            status.server.clone().unwrap_or_default(),
            status.connected().map(|connected| connected.status.clone()).unwrap_or_default(),
            last_seen(status, now),
            metadata.origin().to_string(),
        ];
        let object = match include {
            Include::None => None,
            Include::Metadata => Some(Attachment::Metadata(Partial::new(metadata))),
            Include::Object => Some(Attachment::Object(&cluster.object)),
        };
        Self { cells, object }
    }

    /// A bookmark's row, which is needed only for its metadata.
    pub(super) fn of_marker(marker: &'a Marker) -> Self {
        let (none, never) = (String::new, || age::since(None, Timestamp::UNIX_EPOCH));
        let cells = [none(), unknown(), unknown(), never(), none(), none(), none(), never(), none()];
        Self { cells, object: Some(Attachment::Marker(marker)) }
    }
}

/// How long ago the member answered. If a member answers, its `lastSeen` is written only at
/// intervals, so its age there has no meaning.
fn last_seen(status: &Status, now: Timestamp) -> String {
    let seen = status.last_seen.as_ref().map(|time| time.0);
    let is_recent = seen.is_some_and(|seen| now.duration_since(seen).unsigned_abs() < RECENT);
    let answers = status.reachable().is_some_and(|reachable| reachable.status == "True");
    if is_recent && answers { "now".to_owned() } else { age::since(seen, now) }
}

/// An older `lastSeen` of a reachable member means that no leader probes it.
const RECENT: Duration = SEEN_INTERVAL.saturating_mul(2);

/// The metadata of a table of one object.
pub(super) fn of_one(version: &str) -> RV<'_> {
    RV { resource_version: version }
}

fn unknown() -> String {
    "Unknown".to_owned()
}

/// The columns of a MemberCluster (`kubectl_mc_api::member_cluster`).
const COLUMNS: [Column; 9] = [
    Column {
        name: "Name",
        r#type: "string",
        format: "name",
        description: "The name under which the cluster is reached through this host.",
        priority: 0,
    },
    Column {
        name: "Ready",
        r#type: "string",
        format: "",
        description: "Whether the cluster can be reached and used as the caller.",
        priority: 0,
    },
    Column {
        name: "Version",
        r#type: "string",
        format: "",
        description: "The Kubernetes version of the cluster.",
        priority: 0,
    },
    Column {
        name: "Age",
        r#type: "string",
        format: "",
        description: "How long ago the cluster was registered.",
        priority: 0,
    },
    Column {
        name: "Reason",
        r#type: "string",
        format: "",
        description: "Why the cluster is, or is not, ready.",
        priority: 1,
    },
    Column {
        name: "Server",
        r#type: "string",
        format: "",
        description: "The address of the cluster's kube-apiserver.",
        priority: 1,
    },
    Column {
        name: "Connected",
        r#type: "string",
        format: "",
        description: "Whether the agent of the cluster is connected, if an agent carries its connections.",
        priority: 1,
    },
    Column {
        name: "Last Seen",
        r#type: "string",
        format: "",
        description: "How long ago the cluster last answered; now, if it answers the probes.",
        priority: 1,
    },
    Column {
        name: "Inventory",
        r#type: "string",
        format: "",
        description: "The inventory that registers the cluster.",
        priority: 1,
    },
];
