//! Answers the authorization webhook (apiserver: `plugin/pkg/authorizer/webhook`): it takes a
//! SubjectAccessReview and returns one with a status. The rules are in [`kubectl_mc_api::ownership`].
//!
//! A review with a field that this version does not know is denied, because the field could change the
//! meaning of the request. An invalid review gets 400, which a kube-apiserver treats as a failed webhook.

use bytes::Bytes;
use http::{Response, StatusCode};
use kubectl_mc_api::ownership::{Attributes, Decision, Layout, Resource, Selection, decide};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::debug;

use crate::outbound::body::{self, Body, TEXT};

mod metrics;

pub use metrics::Metrics;
use metrics::Outcome;

/// Answers a review.
pub fn answer(layout: &Layout, metrics: &Metrics, body: &Bytes) -> Response<Body> {
    let Some(spec) = spec(body) else {
        metrics.count(Outcome::Invalid);
        return refused(
            StatusCode::BAD_REQUEST,
            "the body is no SubjectAccessReview of authorization.k8s.io/v1",
        );
    };
    let denied = match serde_json::from_value::<Spec>(spec).map_err(|error| error.to_string()) {
        Ok(spec) => spec.denied(layout),
        Err(error) => Some(format!("this version cannot judge the review: {error}")),
    };
    let status = match &denied {
        Some(reason) => {
            debug!(reason, "request of an agent denied");
            metrics.count(Outcome::Denied);
            json!({"allowed": false, "denied": true, "reason": format!("kubectl-mc: {reason}")})
        }
        None => {
            metrics.count(Outcome::NoOpinion);
            json!({"allowed": false})
        }
    };
    let review = json!({"apiVersion": API_VERSION, "kind": KIND, "status": status});
    body::document(StatusCode::OK, "application/json", review.to_string())
}

/// An answer without a decision.
pub fn refused(status: StatusCode, text: &str) -> Response<Body> {
    body::document(status, TEXT, format!("{text}\n"))
}

/// The spec of a review, if the body is one.
fn spec(body: &[u8]) -> Option<Value> {
    let mut review = serde_json::from_slice::<Value>(body).ok()?;
    let is_review =
        review["apiVersion"] == API_VERSION && review["kind"] == KIND && review["spec"].is_object();
    is_review.then(|| review["spec"].take())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    user: String,
    #[serde(default)]
    groups: Option<Vec<String>>,
    #[serde(default, rename = "uid")]
    _uid: Option<String>,
    #[serde(default, rename = "extra")]
    _extra: Option<Value>,
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<NonResourceAttributes>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    #[serde(rename = "version")]
    _version: String,
    resource: String,
    subresource: String,
    name: String,
    field_selector: Option<Selector>,
    /// Unused: no rule reads labels, because a label selector only reduces what a list returns.
    #[serde(rename = "labelSelector")]
    _label_selector: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NonResourceAttributes {
    #[serde(default)]
    path: String,
    #[serde(default)]
    verb: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Selector {
    #[serde(default)]
    raw_selector: String,
    #[serde(default)]
    requirements: Option<Vec<Requirement>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    key: String,
    operator: String,
    #[serde(default)]
    values: Option<Vec<String>>,
}

impl Spec {
    /// Why the request is denied, if it is.
    fn denied(&self, layout: &Layout) -> Option<String> {
        let attributes = match (&self.resource_attributes, &self.non_resource_attributes) {
            (Some(attributes), None) => Attributes::Resource(attributes.as_request()),
            (None, Some(NonResourceAttributes { path, verb })) => Attributes::NonResource { verb, path },
            _ => return Some("the review is not about one request".to_owned()),
        };
        match decide(layout, &self.user, self.groups.as_deref().unwrap_or_default(), &attributes) {
            Decision::NoOpinion => None,
            Decision::Deny(reason) => Some(reason.to_string()),
        }
    }
}

impl ResourceAttributes {
    fn as_request(&self) -> Resource<'_> {
        Resource {
            verb: &self.verb,
            group: &self.group,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            selection: self.field_selector.as_ref().map_or(Selection::Everything, Selector::selection),
        }
    }
}

impl Selector {
    /// The selection, if there is exactly one requirement and it is for the name (KEP-4601: all requirements
    /// must match).
    fn selection(&self) -> Selection<'_> {
        let requirements = self.requirements.as_deref().unwrap_or_default();
        match requirements {
            _ if !self.raw_selector.is_empty() => Selection::Other,
            [] => Selection::Everything,
            [Requirement { key, operator, values: Some(values) }]
                if key == "metadata.name" && operator == "In" =>
            {
                match values.as_slice() {
                    [name] => Selection::Name(name),
                    _ => Selection::Other,
                }
            }
            _ => Selection::Other,
        }
    }
}

