//! One look at a member: `/readyz` and `/version`, and where that does not tell it, whether it lets us in.

use http::StatusCode;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use serde::Deserialize;

use crate::controllers::conditions::Finding;
use crate::upstream::Upstream;
use crate::upstream::sidecar_client::{Answer, Failure};

/// What was seen.
#[derive(Debug)]
pub struct Probe {
    readiness: Result<Readiness, Failure>,
    /// `gitVersion`, if the member told it.
    pub version: Option<String>,
    /// What the member thinks of our credential, if we have one and it can be told.
    pub verdict: Option<Verdict>,
}

/// What a member thinks of our credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Refused,
    /// It takes us for somebody without a credential: a certificate of an authority that it does not know.
    Anonymous,
}

#[derive(Debug, PartialEq, Eq)]
enum Readiness {
    /// It serves, or it says that this is none of our business.
    Serves,
    /// It serves, and says that it should not be asked; and which of its checks fail.
    NotReady(StatusCode, String),
}

/// Looks at a member.
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
            // It is no error to a member to be shown a certificate that it does not know.
            let review = serde_json::to_vec(&SelfSubjectReview::default()).unwrap_or_default();
            probe.verdict = by_certificate(own.post(REVIEWS, review).await?.status);
        }
        probe.version = version(&own.get("/version").await?);
        Ok(())
    };
    let asked = asked.await;
    if let Err(failure) = asked {
        probe.readiness = Err(failure);
    }
    probe
}

impl Probe {
    /// Whether requests should be answered.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.readiness, Ok(Readiness::Serves))
    }

    /// Whether anything at all was answered.
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
    // "[-]etcd failed: reason withheld"; what a member says is told in its own words only if they are these.
    let text = String::from_utf8_lossy(&answer.body);
    let check =
        |line: &&str| line.starts_with("[-]") && line.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let failing: Vec<&str> = text.lines().map(str::trim_end).filter(check).take(MAX_CHECKS).collect();
    let checks = if failing.is_empty() { String::new() } else { format!(": {}", failing.join(", ")) };
    Readiness::NotReady(answer.status, checks)
}

/// A kube-apiserver looks at a token before anything else, whoever may see the path.
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

/// Every authenticated user may ask who they are (Kubernetes 1.28).
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
    fn not_ready_member_is_quoted_by_its_failed_checks() {
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
    fn whatever_is_no_fault_of_the_member_is_an_answer() {
        for status in [200, 401, 403, 404, 429] {
            assert_eq!(readiness(&answer(status, "")), Readiness::Serves, "{status}");
        }
    }

    #[test]
    fn a_token_is_refused_by_401_alone() {
        let verdict = |status: u16| by_token(StatusCode::from_u16(status).unwrap());
        assert_eq!(verdict(200), Some(Verdict::Accepted));
        assert_eq!(verdict(403), Some(Verdict::Accepted));
        assert_eq!(verdict(401), Some(Verdict::Refused));
        assert_eq!(verdict(500), None);
    }

    #[test]
    fn a_version_is_one_word() {
        let of = |body: &str| version(&answer(200, body));
        assert_eq!(of(r#"{"major":"1","gitVersion":"v1.36.3"}"#).as_deref(), Some("v1.36.3"));
        assert_eq!(of("{}"), None);
        assert_eq!(of(r#"{"gitVersion":"v1 \u001b[31m"}"#), None);
        assert_eq!(of(&format!(r#"{{"gitVersion":"{}"}}"#, "v".repeat(65))), None);
    }
}
