//! The reasons why an object is not written or deleted.

use std::time::Duration;

use kube::core::response::Status;

use super::object::Object;
use crate::cluster::client;
use crate::error::{CommandLine, Explain, Hint};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("invalid object: {0}")]
    NotAnObject(&'static str),
    #[error("the {cluster}, refused to {verb} {object}: {}", said(status))]
    Refused { verb: &'static str, object: Object, cluster: String, kubectl: String, status: Box<Status> },
    #[error("cannot {verb} {object} at the {cluster}: {reason}")]
    Failed { verb: &'static str, object: Object, cluster: String, reason: String },
    #[error("cannot apply {object} to the {cluster}: other field managers own fields: {}", conflicts.join(", "))]
    Conflict { object: Object, cluster: String, conflicts: Vec<String> },
    #[error("the kind of {object} is not served {} s after its definition was applied", ESTABLISHED.as_secs())]
    NotEstablished { object: Object },
    #[error("{object} is not gone after its deletion: {reason}")]
    Stays { object: Object, reason: String },
    #[error("cannot read the server's answer about {object}")]
    Unreadable { object: Object, source: serde_json::Error },
}

impl Explain for ApplyError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Refused { object, cluster, status, kubectl, .. } if status.is_not_found() => {
                let namespace = object.namespace()?;
                let hint = format!("namespace {namespace} is missing there: check its name, or create it");
                let kubectl_mc = kubectl.replacen("kubectl", "kubectl mc", 1);
                // Members have no sidecar.
                Some(match cluster.starts_with("host") {
                    true => Hint::from(hint).and(
                        CommandLine::new(format!("{kubectl_mc} install"))
                            .after("if it is that of the sidecar, install the sidecar first"),
                    ),
                    false => hint.into(),
                })
            }
            Self::Refused { object, status, verb, kubectl, .. } => status.is_forbidden().then(|| {
                let text = format!(
                    "your user at this cluster lacks a right to {verb} it, or the cluster's admission refuses it; see `"
                );
                let namespace = object.namespace().map(|namespace| format!(" -n {namespace}"));
                let list = format!("{kubectl} auth can-i --list{}", namespace.unwrap_or_default());
                Hint::from(text).then(CommandLine::new(list)).then("`")
            }),
            Self::Conflict { .. } => Some("take the fields over by --force-conflicts".into()),
            Self::NotAnObject(_)
            | Self::Failed { .. }
            | Self::NotEstablished { .. }
            | Self::Stays { .. }
            | Self::Unreadable { .. } => None,
        }
    }
}

/// Why a request failed: the server's message, or the earlier error.
pub(crate) fn reason(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => said(&status),
        error => client::failed(error).reason(),
    }
}

/// The message of a Status in kubectl's format.
fn said(status: &Status) -> String {
    match (status.message.as_str(), status.reason.as_str()) {
        ("", "") => format!("it answers {}", status.code),
        ("", reason) => reason.to_owned(),
        (message, _) => message.to_owned(),
    }
}

/// The maximum time until the kind of a definition is served.
pub(super) const ESTABLISHED: Duration = Duration::from_secs(60);
