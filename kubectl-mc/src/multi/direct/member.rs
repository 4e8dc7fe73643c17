//! Sends requests to one member through the host.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header, request};
use http_body_util::BodyExt;
use kube::client::Body;
use kubectl_mc_api::path;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc;

use super::answer::parse;
use super::discovery::Store;
use super::failure::MemberFailure;
use super::login::Login;
use super::member_deadline::MemberDeadline;
use super::pool::{self, StreamId};
use super::task::{Merge, Task};
use super::warnings::{Warning, Warnings};
use super::whole_body::{ENCODING, WholeBody};
use crate::cluster::client::{self, ClientError, Reply};
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::ClusterContext;
use crate::cluster::hop::{Hop, Refusal};
use crate::cluster::shared_credentials::SharedCredentials;
use crate::multi::ordered_output::ForCluster;
use crate::printer::Printer;
use crate::server_text::ServerText;

/// All members of a task.
pub(super) struct Members {
    pub(super) all: Vec<Member>,
    /// The login at the host; `None` if all clusters are contexts.
    pub(super) host: Option<Login>,
    pub(super) warnings: Warnings,
}

impl Members {
    /// The members of a task. One client carries the streams of all members; each context has its own client.
    pub(super) async fn new(
        task: &Task<'_>,
        streams: usize,
        deadline: impl Fn() -> MemberDeadline,
    ) -> Result<Self, ClientError> {
        let host = match &task.reach.host {
            Some(host) => Some(Login::at_host(host, task, streams).await?),
            None => None,
        };
        let by_host = task.reach.host.as_ref().map(|host| Arc::new(host.through.clone()));
        let credentials = SharedCredentials::default();
        let (sender, warnings) = Warnings::channel((task.merge == Merge::Marked).then(|| task.width()));
        let mut all = Vec::new();
        for (place, name) in task.clusters.iter().enumerate() {
            let through =
                task.reach.of(name).map_err(|failure| ClientError::Setup(failure.to_string().into()))?;
            let (login, reached_by) = match (&host, &by_host, name.member()) {
                (Some(host), Some(by_host), Some(_)) => (host.clone(), Arc::clone(by_host)),
                _ => (Login::at_context(through, task, &credentials, streams), Arc::new(through.clone())),
            };
            all.push(Member {
                name: name.clone(),
                login,
                through: reached_by,
                namespace: through.namespace.as_deref().unwrap_or("default").into(),
                discovery: Store::key(through, name).into(),
                place,
                deadline: deadline(),
                warnings: sender.clone(),
            });
        }
        Ok(Self { all, host, warnings })
    }

    /// Prints the warnings of the members, each once per cluster.
    pub(super) fn warn(&mut self, printer: &Printer) {
        self.warnings.print_received(printer);
    }
}

/// A member that receives requests.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) name: ClusterId,
    login: Login,
    /// The context that reaches the member.
    through: Arc<ClusterContext>,
    /// The default namespace of kubectl for this member.
    namespace: Arc<str>,
    /// The cache key of its discovery.
    pub(super) discovery: Arc<str>,
    /// Its position among the members, which spreads streams over connections.
    pub(super) place: usize,
    deadline: MemberDeadline,
    warnings: mpsc::UnboundedSender<Warning>,
}

impl Member {
    /// The head of a successful response, with a streaming body. `path` is the member's own, with a query.
    pub(super) async fn open(&self, path: &str, accept: &str) -> Result<Response<Body>, MemberFailure> {
        self.call(&Call { root: self.root(), path, accept, review: None, compressed: false }).await
    }

    /// Sends a review of the caller to the member's subresource `selfreviews`, which only needs the right to
    /// read the member. If the host refuses that, sends it to `proxy`, which needs the right to create.
    pub(super) async fn review<T: DeserializeOwned>(
        &self,
        path: &str,
        review: &Value,
    ) -> Result<T, MemberFailure> {
        let body = Bytes::from(review.to_string());
        let call =
            |root| Call { root, path, accept: "application/json", review: Some(&body), compressed: false };
        let by_reading =
            self.name.member().filter(|_| !self.through.hub.is_foreign()).map(path::self_review_root);
        let response = match by_reading {
            Some(root) => match self.call(&call(root)).await {
                Err(MemberFailure::Refused(Refusal { hop: Hop::HostAuthorization, .. })) => {
                    self.call(&call(self.root())).await
                }
                answered => answered,
            },
            None => self.call(&call(self.root())).await,
        };
        parse(&self.body(response?, MAX_ANSWER).await?)
    }

