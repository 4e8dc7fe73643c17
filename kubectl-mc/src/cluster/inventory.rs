//! Lists the clusters behind the host by a request of the plugin, which shows the hop that refuses it.

use http::StatusCode;
use kubectl_mc_api::path;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::argv::Scanned;
use crate::cluster::client::{self, ClientError};
use crate::cluster::context::{ClusterContext, HostError};
use crate::cluster::hop::{self, Hop, Refusal};
use crate::env::Env;
use crate::error::Explain;
use crate::exit::ExitStatus;
use crate::server_text::ServerText;

/// What the list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListFormat {
    /// To be shown: the server's table.
    Table,
    /// The same with the whole object beside each row.
    TableWithObjects,
    Objects,
}

/// Asks the host for the clusters that a label selector chooses, as the user that `scanned` says.
pub(crate) fn list(
    host: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
    selector: Option<&str>,
    form: ListFormat,
) -> Result<Value, InventoryError> {
    let selector =
        selector.map(|text| format!("labelSelector={}", utf8_percent_encode(text, NON_ALPHANUMERIC)));
    let objects = (form == ListFormat::TableWithObjects).then(|| "includeObject=Object".to_owned());
    let query: Vec<_> = selector.into_iter().chain(objects).collect();
    let mut path = path::CLUSTERS_PATH.to_owned();
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let accept = match form {
        ListFormat::Table | ListFormat::TableWithObjects => {
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        }
        ListFormat::Objects => "application/json",
    };
    let refused = |refusal: Refusal| InventoryError::Refused {
        host: host.describe(),
        hint: refusal.hint(host, None),
        refusal,
    };
    let reply = match client::get(host, scanned, env, &path, accept) {
        Ok(reply) => reply,
        Err(error @ ClientError::Unreachable(_)) => {
            return Err(refused(Refusal { hop: Hop::HostUnreachable, message: error.reason().into() }));
        }
        Err(source) => return Err(InventoryError::Client { host: host.describe(), source }),
    };
    if reply.status.is_success() {
        return serde_json::from_slice(&reply.body)
            .map_err(|source| InventoryError::Answer { host: host.describe(), source });
    }
    Err(reply.refusal().map_or_else(
        || InventoryError::Status {
            host: host.describe(),
            status: reply.status,
            message: hop::message(&reply.body),
        },
        refused,
    ))
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum InventoryError {
    #[error("cannot list clusters through {host}: {refusal}")]
    Refused { host: String, refusal: Refusal, hint: String },
    #[error("cannot list clusters through {host}")]
    Client { host: String, source: ClientError },
    #[error("cannot list clusters through {host}: {status}: {message}")]
    Status { host: String, status: StatusCode, message: ServerText },
    #[error("cannot list clusters through {host}: the answer is not JSON")]
    Answer { host: String, source: serde_json::Error },
    #[error("the command works on members of the host, and contexts are chosen")]
    MembersOnly,
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Explain for InventoryError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused { hint, .. } => Some(hint.clone()),
            Self::Client { .. } | Self::Status { .. } | Self::Answer { .. } => None,
            Self::MembersOnly => Some("leave out --contexts, --context-selector and context:NAME".to_owned()),
            Self::Host(error) => error.hint(),
        }
    }

    /// The part of the request that can be wrong is the label selector.
    fn status(&self) -> ExitStatus {
        match self {
            Self::Status { status: StatusCode::BAD_REQUEST, .. }
            | Self::Refused { refusal: Refusal { hop: Hop::Request, .. }, .. } => ExitStatus::Usage,
            Self::MembersOnly => ExitStatus::Usage,
            Self::Host(error) => error.status(),
            _ => ExitStatus::Failed,
        }
    }
}
