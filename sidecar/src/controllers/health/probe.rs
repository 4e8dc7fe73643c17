//! Probes a member once: `/readyz` and `/version`, and a SelfSubjectReview if these do not show whether the
//! member accepts the credential.

use http::StatusCode;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use serde::Deserialize;

use crate::controllers::conditions::Finding;
use crate::outbound::upstream::Upstream;
use crate::outbound::upstream::sidecar_client::{Answer, Failure};

/// The result of a probe.
#[derive(Debug)]
pub struct Probe {
    readiness: Result<Readiness, Failure>,
    /// `gitVersion`, if the member reported it.
    pub version: Option<String>,
    /// Whether the member accepts the sidecar's credential, if there is one and the probe shows it.
    pub verdict: Option<Verdict>,
}

/// Whether a member accepts the sidecar's credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Refused,
    /// The member treats the sidecar as anonymous: it does not know the certificate's CA.
    Anonymous,
}

#[derive(Debug, PartialEq, Eq)]
enum Readiness {
    /// The member serves, or does not allow the path.
    Serves,
    /// The member responds that it is not ready, and which of its checks fail.
    NotReady(StatusCode, String),
}

/// Probes a member.
pub(super) async fn probe(upstream: &Upstream) -> Probe {
    let mut probe = Probe { readiness: Ok(Readiness::Serves), version: None, verdict: None };
    let asked = async {
        let mut own = upstream.open().await?;
        let answer = own.get("/readyz").await?;
        probe.readiness = Ok(readiness(&answer));
        let connection = upstream.connection();
        if connection.authorization().is_some() {
            probe.verdict = by_token(answer.status);
        } else if connection.has_certificate() {
            // A member does not refuse a certificate of an unknown CA; it treats the client as anonymous.
            let review = serde_json::to_vec(&SelfSubjectReview::default()).unwrap_or_default();
            probe.verdict = by_certificate(own.post(REVIEWS, review).await?.status);
        }
        // The member has answered, so a failure of this does not make it unreachable.
        probe.version = own.get("/version").await.ok().and_then(|answer| version(&answer));
        Ok(())
    };
    let asked = asked.await;
    if let Err(failure) = asked {
        probe.readiness = Err(failure);
    }
    probe
}

impl Probe {
    /// Whether the member is expected to serve requests.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.readiness, Ok(Readiness::Serves))
    }

    /// Whether the member responded at all.
    pub(super) fn is_answer(&self) -> bool {
        self.readiness.is_ok()
    }

    pub(super) fn finding(&self) -> Finding {
        match &self.readiness {
            Ok(Readiness::Serves) => Finding::yes("Answers", "the member answers"),
            Ok(Readiness::NotReady(status, checks)) => {
                Finding::no("NotReady", format!("the member answers, but /readyz says {status}{checks}"))
            }
            Err(failure) => Finding::no(failure.kind.as_str(), failure.to_string()),
        }
    }
}

fn readiness(answer: &Answer) -> Readiness {
    if !answer.status.is_server_error() && !answer.status.is_redirection() {
        return Readiness::Serves;
    }
    // Only lines like "[-]etcd failed: reason withheld" are quoted from the member's response.
    let text = String::from_utf8_lossy(&answer.body);
    let check =
        |line: &&str| line.starts_with("[-]") && line.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let failing: Vec<&str> = text.lines().map(str::trim_end).filter(check).take(MAX_CHECKS).collect();
    let checks = if failing.is_empty() { String::new() } else { format!(": {}", failing.join(", ")) };
    Readiness::NotReady(answer.status, checks)
}

/// A kube-apiserver authenticates the token first, before it authorizes the path.
fn by_token(status: StatusCode) -> Option<Verdict> {
    match status {
        StatusCode::UNAUTHORIZED => Some(Verdict::Refused),
        status if status.is_success() || status == StatusCode::FORBIDDEN => Some(Verdict::Accepted),
        _ => None,
    }
}

fn by_certificate(status: StatusCode) -> Option<Verdict> {
    match status {
        StatusCode::CREATED => Some(Verdict::Accepted),
        StatusCode::UNAUTHORIZED => Some(Verdict::Refused),
        StatusCode::FORBIDDEN => Some(Verdict::Anonymous),
        _ => None,
    }
}

fn version(answer: &Answer) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    if !answer.status.is_success() {
        return None;
    }
    let Version { git_version } = serde_json::from_slice(&answer.body).ok()?;
    let fine = git_version.len() <= MAX_VERSION && git_version.bytes().all(|byte| byte.is_ascii_graphic());
    fine.then_some(git_version)
}

/// Every authenticated user may create a SelfSubjectReview (Kubernetes 1.28).
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const MAX_CHECKS: usize = 5;
const MAX_VERSION: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status: StatusCode::from_u16(status).unwrap(), body: body.to_owned().into() }
    }

    #[test]
    fn not_ready_member_is_reported_with_its_failed_checks() {
        let body =
            "[+]ping ok\n[-]etcd failed: reason withheld\n<script>\n[-]b\u{1b}[31m\nreadyz check failed\n";
        let probe = Probe { readiness: Ok(readiness(&answer(500, body))), version: None, verdict: None };
        assert!(!probe.is_up() && probe.is_answer());
        assert_eq!(
            probe.finding().message(),
            "the member answers, but /readyz says 500 Internal Server Error: [-]etcd failed: reason withheld"
        );
    }

    #[test]
    fn client_error_of_readyz_counts_as_serving() {
        for status in [200, 401, 403, 404, 429] {
            assert_eq!(readiness(&answer(status, "")), Readiness::Serves, "{status}");
        }
    }

    #[test]
    fn only_401_refuses_a_token() {
        let verdict = |status: u16| by_token(StatusCode::from_u16(status).unwrap());
        assert_eq!(verdict(200), Some(Verdict::Accepted));
        assert_eq!(verdict(403), Some(Verdict::Accepted));
        assert_eq!(verdict(401), Some(Verdict::Refused));
        assert_eq!(verdict(500), None);
    }

    #[test]
    fn version_must_be_one_short_word() {
        let of = |body: &str| version(&answer(200, body));
        assert_eq!(of(r#"{"major":"1","gitVersion":"v1.36.3"}"#).as_deref(), Some("v1.36.3"));
        assert_eq!(of("{}"), None);
        assert_eq!(of(r#"{"gitVersion":"v1 \u001b[31m"}"#), None);
        assert_eq!(of(&format!(r#"{{"gitVersion":"{}"}}"#, "v".repeat(65))), None);
    }
}
