//! Describes the failure of one member: the hop, and the message of the server there.

use std::time::Duration;

use http::StatusCode;
use kubectl_mc_api::dialect::Dialect;
use serde::Deserialize;

use crate::cluster::client::{ClientError, Reply};
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::hop::{self, Hop, Refusal};
use crate::cluster::hub::OtherHub;
use crate::multi::ordered_output::TaskResult;
use crate::multi::outcome::{self, NO_RESULT};
use crate::server_text::ServerText;

/// A failure on one member.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum MemberFailure {
    /// A hop before the member refused.
    #[error("{0}")]
    Refused(Refusal),
    /// The host is a hub of another project; the command restarts.
    #[error(transparent)]
    OtherHub(OtherHub),
    /// The member's own error, in kubectl's format.
    #[error("{}", outcome::words_of_kubectl(reason, message))]
    Server { code: u16, reason: ServerText, message: ServerText },
    /// The server's key is refused, regardless of the route.
    #[error("cannot establish TLS: {0}")]
    RefusedKey(ServerText),
    /// The server of a context is unreachable.
    #[error("unreachable: {0}")]
    Unreachable(ServerText),
    /// The host reports the member as not ready, so no request was sent.
    #[error("not ready: {0}")]
    NotReady(ServerText),
    /// The timeout has passed.
    #[error("no answer within {}", seconds(*.0))]
    TimedOut(Duration),
    /// The response cannot be parsed.
    #[error("cannot read the answer: {0}")]
    Unreadable(ServerText),
    /// The response was truncated.
    #[error("the answer ended early: {0}")]
    BrokenOff(ServerText),
    /// Not a failure: the answer of the command is negative, like exit code 1 of `diff`.
    #[error("the answer is no")]
    NegativeAnswer,
    /// An error that kubectl prints before its first request.
    #[error("{0}")]
    Said(String),
}

impl TaskResult for Result<(), MemberFailure> {
    fn died() -> Self {
        Err(MemberFailure::died())
    }
}

impl MemberFailure {
    /// The task of the member ended without a result.
    pub(super) fn died() -> Self {
        Self::Said(NO_RESULT.to_owned())
    }

    /// Parses an error response.
    pub(super) fn of(reply: &Reply, cluster: &ClusterId, hub: &Dialect, path: &str) -> Self {
        // For a context there is no other hop.
        let refusal = reply.refusal_before(hub, path);
        if let Some(refusal) = refusal.filter(|_| cluster.member().is_some()) {
            return Self::Refused(refusal);
        }
        let status: Status = serde_json::from_slice(&reply.body).unwrap_or_default();
        let message = hop::message(reply.status, &reply.body);
        let is_login = reply.status == StatusCode::UNAUTHORIZED && status.reason.is_empty();
        let reason = if is_login { outcome::UNAUTHORIZED.into() } else { status.reason };
        Self::Server { code: reply.status.as_u16(), reason, message }
    }

    /// The failure in an error event of a watch.
    pub(super) fn of_status(status: Status) -> Self {
        Self::Server { code: status.code, reason: status.reason, message: status.message }
    }

    /// An object of that name does not exist.
    pub(super) fn not_found(kind: &str, name: &str) -> Self {
        let message = format!("{kind} {name:?} not found").into();
        Self::Server { code: 404, reason: "NotFound".into(), message }
    }

    pub(super) fn of_client(error: &ClientError, cluster: &ClusterId) -> Self {
        match error {
            ClientError::Unreachable(_) if cluster.context().is_some() => {
                Self::Unreachable(error.reason().into())
            }
            ClientError::Unreachable(_) => {
                Self::Refused(Refusal { hop: Hop::HostUnreachable, message: error.reason().into() })
            }
            error if error.is_of_a_key() => Self::RefusedKey(error.reason().into()),
            _ => Self::Said(crate::error::chain(error)),
        }
    }

    /// Whether the host may lack kubectl-mc's own sidecar.
    pub(super) fn may_lack_the_sidecar(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.may_lack_the_sidecar())
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
        !matches!(self, Self::Server { .. } | Self::Said(_) | Self::NegativeAnswer)
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
            | Self::OtherHub(_)
            | Self::Unreadable(_)
            | Self::RefusedKey(_)
            | Self::NegativeAnswer
            | Self::Said(_) => false,
        }
    }
}

/// The fields of a `metav1.Status` that are used.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub(super) code: u16,
    #[serde(default)]
    pub(super) reason: ServerText,
    #[serde(default)]
    pub(super) message: ServerText,
}

fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 { format!("{} s", time.as_secs()) } else { format!("{time:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, hop: Hop, body: &str) -> MemberFailure {
        let (status, body) = (StatusCode::from_u16(code).unwrap(), body.to_owned().into());
        let reply = Reply { status, hop: Some(hop), date: None, body };
        MemberFailure::of(&reply, &"m1".parse().unwrap(), &Dialect::Own, "/api")
    }

    #[test]
    fn member_error_reads_as_kubectl_prints_it() {
        let missing =
            of(404, Hop::Member, r#"{"kind":"Status","reason":"NotFound","message":"pods \"x\" not found"}"#);
        assert_eq!(missing.to_string(), "Error from server (NotFound): pods \"x\" not found");
        assert!(missing.is_not_found() && !missing.is_of_the_member() && !missing.is_passing());
        assert_eq!(of(500, Hop::Member, "oops").to_string(), "Error from server: oops");
    }

    #[test]
    fn error_without_a_body_is_a_sentence() {
        for (code, sentence) in [
            (
                401,
                "error: You must be logged in to the server (the server has asked for the client to provide credentials)",
            ),
            (
                302,
                "Error from server: the server redirects to another address, which is not followed (302 Found)",
            ),
            (503, "Error from server: the server is currently unable to handle the request"),
            (
                500,
                "Error from server: an error on the server (\"\") has prevented the request from succeeding",
            ),
            (
                418,
                "Error from server: the server responded with the status code 418 but did not return more information",
            ),
        ] {
            assert_eq!(of(code, Hop::Member, "").to_string(), sentence);
        }
        assert_eq!(
            of(403, Hop::HostAuthorization, "").to_string(),
            "host authorization: the server responded with the status code 403 but did not return more information"
        );
    }

    #[test]
    fn refusal_before_the_member_names_the_hop() {
        let body = r#"{"kind":"Status","message":"dial: no route"}"#;
        let refused = of(502, Hop::MemberUnreachable, body);
        assert_eq!(refused.to_string(), "member unreachable: dial: no route");
        assert!(refused.is_of_the_member() && refused.is_passing());
    }

    #[test]
    fn sidecar_overload_is_transient_and_bad_request_is_not() {
        let overload = of(429, Hop::Sidecar, "too many requests");
        assert!(overload.is_of_the_member() && overload.is_passing());
        let request = of(400, Hop::Request, "a dot segment");
        assert!(!request.is_of_the_member() && !request.is_passing());
    }
}
