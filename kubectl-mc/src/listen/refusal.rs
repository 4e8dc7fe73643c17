//! Creates the responses to requests that the listener does not forward: a `metav1.Status` that
//! names this hop.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use kube::client::Body;
use serde_json::json;

/// Why a request or its response is not forwarded.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "the Host header names no cluster of this listener: use CLUSTER.localhost or a loopback address, with the port"
    )]
    Host,
    #[error("the request comes from a page of another origin")]
    Origin,
    #[error(
        "the token is missing or wrong: send the one of the listener's kubeconfig as Authorization: Bearer TOKEN"
    )]
    Token,
    #[error("cluster {name:?} is not one of this listener, which serves {served}")]
    NotServed { name: String, served: String },
    #[error(
        "the request names no cluster: use CLUSTER.localhost as the host, or /CLUSTER as the first part of the path; this listener serves {served}"
    )]
    NoCluster { served: String },
    #[error("the Host header and the server name of TLS name different clusters")]
    Misdirected,
    #[error("the path {0}")]
    Path(&'static str),
    #[error("the request {0}")]
    Head(&'static str),
    #[error("the kubeconfig's user already impersonates another one, so the request cannot")]
    Impersonates,
    #[error("too many connections are open")]
    Busy,
    #[error("cannot send the request to cluster {cluster}: {reason}")]
    NoAnswer { cluster: String, reason: String },
    #[error("cluster {cluster} sent a redirect that leaves the cluster")]
    Redirect { cluster: String },
    #[error("cluster {cluster} switched to another protocol than the requested one")]
    Protocol { cluster: String },
}

impl Refusal {
    /// The response, after which the connection closes.
    pub(super) fn response(&self) -> Response<Body> {
        let (code, reason) = self.code();
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("kubectl-mc listener: {self}"), "reason": reason, "code": code.as_u16(),
            "details": {"causes": [{"reason": "Hop", "message": "kubectl-mc listener"}]},
        });
        let mut response = Response::new(Body::from(Bytes::from(status.to_string())));
        *response.status_mut() = code;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // The rest of a refused request may be anything.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }

    /// The status code, and Kubernetes' reason for it.
    fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Host | Self::Origin | Self::Impersonates => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::Token => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::NotServed { .. } | Self::NoCluster { .. } => (StatusCode::NOT_FOUND, "NotFound"),
            Self::Misdirected => (StatusCode::MISDIRECTED_REQUEST, ""),
            Self::Path(_) | Self::Head(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Self::NoAnswer { .. } | Self::Redirect { .. } | Self::Protocol { .. } => {
                (StatusCode::BAD_GATEWAY, "")
            }
        }
    }
}
