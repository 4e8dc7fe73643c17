//! Describes why the command failed on one cluster: the hop, and the message of the server there.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::ordered_output::TaskResult;
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
    /// A hop before the member refused, with the message of its server.
    Refused(Refusal),
    /// The member's own error. The reason is that of Kubernetes (`NotFound`).
    Server { code: u16, reason: ServerText, message: ServerText },
    /// The server's key is refused, on every way alike.
    RefusedKey(ServerText),
    /// The server of a context does not respond.
    Unreachable(ServerText),
    /// The timeout has passed.
    TimedOut(Duration),
    /// The response cannot be parsed.
    Unreadable(ServerText),
    /// The response was truncated.
    BrokenOff(ServerText),
    /// kubectl, or a command that it ran there, exited with this code (`None`: killed) and has printed its
    /// own error. The reason is that of Kubernetes, or else kubectl's text.
    Kubectl { code: Option<i32>, reason: Option<ServerText> },
    /// Not a failure: the answer is negative (`auth can-i`), or there are differences (`diff`).
    NegativeAnswer,
    /// An error of the plugin, or one that kubectl prints before its first request; `cause` is its group in a
    /// summary.
    Said { words: String, cause: &'static str },
    /// Not started, because other clusters failed first.
    NotBegun,
}

impl TaskResult for Result<(), Fault> {
    fn died() -> Self {
        Err(Fault::died())
    }
}

impl Fault {
    /// An error in words that belongs to no group.
    pub(crate) fn said(words: impl Into<String>) -> Self {
        Self::Said { words: words.into(), cause: "failed" }
    }

    /// A task ended without a result.
    pub(super) fn died() -> Self {
        Self::said("internal error: the request was cancelled before it finished")
    }

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
            Self::Server { reason, .. } => match reason.raw() {
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
            Self::RefusedKey(_) | Self::Unreadable(_) | Self::BrokenOff(_) => "failed".to_owned(),
            Self::Said { cause, .. } => (*cause).to_owned(),
            Self::NotBegun => "not begun".to_owned(),
        }
    }

    /// Whether the cluster counts as failed.
    pub(crate) fn is_failure(&self) -> bool {
        *self != Self::NegativeAnswer
    }

    /// What failed; `None` if kubectl has already printed it, or nothing failed.
    pub(crate) fn detail(&self) -> Option<String> {
        let is_silent = matches!(self, Self::Kubectl { .. } | Self::NegativeAnswer | Self::NotBegun);
        (!is_silent).then(|| self.to_string())
    }

    /// The same as a line of standard error.
    pub(crate) fn line(&self) -> Option<String> {
        // kubectl's text for the error of a server begins with the word already.
        let is_marked = matches!(self, Self::Server { .. });
        self.detail().map(|detail| if is_marked { detail } else { format!("error: {detail}") })
    }

    /// Whether the server of the login rejects the credential.
    pub(super) fn is_of_the_login(&self) -> bool {
        match self {
            Self::Refused(Refusal { hop, .. }) => *hop == Hop::HostAuthentication,
            Self::Server { code, .. } => *code == StatusCode::UNAUTHORIZED.as_u16(),
            _ => false,
        }
    }

    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Server { code: 404, .. })
    }

    /// Whether the resourceVersion or the continue token has expired.
    pub(super) fn is_expired(&self) -> bool {
        matches!(self, Self::Server { code: 410, .. })
    }

    /// Whether another request to the same member would fail the same way.
    pub(super) fn is_of_the_member(&self) -> bool {
        !matches!(self, Self::Server { .. } | Self::Said { .. } | Self::NegativeAnswer)
            && !matches!(self, Self::Refused(Refusal { hop: Hop::Request, .. }))
    }

    /// Whether the failure is transient, so that a stream retries.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::TimedOut(_) | Self::BrokenOff(_) | Self::Unreachable(_) => true,
            Self::Refused(Refusal { hop, .. }) => matches!(
                hop,
                Hop::HostUnreachable
                    | Hop::SidecarUnavailable
                    | Hop::SidecarMissing
                    | Hop::Sidecar
                    | Hop::Agent
                    | Hop::MemberUnreachable
            ),
            Self::Server { code, .. } => *code == StatusCode::TOO_MANY_REQUESTS.as_u16() || *code >= 500,
            Self::NotReady(_)
            | Self::Unreadable(_)
            | Self::RefusedKey(_)
            | Self::Kubectl { .. }
            | Self::NegativeAnswer
            | Self::Said { .. }
            | Self::NotBegun => false,
        }
    }
}

/// What failed, as kubectl words it where kubectl has words for it.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady(reason) => write!(f, "not ready: {reason}"),
            Self::Refused(refusal) => write!(f, "{refusal}"),
            Self::Server { reason, message, .. } => match reason.raw() {
                "" => write!(f, "Error from server: {message}"),
                UNAUTHORIZED => write!(f, "error: You must be logged in to the server ({message})"),
                _ => write!(f, "Error from server ({reason}): {message}"),
            },
            Self::RefusedKey(reason) => write!(f, "cannot establish TLS: {reason}"),
            Self::Unreachable(reason) => write!(f, "unreachable: {reason}"),
            Self::TimedOut(after) => write!(f, "no answer within {}", in_words(*after)),
            Self::Unreadable(reason) => write!(f, "cannot read the answer: {reason}"),
            Self::BrokenOff(reason) => write!(f, "the answer ended early: {reason}"),
            Self::Kubectl { .. } => f.write_str("kubectl failed"),
            Self::NegativeAnswer => f.write_str("the answer is no"),
            Self::Said { words, .. } => f.write_str(words),
            Self::NotBegun => f.write_str("not begun"),
        }
    }
}

/// The reason of a Status.
pub(super) const UNAUTHORIZED: &str = "Unauthorized";

/// `30s`, `1.5s`
fn in_words(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}