    /// The path of the member's API below its server.
    fn root(&self) -> String {
        self.name.root(&self.through)
    }

    async fn call(&self, call: &Call<'_>) -> Result<Response<Body>, MemberFailure> {
        let mut renewed = false;
        loop {
            // A plugin may prompt the user, so its time does not count for the member's timeout.
            let client = self.login.client().await;
            let (client, round) = client.map_err(|error| self.client_failure(&error))?;
            let failure = match self.send(&client, call).await? {
                Ok(response) => {
                    self.login.taken(round);
                    return Ok(response);
                }
                Err(failure) => failure,
            };
            let refused = failure.is_of_the_login();
            if !refused {
                self.login.taken(round);
            }
            if failure.may_lack_the_sidecar()
                && let Some(other) = self.through.hub.find(&client).await
            {
                return Err(MemberFailure::OtherHub(other));
            }
            if !refused || renewed || !self.renew(round).await? {
                return Err(failure);
            }
            renewed = true;
        }
    }

    fn client_failure(&self, error: &ClientError) -> MemberFailure {
        MemberFailure::of_client(error, &self.name)
    }

    /// A plugin may prompt the user, so its time does not count for the member's timeout.
    async fn renew(&self, round: u64) -> Result<bool, MemberFailure> {
        self.login.renew(round).await.map_err(|error| self.client_failure(&error))
    }

    /// Sends one request; returns the response, or its failure. As in client-go, if an answer has
    /// `Retry-After` in seconds, it waits and retries, as often and as long as the member's timeout
    /// allows.
    async fn send(
        &self,
        client: &kube::Client,
        call: &Call<'_>,
    ) -> Result<Result<Response<Body>, MemberFailure>, MemberFailure> {
        let (mut tries, mut waits) = (TRIES, WAITS);
        let response = loop {
            let request = call
                .request()
                .header(header::USER_AGENT, concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
                .extension(StreamId(self.place))
                .body(call.review.cloned().map_or_else(Body::empty, Body::from))
                .map_err(|error| MemberFailure::Said(error.to_string()))?;
            match self.in_time(client.send(request)).await? {
                Ok(response) => {
                    let pause = retry_after(&response).filter(|pause| *pause < self.deadline.left());
                    let Some(pause) = pause.filter(|_| waits > 0) else { break response };
                    waits -= 1;
                    self.in_time(tokio::time::sleep(pause)).await?;
                }
                Err(error) if tries > 1 && pool::was_not_seen(&error) => tries -= 1,
                Err(error) => return Err(self.client_failure(&client::failed(error))),
            }
        };
        for warning in response.headers().get_all(header::WARNING) {
            if let Some(text) = warning.to_str().ok().and_then(warning_text) {
                self.warn(text.into());
            }
        }
        if response.status().is_success() {
            return Ok(Ok(response));
        }
        let (head, body) = response.into_parts();
        let body = self.whole(&head.headers, body, MAX_ERROR).await?;
        Ok(Err(MemberFailure::of(&Reply::new(&head, body), &self.name, &self.through.hub.dialect, call.path)))
    }

    /// Adds a warning, which is printed once.
    pub(super) fn warn(&self, text: ServerText) {
        // The receiver may be gone.
        let _ = self.warnings.send((self.name.clone(), text));
    }

    /// The same member with another stream position.
    pub(super) fn at(&self, place: usize) -> Self {
        Self { place, ..self.clone() }
    }

    /// Another member, reached through the same login.
    pub(super) fn another(&self, name: ClusterId, through: &ClusterContext, place: usize) -> Self {
        let discovery = Store::key(through, &name).into();
        Self { name, discovery, place, ..self.clone() }
    }

    /// The namespace of a request, by the rules of kubectl.
    pub(super) fn namespace<'a>(&'a self, given: Option<&'a str>) -> &'a str {
        given.unwrap_or(&self.namespace)
    }

    /// Reads the whole response.
    pub(super) async fn get(&self, path: &str, accept: &str) -> Result<Bytes, MemberFailure> {
        let compressed = self.through.cluster.disable_compression != Some(true);
        let call = Call { root: self.root(), path, accept, review: None, compressed };
        self.body(self.call(&call).await?, MAX_ANSWER).await
    }

    /// Applies the member's timeout.
    pub(super) async fn in_time<T>(&self, what: impl Future<Output = T>) -> Result<T, MemberFailure> {
        self.deadline.limit(what).await
    }

    async fn body(&self, response: Response<Body>, most: usize) -> Result<Bytes, MemberFailure> {
        let (head, body) = response.into_parts();
        self.whole(&head.headers, body, most).await
    }

    async fn whole(&self, headers: &HeaderMap, mut body: Body, most: usize) -> Result<Bytes, MemberFailure> {
        let mut whole = WholeBody::new(headers, most)?;
        while let Some(data) = self.in_time(next_data(&mut body)).await?? {
            whole.push(&data)?;
        }
        whole.finish()
    }
}

/// How long the server asks to wait before the request is sent again (`checkWait` of client-go).
fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let status = response.status();
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The next data of a response; `None` at its end.
pub(super) async fn next_data(body: &mut Body) -> Result<Option<Bytes>, MemberFailure> {
    let frame = body.frame().await.transpose();
    let frame = frame.map_err(|error| MemberFailure::BrokenOff(error.to_string().into()))?;
    Ok(frame.map(|frame| frame.into_data().unwrap_or_default()))
}

/// A request to a member.
struct Call<'a> {
    /// The path of the member below its server.
    root: String,
    path: &'a str,
    accept: &'a str,
    /// The body of a review of the caller, which is not a write.
    review: Option<&'a Bytes>,
    /// Whether the answer may be compressed, because it is read as a whole.
    compressed: bool,
}

