//! Sends the requests of the checks. Every status is a result; a missing or oversized response is an error,
//! because a member may send anything.

use bytes::Bytes;
use http::{Method, Request, header};
use kube::client::Body;
use serde_json::Value;

use crate::cluster::client::{self, ClientError, Reply};

pub(super) async fn post(client: &kube::Client, path: &str, body: &Value) -> Result<Reply, ClientError> {
    send(client, Method::POST, path, Some(body)).await
}

pub(super) async fn send(
    client: &kube::Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Reply, ClientError> {
    let body = body.map(|body| Bytes::from(body.to_string()));
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.map_or_else(Body::empty, Body::from))
        .map_err(|error| ClientError::Setup(Box::new(error)))?;
    client::send_limited(client, request, MAX_ANSWER).await
}

/// Enough for a few pods, which is the largest response, from many members in parallel.
const MAX_ANSWER: usize = 4 * 1024 * 1024;
