//! A client for a cluster's API with which tests prepare their objects. Each request uses a new
//! connection and takes a few milliseconds; a kubectl would take a hundred.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testbed::Cluster;

use crate::http1::{Connection, Endpoint, Response};
use crate::wait::{SOON, eventually};

/// A client for one cluster, as its administrator or with some token.
#[derive(Clone)]
pub struct Api {
    endpoint: Endpoint,
    /// Head lines of every request.
    lines: String,
}

/// One connection for many requests. A handshake for each of thousands of requests would take
/// minutes.
pub struct Session<'a> {
    api: &'a Api,
    connection: Connection,
}

impl Session<'_> {
    pub fn create(&mut self, path: &str, object: &Value) -> Result<Value> {
        self.request("POST", path, "application/json", object)
    }

    /// A JSON merge patch (RFC 7396).
    pub fn merge(&mut self, path: &str, patch: &Value) -> Result<Value> {
        self.request("PATCH", path, "application/merge-patch+json", patch)
    }

    fn request(&mut self, method: &str, path: &str, content_type: &str, body: &Value) -> Result<Value> {
        let (body, lines) = (body.to_string(), &self.api.lines);
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: cluster\r\n{lines}Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        success(|| {
            self.connection.send(format!("{head}{body}").as_bytes())?;
            self.connection.response()
        })
        .with_context(|| format!("{method} {path}"))
    }
}

impl Api {
    /// A client that is a member of `system:masters`.
    pub fn admin(cluster: &Cluster) -> Result<Self> {
        let certificate = cluster.client_certificate("e2e-admin", &["system:masters"])?;
        Ok(Self { endpoint: Endpoint::cluster(cluster, Some(&certificate))?, lines: String::new() })
    }

    /// A client with this bearer token.
    pub fn bearer(cluster: &Cluster, token: &str) -> Result<Self> {
        let lines = format!("Authorization: Bearer {token}\r\n");
        Ok(Self { endpoint: Endpoint::cluster(cluster, None)?, lines })
    }

    /// The same with these header lines too, for example `Impersonate-User: jane`.
    #[must_use]
    pub fn with(&self, lines: &[&str]) -> Self {
        let mut with = self.clone();
        lines.iter().for_each(|line| with.lines += &format!("{line}\r\n"));
        with
    }

    /// A connection that stays open.
    pub fn session(&self) -> Result<Session<'_>> {
        Ok(Session { api: self, connection: self.endpoint.connect()? })
    }

    /// Creates or changes the object by server-side apply.
    pub fn apply(&self, path: &str, object: &Value) -> Result<Value> {
        let path = format!("{path}?fieldManager=e2e&force=true");
        self.demand("PATCH", &path, "application/apply-patch+yaml", &object.to_string())
    }

    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.demand("POST", path, "application/json", &object.to_string())
    }

    /// A JSON merge patch (RFC 7396).
    pub fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.demand("PATCH", path, "application/merge-patch+json", &patch.to_string())
    }

    /// A JSON patch (RFC 6902).
    pub fn patch(&self, path: &str, operations: &Value) -> Result<Value> {
        self.demand("PATCH", path, "application/json-patch+json", &operations.to_string())
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        self.demand("GET", path, "", "")
    }

    pub fn delete(&self, path: &str) -> Result<Value> {
        self.demand("DELETE", path, "", "")
    }

    /// The answer, with any status.
    pub fn request(&self, method: &str, path: &str, content_type: &str, body: &str) -> Result<Response> {
        let content = match body.len() {
            0 => String::new(),
            length => format!("Content-Type: {content_type}\r\nContent-Length: {length}\r\n"),
        };
        let lines = &self.lines;
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: cluster\r\nConnection: close\r\n{lines}{content}\r\n");
        self.endpoint.exchange(format!("{head}{body}").as_bytes())
    }

    /// The object in a successful answer.
    fn demand(&self, method: &str, path: &str, content_type: &str, body: &str) -> Result<Value> {
        success(|| self.request(method, path, content_type, body)).with_context(|| format!("{method} {path}"))
    }

    /// Whether the cluster's authorizer, once it has read the rules, allows this to the user and the groups.
    pub fn may(&self, user: &str, groups: &[String], attributes: &Value) -> Result<bool> {
        let review = serde_json::json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
        });
        let answer = self.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review)?;
        Ok(answer["status"]["allowed"] == true)
    }
}

/// The object in a successful answer. Like kubectl, this retries while the watch cache answers 429,
/// which it does for a short time after a kind was defined.
fn success(mut ask: impl FnMut() -> Result<Response>) -> Result<Value> {
    let response = eventually("the cluster's storage is initialized", SOON, || {
        let answer = ask();
        Ok((!answer.as_ref().is_ok_and(is_initializing)).then_some(answer))
    })??;
    ensure!((200..300).contains(&response.status()), "answered {}: {}", response.status(), response.text());
    serde_json::from_slice(&response.body).with_context(|| format!("no JSON: {:?}", response.text()))
}

fn is_initializing(response: &Response) -> bool {
    response.status() == 429 && response.text().contains("storage is (re)initializing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::Head;

    fn answer(status: u16, message: &str) -> Response {
        let body = serde_json::json!({"kind": "Status", "message": message}).to_string().into_bytes();
        Response { head: Head { status, lines: Vec::new() }, body }
    }

    #[test]
    fn request_is_retried_until_the_watch_cache_is_ready() {
        let mut asked = 0;
        let object = success(|| {
            asked += 1;
            Ok(if asked < 3 { answer(429, "storage is (re)initializing") } else { answer(200, "here") })
        });
        assert_eq!((object.unwrap()["message"].as_str(), asked), (Some("here"), 3));
    }

    #[test]
    fn other_refusals_are_not_retried() {
        let error = success(|| Ok(answer(429, "too many requests"))).unwrap_err();
        assert!(error.to_string().starts_with("answered 429"), "{error}");
    }
}
