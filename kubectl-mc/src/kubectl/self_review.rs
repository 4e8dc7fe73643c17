//! `auth can-i` and `auth whoami`: both send a review by POST, for which the host's kube-apiserver wants the right to
//! create `clusters/proxy`. Callers who may only read are refused, and kubectl hides that: `whoami` says that the API is
//! not enabled. So the plugin asks the host first and names the command that answers the question by reads. At the direct
//! endpoint there is nothing to ask: the sidecar takes such a POST for a read.

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
use crate::error::Explain;
use crate::kubectl::preflight;
use crate::next_command::quoted;

/// Whether kubectl sends a review of the caller.
pub(crate) fn is_sent(scanned: &Scanned) -> bool {
    let word = scanned.word_after_verb().unwrap_or_default();
    scanned.verb().is_some_and(|verb| verb == "auth")
        && (word == "can-i" || word == "whoami")
        && !preflight::needs_no_server(scanned)
}

/// Fails if the host refuses the review of one cluster. Where the host cannot be asked, kubectl knows best.
pub(crate) fn check(
    host: &ClusterContext,
    cluster: &ClusterName,
    scanned: &Scanned,
    env: &Env,
) -> Result<(), ReviewRefused> {
    let asked = client::runtime().ok().and_then(|runtime| {
        runtime.block_on(async {
            let client = client::connection(host, scanned, env).await.ok()?;
            refusal(&client, cluster).await
        })
    });
    let Some(refusal) = asked else { return Ok(()) };
    let word = scanned.word_after_verb().unwrap_or_default().to_string_lossy();
    Err(ReviewRefused {
        message: format!("kubectl auth {word} on cluster {cluster} through {}: {refusal}", host.describe()),
        hint: hint(scanned, host, cluster),
    })
}

/// The same for one of several clusters, by a client that is there already.
pub(crate) async fn refusal(client: &kube::Client, cluster: &ClusterName) -> Option<Refusal> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": "create", "group": path::PROXY_GROUP, "resource": path::CLUSTERS, "subresource": "proxy",
            "name": cluster,
        }},
    });
    let request = Request::post(REVIEWS)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(Bytes::from(review.to_string())))
        .ok()?;
    let answer = client::send(client, request).await.ok()?;
    let is_refused = answer.status == StatusCode::CREATED && answer.json()["status"]["allowed"] == false;
    is_refused.then(|| Refusal {
        hop: Hop::HostAuthorization,
        message: format!(
            "you may not create clusters/proxy of {cluster}, which a review needs: it is a POST"
        )
        .into(),
    })
}

/// The command that answers the question by reads.
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
    format!("ask by reads: {} access explain -C {cluster} {question}{}", host.kubectl_mc(), flag("namespace"))
}

/// The refusal of the host, and the next step.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ReviewRefused {
    message: String,
    hint: String,
}

impl Explain for ReviewRefused {
    fn hint(&self) -> Option<String> {
        Some(self.hint.clone())
    }
}

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argv::scan;

    #[test]
    fn reviews_are_sent_by_two_verbs() {
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
