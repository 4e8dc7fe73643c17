//! Describes the outcome of the command on one cluster.

use std::time::Duration;

use crate::cluster::cluster_id::ClusterId;

use crate::cluster::hop::{Hop, Refusal};
use crate::server_text::ServerText;

/// A cluster and its result.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) cluster: ClusterId,
    pub(crate) result: Result<(), Fault>,
}

/// Why the command failed on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The host reported the cluster as not ready.
    NotReady(ServerText),
    /// A hop refused, with the message of its server.
    Refused(Refusal),
    /// The timeout has passed.
    TimedOut(Duration),
    /// The server of a context does not respond.
    Unreachable(ServerText),
    /// The member responded with an error; the reason is that of Kubernetes (`NotFound`).
    Answered { reason: ServerText, message: ServerText },
    /// kubectl, or a command that it ran there, exited with this code (`None`: killed) and has printed its
    /// own error. The reason is that of Kubernetes, or else kubectl's text.
    Kubectl { code: Option<i32>, reason: Option<ServerText> },
    /// Not a failure: the answer is negative (`auth can-i`), or there are differences (`diff`).
    NegativeAnswer,
    /// Any other failure, as text.
    Other(String),
    /// Not started, because other clusters failed first.
    NotBegun,
}

impl Fault {
    /// The group of this fault of a cluster in a summary.
    pub(crate) fn cause(&self, cluster: &ClusterId) -> String {
        // For a context there is no other hop.
        let by = if cluster.member().is_some() { " by the member" } else { "" };
        match self {
            Self::NotReady(_) => "not ready".to_owned(),
            Self::Refused(Refusal { hop, .. }) => match hop {
                Hop::MemberUnreachable => "unreachable".to_owned(),
                Hop::Agent => "unreachable through the agent".to_owned(),
                Hop::HostAuthorization => "forbidden by the host".to_owned(),
                Hop::ClusterUnknown => "unknown".to_owned(),
                hop => hop.to_string(),
            },
            Self::Unreachable(_) => "unreachable".to_owned(),
            Self::TimedOut(after) => format!("timed out after {}", in_words(*after)),
            Self::Answered { reason, .. } => match reason.raw() {
                "Forbidden" => format!("forbidden{by}"),
                "NotFound" => "not found".to_owned(),
                "" => format!("refused{by}"),
                _ => reason.to_string(),
            },
            // kubectl's text does not distinguish errors of the member, the host and the sidecar.
            Self::Kubectl { reason: Some(reason), .. } => match reason.raw() {
                "Forbidden" => "forbidden".to_owned(),
                "NotFound" => "not found".to_owned(),
                _ => reason.to_string(),
            },
            // kubectl uses this code for any error of its own.
            Self::Kubectl { code: Some(1), reason: None } => "failed".to_owned(),
            Self::Kubectl { code: Some(code), reason: None } => format!("exit code {code}"),
            Self::Kubectl { code: None, reason: None } => "killed".to_owned(),
            Self::NegativeAnswer => "no".to_owned(),
            // Error texts of kubectl.
            Self::Other(words) if words.starts_with("the server doesn't have a resource type") => {
                "no such resource type".to_owned()
            }
            Self::Other(words) if words.starts_with("error from server (NotFound)") => "not found".to_owned(),
            Self::Other(_) => "failed".to_owned(),
            Self::NotBegun => "not begun".to_owned(),
        }
    }

    /// Whether the cluster counts as failed.
    pub(crate) fn is_failure(&self) -> bool {
        *self != Self::NegativeAnswer
    }

    /// A line about this cluster; `None` if its error was already printed.
    pub(crate) fn detail(&self) -> Option<String> {
        match self {
            Self::NotReady(reason) => Some(format!("not ready: {reason}")),
            Self::Refused(refusal) => Some(refusal.to_string()),
            Self::Unreachable(reason) => Some(format!("unreachable: {reason}")),
            Self::TimedOut(after) => Some(format!("no answer within {}", in_words(*after))),
            Self::Answered { reason, message } => Some(words_of_kubectl(reason, message)),
            Self::Other(words) => Some(words.clone()),
            Self::Kubectl { .. } | Self::NegativeAnswer | Self::NotBegun => None,
        }
    }
}

/// kubectl's text for an error of a server.
pub(super) fn words_of_kubectl(reason: &ServerText, message: &ServerText) -> String {
    match reason.raw() {
        "" => format!("Error from server: {message}"),
        UNAUTHORIZED => format!("error: You must be logged in to the server ({message})"),
        _ => format!("Error from server ({reason}): {message}"),
    }
}

/// The reason of a Status.
pub(super) const UNAUTHORIZED: &str = "Unauthorized";

/// The error of a task that ended without a result.
pub(super) const NO_RESULT: &str = "internal error: the request was cancelled before it finished";

/// `30s`, `1.5s`
fn in_words(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}
