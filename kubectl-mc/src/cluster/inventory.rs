//! Lists the clusters behind the host by a request of the plugin, and reports the hop that refuses it.

use http::StatusCode;
use jiff::Timestamp;
use kubectl_mc_api::dialect::{self, Dialect, NotHere, View};
use kubectl_mc_api::{ClusterName, age};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::cluster::client::{self, ClientError};
use crate::cluster::context::{ClusterContext, HostError};
use crate::cluster::fields::condition;
use crate::cluster::hop::{self, Asked, Hop, Refusal};
use crate::cluster::host::Host;
use crate::error::{CommandLine, Explain, Hint};
use crate::exit::ExitStatus;
use crate::server_text::ServerText;

/// The format of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListFormat {
    /// For output: the server's table.
    Table,
    /// The table with the whole object for each row.
    TableWithObjects,
    Objects,
}

/// Queries the host for the clusters that match a label selector, as the user of the command.
pub(crate) fn list(
    host: &Host<'_>,
    selector: Option<&str>,
    form: ListFormat,
) -> Result<Value, InventoryError> {
    let &Host { scanned, env, .. } = host;
    let client = |source| InventoryError::Client { host: host.context().describe(), source };
    let host = host.login().map_err(client)?;
    let dialect = &host.hub.dialect;
    let Some(mut path) = dialect.list_path() else {
        return Err(InventoryError::NoList { host: host.describe() });
    };
    if selector.is_some() && !dialect.has_labels() {
        return Err(InventoryError::NoLabels { host: host.describe() });
    }
    let objects_only = host.hub.is_foreign();
    let selector =
        selector.map(|text| format!("labelSelector={}", utf8_percent_encode(text, NON_ALPHANUMERIC)));
    let objects =
        (form == ListFormat::TableWithObjects && !objects_only).then(|| "includeObject=Object".to_owned());
    let query: Vec<_> = selector.into_iter().chain(objects).collect();
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let accept = match form {
        ListFormat::Table | ListFormat::TableWithObjects if !objects_only => {
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        }
        _ => "application/json",
    };
    let refused = |refusal: Refusal| {
        let refusal = refusal.at_hub(&host.hub);
        let hint = refusal.hint(host, None, &Asked::of(scanned));
        InventoryError::Refused { host: host.describe(), hint, refusal }
    };
    let reply = match client::get(host, scanned, env, &path, accept) {
        Ok(reply) => reply,
        Err(error @ ClientError::Unreachable(_)) => {
            return Err(refused(Refusal { hop: Hop::HostUnreachable, message: error.reason().into() }));
        }
        Err(source) => return Err(InventoryError::Client { host: host.describe(), source }),
    };
    if reply.status.is_success() {
        let list = serde_json::from_slice(&reply.body)
            .map_err(|source| InventoryError::Answer { host: host.describe(), source })?;
        return Ok(if objects_only { of_hub(host, &list, form) } else { list });
    }
    Err(reply.refusal().map_or_else(
        || InventoryError::Status {
            host: host.describe(),
            status: reply.status,
            message: hop::message(reply.status, &reply.body),
        },
        refused,
    ))
}

/// Converts the list of another project's hub into the format of kubectl-mc's sidecar.
fn of_hub(host: &ClusterContext, list: &Value, form: ListFormat) -> Value {
    let (profiles, not_here) = match &host.hub.dialect {
        Dialect::ClusterProfile(_) => {
            let (here, others) = dialect::on_host(list, &host.server);
            (Some(json!({"items": here})), others)
        }
        _ => (None, Vec::new()),
    };
    let View { clusters, ids, unusable } = host.hub.dialect.view(profiles.as_ref().unwrap_or(list));
    host.hub.learn(ids);
    let unusable: Vec<_> = unusable.into_iter().map(|cluster| cluster.0).collect();
    let mut answer = match form {
        ListFormat::Objects => json!({"kind": "ClusterList", "items": clusters}),
        ListFormat::Table | ListFormat::TableWithObjects => table(clusters),
    };
    if !unusable.is_empty() {
        answer[UNUSABLE] = unusable.into();
    }
    if !not_here.is_empty() {
        let not_here = not_here.into_iter().map(|NotHere { name, why }| json!({"name": name, "why": why}));
        answer[NOT_HERE] = not_here.collect();
    }
    answer
}