impl Call<'_> {
    fn request(&self) -> request::Builder {
        let method = if self.review.is_some() { Method::POST } else { Method::GET };
        let request = Request::builder().method(method).uri(format!("{}{}", self.root, self.path));
        let request = request.header(header::ACCEPT, self.accept);
        let request = match self.compressed {
            true => request.header(header::ACCEPT_ENCODING, ENCODING),
            false => request,
        };
        match self.review {
            Some(_) => request.header(header::CONTENT_TYPE, "application/json"),
            None => request,
        }
    }
}

impl ForCluster for Member {
    fn cluster(&self) -> &ClusterId {
        &self.name
    }
}

/// The text of a header `Warning: 299 - "text"`.
fn warning_text(value: &str) -> Option<String> {
    let quoted = value.strip_prefix("299 ")?.split_once(' ')?.1.strip_prefix('"')?;
    let mut text = String::new();
    let mut rest = quoted.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => return Some(text),
            '\\' => text.extend(rest.next()),
            c => text.push(c),
        }
    }
    None
}

/// The query of a request: encoded names and values.
#[derive(Debug, Default)]
pub(super) struct Query(String);

impl Query {
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        self.0.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
        self
    }

    #[must_use]
    pub(super) fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

impl std::fmt::Display for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An object is at most 1.5 MiB in etcd. A chunk contains 500 objects, which are rarely that large.
const MAX_ANSWER: usize = 256 * 1024 * 1024;
const MAX_ERROR: usize = 1024 * 1024;
/// Enough attempts to get an open connection after a closed one.
const TRIES: usize = 4;
/// The number of times that client-go waits for `Retry-After`.
const WAITS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_text_is_read_from_the_quotes() {
        assert_eq!(warning_text(r#"299 - "a \"b\" c""#).as_deref(), Some("a \"b\" c"));
        for other in ["199 - \"x\"", "299 - x", "299 - \"x", ""] {
            assert_eq!(warning_text(other), None, "{other}");
        }
    }

    #[test]
    fn query_is_encoded() {
        let query =
            Query::default().with("labelSelector", "a=b,c in (d)").with_some("limit", None).with("x", "1");
        assert_eq!(query.to_string(), "?labelSelector=a%3Db%2Cc%20in%20%28d%29&x=1");
    }
}
