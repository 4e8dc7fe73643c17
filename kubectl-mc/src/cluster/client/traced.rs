//! Propagates the trace of the command with each request of a client, and adds a span for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use kube::client::Body;
use tower::{BoxError, Service};

use super::logged::unwrapped;
use crate::trace::{self, Trace};

/// Wraps the client so that its requests are traced if the command is.
pub(crate) fn traced(client: kube::Client) -> kube::Client {
    let Some(trace) = trace::current() else { return client };
    let namespace = client.default_namespace().to_owned();
    kube::Client::new(Traced { client, trace }, namespace)
}

#[derive(Clone)]
struct Traced {
    client: kube::Client,
    trace: &'static Trace,
}

impl Service<Request<Body>> for Traced {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let span = self.trace.request(&method, &path, request.headers_mut());
        let client = self.client.clone();
        Box::pin(async move {
            let answer = client.send(request).await.map_err(unwrapped);
            span.ended(answer.as_ref().ok().map(Response::status));
            answer
        })
    }
}