/// Why the host's credential does not reach a listed cluster.
pub(crate) fn not_here(answer: &Value, name: &ClusterName, host: &ClusterContext) -> Option<InventoryError> {
    let others = answer[NOT_HERE].as_array()?;
    let other = others.iter().find(|other| other["name"] == name.as_str())?;
    Some(InventoryError::NotHere {
        name: name.clone(),
        why: other["why"].as_str().unwrap_or_default().into(),
        kubectl_mc: host.kubectl_mc(),
    })
}

/// A table with the columns of kubectl-mc's sidecar.
fn table(clusters: Vec<Value>) -> Value {
    let columns = [("Name", 0), ("Ready", 0), ("Version", 0), ("Age", 0), ("Server", 1)];
    let columns =
        columns.map(|(name, priority)| json!({"name": name, "priority": priority, "type": "string"}));
    let row = |cluster: Value| {
        let ready = condition(&cluster, "Ready").and_then(|ready| ready["status"].as_str());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let created = cluster["metadata"]["creationTimestamp"].as_str();
        let age = age::since(created.and_then(|created| created.parse().ok()), Timestamp::now());
        let status = &cluster["status"];
        let cells = json!([
            cluster["metadata"]["name"],
            ready.unwrap_or("Unknown"),
            text(&status["version"]),
            age,
            text(&status["server"]),
        ]);
        json!({"cells": cells, "object": cluster})
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": columns,
        "rows": clusters.into_iter().map(row).collect::<Vec<_>>(),
    })
}

/// A message about the hub's clusters that are omitted, because their names cannot be in a path or because
/// they are elsewhere.
pub(crate) fn unusable(answer: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |key: &str| answer[key].as_array().into_iter().flatten();
    let names: Vec<_> = of(UNUSABLE).map(|name| format!("{:?}", text(name))).collect();
    let names = (!names.is_empty())
        .then(|| format!("left out, because it is no name of a cluster: {}", names.join(", ")));
    let others = of(NOT_HERE).map(|other| {
        let why = ServerText::from(text(&other["why"]));
        format!("left out {:?}: {why}", text(&other["name"]))
    });
    let lines: Vec<_> = names.into_iter().chain(others).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

const UNUSABLE: &str = "unusable";
const NOT_HERE: &str = "notHere";

#[derive(Debug, thiserror::Error)]
pub(crate) enum InventoryError {
    #[error("cannot list clusters through {host}: {refusal}")]
    Refused { host: String, refusal: Refusal, hint: Hint },
    #[error("cannot list clusters through {host}")]
    Client { host: String, source: ClientError },
    #[error("cannot list clusters through {host}: {status}: {message}")]
    Status { host: String, status: StatusCode, message: ServerText },
    #[error("cannot list clusters through {host}: the answer is not JSON")]
    Answer { host: String, source: serde_json::Error },
    #[error("{host} has no list of clusters")]
    NoList { host: String },
    #[error("{host} has no labels of clusters")]
    NoLabels { host: String },
    #[error("cannot reach {name}: {why}: the host's credential is sent to the host only")]
    NotHere { name: ClusterName, why: ServerText, kubectl_mc: String },
    #[error("the command works on members of the host, and contexts are chosen")]
    MembersOnly,
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Explain for InventoryError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Refused { hint, .. } => Some(hint.clone()),
            Self::NoList { .. } => Some("name the clusters: -C NAME,NAME".into()),
            Self::NoLabels { .. } => Some("choose by -C NAMES, -C 'PATTERN-*' or --where".into()),
            Self::Client { .. } | Self::Status { .. } | Self::Answer { .. } => None,
            Self::NotHere { name, kubectl_mc, .. } => Some(
                CommandLine::new(format!("{kubectl_mc} clusters")).after(format!(
                    "choose the context of that server by --context, or --hub=own if {name} is a member of this host; see"
                )),
            ),
            Self::MembersOnly => Some("leave out --contexts, --context-selector and context:NAME".into()),
            Self::Host(error) => error.hint(),
        }
    }

    /// The label selector is the only part of the request that can be invalid.
    fn status(&self) -> ExitStatus {
        match self {
            Self::Status { status: StatusCode::BAD_REQUEST, .. }
            | Self::Refused { refusal: Refusal { hop: Hop::Request, .. }, .. } => ExitStatus::Usage,
            Self::MembersOnly | Self::NotHere { .. } | Self::NoList { .. } | Self::NoLabels { .. } => {
                ExitStatus::Usage
            }
            Self::Host(error) => error.status(),
            _ => ExitStatus::Failed,
        }
    }
}
