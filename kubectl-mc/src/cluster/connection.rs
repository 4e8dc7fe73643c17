//! Opens a connection to the cluster of a kubeconfig context, with the caller's credential, and sends requests to
//! it. Errors name the cluster, the request and the next step.

use http::{Method, Request, StatusCode, header, request};
use kube::client::Body;
use kubectl_mc_api::names::KUBECTL_MC;
use serde_json::{Value, json};

use crate::argv::Scanned;
use crate::cluster::client::{self, Reply};
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::env::Env;
use crate::error::{CommandLine, Context, Explain, Failure, Hint};
use crate::server_text::ServerText;

#[cfg(test)]
pub(crate) mod fake;

/// A cluster with an open connection, and its role in the command.
#[derive(Clone)]
pub(crate) struct Connection {
    /// For messages, such as `host` or `member`.
    pub(crate) role: &'static str,
    pub(crate) client: kube::Client,
    /// The context of the cluster.
    pub(crate) cluster: ClusterContext,
}

impl Connection {
    /// For messages: `member, context "m1" (https://…)`.
    pub(crate) fn describe(&self) -> String {
        format!("{}, {}", self.role, self.cluster.context_name())
    }

    /// The object, or `None` if it does not exist.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, ConnectionError> {
        let answer = self.send(Method::GET, path, None).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(answer.json())),
            _ => Err(self.refused(format!("get {path}"), &answer)),
        }
    }

    /// The object, or `None` if it does not exist or the caller may not read it.
    pub(crate) async fn readable(&self, path: &str) -> Result<Option<Value>, ConnectionError> {
        match self.get(path).await {
            Err(ConnectionError::Refused { status: StatusCode::FORBIDDEN, .. }) => Ok(None),
            answer => answer,
        }
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, ConnectionError> {
        let answer = self.send(Method::POST, path, Some(("application/json", object))).await?;
        self.success(format!("create {path}"), &answer)
    }

    /// Applies a JSON merge patch (RFC 7386).
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, ConnectionError> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let to = format!("{path}{separator}fieldManager={FIELD_MANAGER}");
        let answer = self.send(Method::PATCH, &to, Some(("application/merge-patch+json", patch))).await?;
        self.success(format!("patch {path}"), &answer)
    }

    /// Whether the caller has this right; `attributes` are those of a SubjectAccessReview.
    pub(crate) async fn may(&self, attributes: &Value) -> Result<bool, ConnectionError> {
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
    ) -> Result<Reply, ConnectionError> {
        let request = Request::builder().header("Impersonate-User", user).header("Impersonate-Group", group);
        self.request(request, Method::POST, path, Some(("application/json", object))).await
    }

    /// Sends any request. Every status is a result; only a missing response is an error.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Reply, ConnectionError> {
        self.request(Request::builder(), method, path, body).await
    }

    async fn request(
        &self,
        request: request::Builder,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Reply, ConnectionError> {
        let unreachable = |reason: String| ConnectionError::Unreachable { side: self.describe(), reason };
        let request = request.method(method).uri(path).header(header::ACCEPT, "application/json");
        let request = match body {
            Some((kind, body)) => {
                request.header(header::CONTENT_TYPE, kind).body(Body::from(body.to_string().into_bytes()))
            }
            None => request.body(Body::empty()),
        };
        let request = request.map_err(|error| unreachable(error.to_string()))?;
        client::send(&self.client, request).await.map_err(|error| unreachable(error.reason()))
    }

    pub(crate) fn refused(&self, what: String, answer: &Reply) -> ConnectionError {
        let (side, message) = (self.describe(), answer.message());
        match answer.status {
            StatusCode::UNAUTHORIZED => {
                ConnectionError::Unauthorized { side, kubectl: self.cluster.kubectl() }
            }
            status => ConnectionError::Refused { side, what, status, message },
        }
    }

    fn success(&self, what: String, answer: &Reply) -> Result<Value, ConnectionError> {
        if answer.status.is_success() { Ok(answer.json()) } else { Err(self.refused(what, answer)) }
    }
}

/// Connects to the cluster of a context: the named one, the current one, or the pod's own cluster.
pub(crate) async fn connect(
    role: &'static str,
    options: &HostOptions,
    env: &Env,
) -> Result<Connection, Failure> {
    to(role, ClusterContext::load(options, env)?, env).await
}

/// Connects to a cluster whose context is already loaded.
pub(crate) async fn to(
    role: &'static str,
    cluster: ClusterContext,
    env: &Env,
) -> Result<Connection, Failure> {
    let client = client::connection(&cluster, &Scanned::default(), env).await;
    let client = client.context(|| format!("cannot use {}", cluster.context_name()))?;
    Ok(Connection { role, client, cluster })
}

/// Runs a command that sends requests. Only such commands start an async runtime.
pub(crate) fn run<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context(|| "cannot start")?.block_on(command)
}

/// The field manager of the plugin's writes.
pub(crate) const FIELD_MANAGER: &str = KUBECTL_MC;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("cannot reach the {side}: {reason}")]
    Unreachable { side: String, reason: String },
    #[error("the {side}, rejected the credential of the kubeconfig: it is expired or wrong")]
    Unauthorized { side: String, kubectl: String },
    #[error("the {side}, refused to {what}: {message}")]
    Refused { side: String, what: String, status: StatusCode, message: ServerText },
}

impl Explain for ConnectionError {
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
