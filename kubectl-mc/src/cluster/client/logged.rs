//! Logs each request of a client: method, URL, status, milliseconds and Audit-ID, and no other header.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderMap, Request, Response};
use kube::client::Body;
use tower::{BoxError, Service};

use crate::error::chain;
use crate::log::{Log, without_credential};

/// Wraps the client so that its requests are logged if the log level asks for it.
pub(crate) fn logged(client: kube::Client, server: &str, log: Log) -> kube::Client {
    if !log.has_requests() {
        return client;
    }
    let namespace = client.default_namespace().to_owned();
    kube::Client::new(Logged { client, server: without_credential(server), log }, namespace)
}

#[derive(Clone)]
struct Logged {
    client: kube::Client,
    server: String,
    log: Log,
}

impl Service<Request<Body>> for Logged {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, log, begun) = (request.method().clone(), self.log, Instant::now());
        let path = request.uri().path_and_query().map_or("", |path| path.as_str());
        let url = format!("{}{path}", self.server);
        let client = self.client.clone();
        Box::pin(async move {
            let answer = client.send(request).await.map_err(unwrapped);
            let milliseconds = begun.elapsed().as_millis();
            let status = match &answer {
                Ok(answer) => answer.status().to_string(),
                Err(error) => format!("no answer: {}", chain(&**error)),
            };
            let audit_id = answer.as_ref().ok().and_then(|answer| audit_id(answer.headers()));
            let mut fields: Vec<(&str, &dyn Display)> =
                vec![("verb", &method), ("url", &url), ("status", &status), ("milliseconds", &milliseconds)];
            fields.extend(audit_id.as_ref().map(|id| ("auditID", id as &dyn Display)));
            log.request(&fields);
            answer
        })
    }
}

/// The id of the request in the audit logs of the host, the member and the sidecar.
fn audit_id(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get("audit-id")?.to_str().ok()?;
    (1..=MAX_ID).contains(&id.len()).then_some(id)
}

/// Kubernetes rejects longer ids.
const MAX_ID: usize = 64;

/// Unwraps the error of the inner client, which the outer client wraps again.
pub(super) fn unwrapped(error: kube::Error) -> BoxError {
    match error {
        kube::Error::Service(error) => error,
        error => Box::new(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_or_long_audit_id_is_ignored() {
        let headers = |ids: &[&'static str]| -> HeaderMap {
            ids.iter()
                .map(|id| (http::HeaderName::from_static("audit-id"), http::HeaderValue::from_static(id)))
                .collect()
        };
        assert_eq!(audit_id(&headers(&["5f2c", "5f2c"])), Some("5f2c"));
        for none in
            [&[][..], &[""], &["0123456789012345678901234567890123456789012345678901234567890123456789"]]
        {
            assert_eq!(audit_id(&headers(none)), None, "{none:?}");
        }
    }
}
