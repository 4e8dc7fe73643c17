//! Sends requests to one of the two clusters of a join. Errors name the side, the request and the next step.

use std::time::Duration;

use http::{Method, Request, StatusCode, header, request};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};

use crate::apply::FIELD_MANAGER;
use crate::cluster::client::{self, Reply};
use crate::cluster::connection::{Connection, NamedCluster};
use crate::error::{CommandLine, Explain, Hint};
use crate::server_text::ServerText;

#[cfg(test)]
pub(crate) mod fake;

/// A cluster and its role in this command.
#[derive(Clone)]
pub(crate) struct Side {
    /// `host` or `member`.
    pub(crate) role: &'static str,
    pub(crate) at: Connection,
}

impl Side {
    pub(crate) fn target(&self) -> NamedCluster<'_> {
        self.at.target(self.role)
    }

    /// For messages: `member, context "m1" (https://…)`.
    pub(crate) fn describe(&self) -> String {
        self.target().describe()
    }

    /// The object, or `None` if it does not exist.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, SideError> {
        let answer = self.send(Method::GET, path, None).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(answer.json())),
            _ => Err(self.refused(format!("get {path}"), &answer)),
        }
    }

    /// The object, or `None` if it does not exist or the caller may not read it.
    pub(crate) async fn readable(&self, path: &str) -> Result<Option<Value>, SideError> {
        match self.get(path).await {
            Err(SideError::Refused { status: StatusCode::FORBIDDEN, .. }) => Ok(None),
            answer => answer,
        }
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, SideError> {
        let answer = self.send(Method::POST, path, Some(("application/json", object))).await?;
        self.success(format!("create {path}"), &answer)
    }

    /// Applies a JSON merge patch (RFC 7386).
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, SideError> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let to = format!("{path}{separator}fieldManager={FIELD_MANAGER}");
        let answer = self.send(Method::PATCH, &to, Some(("application/merge-patch+json", patch))).await?;
        self.success(format!("patch {path}"), &answer)
    }

    /// Whether the caller has this right; `attributes` are those of a SubjectAccessReview.
    pub(crate) async fn may(&self, attributes: &Value) -> Result<bool, SideError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let answer = self.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await?;
        Ok(answer["status"]["allowed"] == true)
    }

    /// Creates an object as another user, who is in this group. Every status is a result.
    pub(crate) async fn create_as(
        &self,
        user: &str,
        group: &str,
        path: &str,
        object: &Value,
    ) -> Result<Reply, SideError> {
        let request = Request::builder().header("Impersonate-User", user).header("Impersonate-Group", group);
        self.request(request, Method::POST, path, Some(("application/json", object))).await
    }

    /// Sends any request. Every status is a result; only a missing response is an error.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Reply, SideError> {
        self.request(Request::builder(), method, path, body).await
    }

    async fn request(
        &self,
        request: request::Builder,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Reply, SideError> {
        let unreachable = |reason: String| SideError::Unreachable { side: self.describe(), reason };
        let request = request.method(method).uri(path).header(header::ACCEPT, "application/json");
        let request = match body {
            Some((kind, body)) => {
                request.header(header::CONTENT_TYPE, kind).body(Body::from(body.to_string().into_bytes()))
            }
            None => request.body(Body::empty()),
        };
        let request = request.map_err(|error| unreachable(error.to_string()))?;
        client::send(&self.at.client, request).await.map_err(|error| unreachable(error.reason()))
    }

    pub(crate) fn refused(&self, what: String, answer: &Reply) -> SideError {
        let (side, message) = (self.describe(), answer.message());
        match answer.status {
            StatusCode::UNAUTHORIZED => SideError::Unauthorized { side, kubectl: self.at.cluster.kubectl() },
            status => SideError::Refused { side, what, status, message },
        }
    }

    fn success(&self, what: String, answer: &Reply) -> Result<Value, SideError> {
        if answer.status.is_success() { Ok(answer.json()) } else { Err(self.refused(what, answer)) }
    }
}

/// The difference of two clocks.
pub(crate) fn apart(one: Timestamp, other: Timestamp) -> Duration {
    one.duration_since(other).unsigned_abs()
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SideError {
    #[error("cannot reach the {side}: {reason}")]
    Unreachable { side: String, reason: String },
    #[error("the {side}, rejected the credential of the kubeconfig: it is expired or wrong")]
    Unauthorized { side: String, kubectl: String },
    #[error("the {side}, refused to {what}: {message}")]
    Refused { side: String, what: String, status: StatusCode, message: ServerText },
}

impl Explain for SideError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Unreachable { .. } => {
                Some("check the network, and the server of the kubeconfig context".into())
            }
            Self::Unauthorized { kubectl, .. } => {
                Some(CommandLine::new(format!("{kubectl} auth whoami")).after("log in to it again, then try"))
            }
            Self::Refused { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_difference_has_no_sign() {
        let there: Timestamp = "2026-11-21T20:50:41Z".parse().unwrap();
        let here: Timestamp = "2026-11-21T20:52:41Z".parse().unwrap();
        assert_eq!(apart(here, there), Duration::from_secs(120));
        assert_eq!(apart(there, here), Duration::from_secs(120));
    }
}
