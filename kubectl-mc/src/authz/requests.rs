//! Requests to the host that several commands share.

use kubectl_mc_api::ownership::subject;
use serde_json::{Value, json};

use crate::cluster::connection::Connection;
use crate::error::Failure;

/// The registration of this kind and name.
pub(super) async fn registered(host: &Connection, kind: &str, name: &str) -> Result<Option<Value>, Failure> {
    Ok(host.get(&format!("/apis/admissionregistration.k8s.io/v1/{kind}/{name}")).await?)
}

/// Asks the host whether an agent may do this.
pub(super) fn review_of(user: &str, attributes: &Value) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": user, "groups": [subject::GROUP, "system:authenticated"], "resourceAttributes": attributes,
        },
    })
}

pub(super) const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
