//! Routes the reviews of `auth can-i` and `auth whoami`. Both send a review as a POST, for which
//! the host's kube-apiserver requires the right to create. All users have this right below a
//! member's `selfreviews` (ClusterRole `kubectl-mc-self-reviews`), and the sidecar treats the
//! review as a read, so kubectl uses that path. If the host's administrator has revoked the right,
//! callers with read-only access are refused at `proxy`, and kubectl hides the refusal: `whoami`
//! reports that the API is not enabled. The plugin then suggests a command that answers the
//! question with reads. On the direct endpoint no check is needed, because only the sidecar
//! decides.

use std::ffi::OsStr;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use kube::client::Body;
use kubectl_mc_api::{ClusterName, path};
use serde_json::json;

use crate::argv::Scanned;
use crate::cluster::client;
use crate::cluster::context::ClusterContext;
use crate::cluster::hop::{Hop, Refusal};
use crate::env::Env;
use crate::error::Failure;
use crate::kubectl::preflight;
use crate::next_command::quoted;

/// Whether kubectl sends a review of its caller.
pub(crate) fn is_sent(scanned: &Scanned) -> bool {
    let word = scanned.word_after_verb().unwrap_or_default();
    scanned.verb().is_some_and(|verb| verb == "auth")
        && (word == "can-i" || word == "whoami")
        && !preflight::needs_no_server(scanned)
}

/// The subresource of a member that receives the review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    Proxy,
    SelfReviews,
}

impl Subresource {
    /// The subresource to which the caller may send reviews on all members.
    pub(crate) async fn of(host: &kube::Client) -> Self {
        match may_create(host, path::SELF_REVIEWS, None).await {
            Some(true) => Self::SelfReviews,
            Some(false) | None => Self::Proxy,
        }
    }
}

/// The subresource of one cluster. If the host does not respond, kubectl reports the problem.
///
/// # Errors
///
/// The host refuses the review.
pub(crate) fn check(
    host: &ClusterContext,
    cluster: &ClusterName,
    scanned: &Scanned,
    env: &Env,
) -> Result<Subresource, Failure> {
    let asked = client::runtime().ok().and_then(|runtime| {
        runtime.block_on(async {
            let client = client::connection(host, scanned, env).await.ok()?;
            Some(match Subresource::of(&client).await {
                Subresource::SelfReviews => Ok(Subresource::SelfReviews),
                Subresource::Proxy => refusal(&client, cluster).await.map_or(Ok(Subresource::Proxy), Err),
            })
        })
    });
    let word = scanned.word_after_verb().unwrap_or_default().to_string_lossy();
    asked.unwrap_or(Ok(Subresource::Proxy)).map_err(|refusal| {
        let through = host.describe();
        Failure::new(format!("kubectl auth {word} on cluster {cluster} through {through}: {refusal}"))
            .with_hint(hint(scanned, host, cluster))
    })
}

/// The refusal of a review on a member's proxy.
pub(crate) async fn refusal(host: &kube::Client, cluster: &ClusterName) -> Option<Refusal> {
    let is_refused = may_create(host, "proxy", Some(cluster)).await == Some(false);
    is_refused.then(|| Refusal {
        hop: Hop::HostAuthorization,
        message: format!(
            "the right to create clusters/proxy of {cluster} is missing, which a review needs: it is a POST"
        )
        .into(),
    })
}

/// Whether the caller may create a subresource of a cluster, or of all clusters; `None` if the host does not
/// respond.
async fn may_create(host: &kube::Client, subresource: &str, cluster: Option<&ClusterName>) -> Option<bool> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": "create", "group": path::PROXY_GROUP, "resource": path::CLUSTERS, "subresource": subresource,
            "name": cluster.map_or("", ClusterName::as_str),
        }},
    });
    let request = Request::post(REVIEWS)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(Bytes::from(review.to_string())))
        .ok()?;
    let answer = client::send(host, request).await.ok()?;
    (answer.status == StatusCode::CREATED).then(|| answer.json()["status"]["allowed"].as_bool()).flatten()
}

/// The command that answers the question with reads.
fn hint(scanned: &Scanned, host: &ClusterContext, cluster: &ClusterName) -> String {
    if scanned.word_after_verb().is_some_and(|word| word == "whoami") {
        return format!("{cluster} sees the user that the host sees: {} auth whoami", host.kubectl());
    }
    let mut question: Vec<_> = scanned.words_after_verb().skip(1).map(|(_, word)| quoted(word)).collect();
    if question.len() < 2 {
        question = vec!["VERB".to_owned(), "RESOURCE".to_owned()];
    }
    if let Some(subresource) = scanned.value("subresource") {
        question[1] = format!("{}/{}", question[1], quoted(subresource));
    }
    let flag = |name: &str| {
        let value = scanned.value(name).map(OsStr::to_string_lossy);
        value.map(|value| format!(" {}", quoted(format!("--{name}={value}").as_ref()))).unwrap_or_default()
    };
    let question = question.join(" ");
    let groups = scanned.values("as-group").map(|group| {
        let flag = format!("--as-group={}", group.to_string_lossy());
        format!(" {}", quoted(flag.as_ref()))
    });
    let user = flag("as") + &groups.collect::<String>();
    let kubectl_mc = host.kubectl_mc();
    format!("ask by reads: {kubectl_mc} access explain{user} -C {cluster} {question}{}", flag("namespace"))
}

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argv::scan;

    #[test]
    fn only_can_i_and_whoami_send_self_reviews() {
        for (line, expected) in [
            ("auth can-i get pods", true),
            ("-n x auth -v6 whoami", true),
            ("auth can-i --help", false),
            ("auth reconcile -f x", false),
            ("get whoami", false),
        ] {
            let scanned = scan(line.split(' ').map(Into::into).collect());
            assert_eq!(is_sent(&scanned), expected, "{line}");
        }
    }
}