const API_VERSION: &str = "authorization.k8s.io/v1";
const KIND: &str = "SubjectAccessReview";

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use prometheus_client::registry::Registry;

    use super::*;

    async fn asked(body: &str) -> (u16, String) {
        let metrics = Metrics::register(&mut Registry::default());
        let response = answer(&Layout::default(), &metrics, &Bytes::from(body.to_owned()));
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn status_of(spec: Value) -> Value {
        let review = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"creationTimestamp": null}, "spec": spec});
        let (status, body) = asked(&review.to_string()).await;
        assert_eq!(status, 200, "{body}");
        let review: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&review["apiVersion"], &review["kind"]), (&API_VERSION.into(), &KIND.into()));
        review["status"].clone()
    }

    fn agent(attributes: Value) -> Value {
        json!({
            "user": "system:karmada:agent:a", "groups": ["system:karmada:agents", "system:authenticated"],
            "uid": "u", "extra": {"k": ["v"]}, "resourceAttributes": attributes,
        })
    }

    fn clusters(verb: &str, more: &Value) -> Value {
        let mut attributes = json!({"verb": verb, "group": "cluster.karmada.io", "version": "v1alpha1", "resource": "clusters"});
        for (key, value) in more.as_object().unwrap() {
            attributes[key] = value.clone();
        }
        agent(attributes)
    }

    #[tokio::test]
    async fn review_is_denied_or_left_to_rbac_and_never_allowed() {
        let own = status_of(clusters("get", &json!({"name": "a"}))).await;
        assert_eq!(own, json!({"allowed": false}));
        let other = status_of(clusters("get", &json!({"name": "b"}))).await;
        assert_eq!((&other["allowed"], &other["denied"]), (&false.into(), &true.into()));
        assert!(
            other["reason"].as_str().unwrap().contains("does not belong to the agent's cluster"),
            "{other}"
        );
        let admin = json!({"user": "jane", "groups": null, "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
        assert_eq!(status_of(admin).await, json!({"allowed": false}));
    }

    #[tokio::test]
    async fn list_needs_the_selector_of_the_own_name_alone() {
        let requirement = |values: Value| json!({"key": "metadata.name", "operator": "In", "values": values});
        let list = async |selector: Value| {
            status_of(clusters("list", &json!({"name": "a", "fieldSelector": selector}))).await["denied"]
                == true
        };
        assert!(!list(json!({"requirements": [requirement(json!(["a"]))]})).await);
        for selector in [
            json!({"requirements": [requirement(json!(["b"]))]}),
            json!({"requirements": [requirement(json!(["a", "b"]))]}),
            json!({"requirements": [requirement(json!(["a"])), requirement(json!(["a"]))]}),
            json!({"requirements": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}),
            json!({"requirements": [{"key": "metadata.name", "operator": "Exists"}]}),
            json!({"rawSelector": "metadata.name=a"}),
        ] {
            assert!(list(selector.clone()).await, "{selector}");
        }
    }

    #[tokio::test]
    async fn review_with_an_unknown_part_is_denied() {
        let mut spec = clusters("get", &json!({"name": "a"}));
        spec["future"] = true.into();
        let mut both = clusters("get", &json!({"name": "a"}));
        both["nonResourceAttributes"] = json!({"path": "/version", "verb": "get"});
        for spec in [
            spec,
            both,
            clusters("get", &json!({"name": "a", "future": ""})),
            clusters("get", &json!({"name": ["a"]})),
            clusters("list", &json!({"name": "a", "fieldSelector": {"future": 1}})),
            json!({"user": "system:karmada:agent:a", "groups": ["system:karmada:agents"]}),
            json!({}),
        ] {
            assert_eq!(status_of(spec.clone()).await["denied"], true, "{spec}");
        }
    }

    #[tokio::test]
    async fn invalid_review_is_a_bad_request() {
        for body in [
            "",
            "{",
            "[]",
            "null",
            r#"{"apiVersion": "authorization.k8s.io/v1beta1", "kind": "SubjectAccessReview", "spec": {}}"#,
            r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}}"#,
            r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}"#,
        ] {
            let (status, answer) = asked(body).await;
            assert_eq!(status, 400, "{body}: {answer}");
        }
        let nested = "[".repeat(100_000);
        assert_eq!(asked(&nested).await.0, 400);
    }
}
