//! Answers the admission webhooks for Karmada's agents (apiserver: `pkg/admission/plugin/webhook`): it takes
//! an AdmissionReview of admission.k8s.io/v1 and returns one with a response.
//!
//! - [`enrollment`]: decides about certificate requests, which [`certificate_request`] parses
//! - [`owner`]: sets the owner on objects that an agent creates
//!
//! Callers are not authenticated, because a kube-apiserver does not present a certificate to
//! webhooks. An answer depends only on the review, and contains nothing that the caller does not
//! already know. An invalid review gets 400, which a kube-apiserver treats as a failed webhook.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tracing::debug;

use super::authorize::refused;
use crate::outbound::body::{self, Body};

pub mod certificate_request;
pub mod enrollment;
mod metrics;
mod owner;
mod review;
mod webhook;

pub use metrics::Metrics;
use metrics::Outcome;
pub use review::Request;
use review::{API_VERSION, KIND, Review};
pub use webhook::Webhook;

/// Answers a review.
pub fn answer(webhook: Webhook, metrics: &Metrics, body: &Bytes) -> Response<Body> {
    let decided = match webhook {
        Webhook::Enrollment => Review::parse(body).map(|request| {
            let response = match enrollment::judge(&request) {
                Ok(()) => json!({"allowed": true}),
                Err(reason) => refusal(&reason.to_string()),
            };
            (request.uid, response)
        }),
        Webhook::Owner => Review::parse(body).map(|request| {
            let response = match owner::patch(&request) {
                Ok(None) => json!({"allowed": true}),
                Ok(Some(patch)) => json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}),
                Err(reason) => refusal(reason),
            };
            (request.uid, response)
        }),
    };
    let Some((uid, mut response)) = decided else {
        metrics.count(webhook, Outcome::Invalid);
        return refused(StatusCode::BAD_REQUEST, "the body is no AdmissionReview of admission.k8s.io/v1");
    };
    let is_allowed = response["allowed"] == true;
    metrics.count(webhook, if is_allowed { Outcome::Allowed } else { Outcome::Refused });
    if !is_allowed {
        debug!(?webhook, reason = %response["status"]["message"], "request refused");
    }
    response["uid"] = uid.into();
    let review = json!({"apiVersion": API_VERSION, "kind": KIND, "response": response});
    body::document(StatusCode::OK, "application/json", review.to_string())
}

fn refusal(reason: &str) -> Value {
    let status = json!({"code": 403, "reason": "Forbidden", "message": format!("kubectl-mc: {reason}")});
    json!({"allowed": false, "status": status})
}

#[cfg(test)]
mod tests;
