//! Answers the admission webhooks for Karmada's agents (apiserver: `pkg/admission/plugin/webhook`): it takes
//! an AdmissionReview of admission.k8s.io/v1 and returns one with a response.
//!
//! - [`enrollment`]: decides about certificate requests, which [`certificate_request`] parses
//! - [`owner`]: sets the owner on objects that an agent creates
//!
//! Callers are not authenticated, because a kube-apiserver sends webhooks no certificate. An answer depends
//! on the review alone, and contains nothing that the caller does not know. An invalid review gets 400, which
//! a kube-apiserver treats as a failed webhook.

use bytes::Bytes;
use http::{Response, StatusCode};
use kubectl_mc_api::ownership::admission_path;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::debug;

use super::authorize::refused;
use crate::outbound::body::{self, Body};

pub mod certificate_request;
pub mod enrollment;
mod metrics;
mod owner;

pub use metrics::Metrics;
use metrics::Outcome;

/// A webhook, identified by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhook {
    Enrollment,
    Owner,
}

impl Webhook {
    pub fn at(path: &str) -> Option<Self> {
        match path {
            admission_path::ENROLLMENT => Some(Self::Enrollment),
            admission_path::OWNER => Some(Self::Owner),
            _ => None,
        }
    }
}

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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "O: DeserializeOwned")]
struct Review<O> {
    api_version: String,
    kind: String,
    request: Request<O>,
}

impl<O: DeserializeOwned> Review<O> {
    fn parse(body: &[u8]) -> Option<Request<O>> {
        let review = serde_json::from_slice::<Self>(body).ok()?;
        (review.api_version == API_VERSION && review.kind == KIND).then_some(review.request)
    }
}

/// The request that the host's caller sent. `O` has what is read of the object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "O: DeserializeOwned")]
pub struct Request<O = Value> {
    uid: String,
    resource: Resource,
    #[serde(default)]
    sub_resource: String,
    operation: String,
    user_info: UserInfo,
    #[serde(default = "Option::default")]
    object: Option<O>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    group: String,
    resource: String,
}

#[derive(Deserialize)]
struct UserInfo {
    #[serde(default)]
    username: String,
    #[serde(default)]
    groups: Option<Vec<String>>,
}

impl<O> Request<O> {
    fn groups(&self) -> &[String] {
        self.user_info.groups.as_deref().unwrap_or_default()
    }

    fn creates(&self, group: &str, resource: &str) -> bool {
        self.operation == "CREATE"
            && self.sub_resource.is_empty()
            && self.resource.group == group
            && self.resource.resource == resource
    }
}

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

#[cfg(test)]
mod tests;
