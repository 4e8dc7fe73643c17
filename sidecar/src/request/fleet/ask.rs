//! Asks one member for its part of a merged read, as the caller and within the member's limits. A read that fails on the
//! way is repeated within the member's time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, Limited};
use kubectl_mc_api::ClusterName;
use tokio::time::{sleep, timeout};

use super::failures::Failure;
use super::members::Member;
use crate::base::random;
use crate::fleet::bodies;
use crate::fleet::items::{self, MAX_OBJECT};
use crate::fleet::shares::{First, Share, Shared};
use crate::head::request_info::MemberPath;
use crate::identity::Identity;
use crate::identity::impersonation::member::Rules;
use crate::limits::in_flight::{Caller, Permit};
use crate::members::inventory::Inventory;
use crate::outbound::body::Body;
use crate::outbound::upstream::Error as Upstream;
use crate::request::error::Error as RequestError;
use crate::request::proxy::{self, Draft};
use crate::request::record::Record;

/// Asks members for one caller.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) inventory: Arc<Inventory>,
    pub(super) rules: Arc<Rules>,
    pub(super) identity: Arc<Identity>,
    pub(super) caller: Caller,
    pub(super) headers: HeaderMap,
    pub(super) version: Version,
    pub(super) record: Record,
    /// Accounts for the buffered objects of the members.
    pub(super) memory: Arc<Shared>,
    /// The deadline of the whole request; `None` for a watch.
    pub(super) due: Option<Instant>,
    /// The seat in the limit of merged requests.
    pub(super) _permit: Option<Arc<Permit>>,
}

/// A member's answer. It keeps the seat at the member until its body is read.
pub(super) struct Answer {
    pub(super) response: Response<Body>,
    _permit: Permit,
}

/// A whole document of a member. Its memory counts until it is dropped.
pub(super) struct Whole {
    pub(super) text: Vec<u8>,
    _charged: Share,
}

impl Asker {
    /// The head of a member's answer to a GET. Anything but a success is a failure.
    pub(super) async fn get(
        &self,
        member: &Member,
        path: &MemberPath,
        query: &str,
    ) -> Result<Answer, Failure> {
        self.ask(member, Method::GET, path, query, None).await
    }

    /// The head of a member's answer to a read, or to a review, which changes nothing either.
    pub(super) async fn ask(
        &self,
        member: &Member,
        method: Method,
        path: &MemberPath,
        query: &str,
        body: Option<Bytes>,
    ) -> Result<Answer, Failure> {
        let until = Instant::now() + MEMBER_TIMEOUT;
        let mut pause = FIRST_PAUSE;
        loop {
            let head = self.head(method.clone(), path, query);
            let answered = self.once(member, path, head, body.clone(), until).await;
            let failure = match answered {
                Ok(answer) if answer.response.status().is_success() => return Ok(answer),
                Ok(answer) => self.refusal(member, answer).await,
                Err((failure, false)) => return Err(failure),
                Err((failure, true)) => failure,
            };
            let is_passing = matches!(failure.code.as_u16(), 429 | 500 | 502 | 503 | 504);
            if !is_passing || Instant::now() + pause >= until {
                return Err(failure);
            }
            sleep(pause.mul_f64(1.0 + random::fraction())).await;
            pause *= 4;
        }
    }

    /// One attempt. The flag of a failure is true if another attempt may succeed.
    async fn once(
        &self,
        member: &Member,
        path: &MemberPath,
        head: Parts,
        body: Option<Bytes>,
        until: Instant,
    ) -> Result<Answer, (Failure, bool)> {
        let name = &member.name;
        let cluster = member
            .cluster()
            .map_err(|why| (Failure::new(name, StatusCode::SERVICE_UNAVAILABLE, &**why), false))?;
        let of_error = |error: RequestError| {
            let is_passing = matches!(
                error,
                RequestError::Upstream(Upstream::Unreachable { .. } | Upstream::Stale { .. })
            );
            (failure_of(name, &error), is_passing)
        };
        let due = self.due.map_or(until, |due| due.min(until));
        // Others wait for this member, so its queue may take no more than its own time. A watch never waits there.
        let permit = cluster.admit(self.caller, self.due.map(|_| due)).await;
        let permit = permit.map_err(|error| of_error(error.into()))?;
        let draft = Draft::read(head, path, self.caller, self.identity.clone(), due, &self.rules);
        let draft = draft.with_document(body);
        let response = Box::pin(proxy::forward(&self.inventory, cluster, draft)).await.map_err(of_error);
        let code = response.as_ref().map_or_else(|(failure, _)| failure.code, Response::status);
        self.record.part_ended(&cluster.requests, code);
        Ok(Answer { response: response?, _permit: permit })
    }

    fn head(&self, method: Method, path: &MemberPath, query: &str) -> Parts {
        let mut head = Request::new(());
        *head.method_mut() = method;
        *head.version_mut() = self.version;
        let separator = if query.is_empty() { "" } else { "?" };
        let target = PathAndQuery::try_from(format!("{}{separator}{query}", path.as_str()));
        *head.uri_mut() = target.map(Into::into).unwrap_or_default();
        head.headers_mut().clone_from(&self.headers);
        head.into_parts().0
    }

    /// The message of a member's Status.
    async fn refusal(&self, member: &Member, answer: Answer) -> Failure {
        let code = answer.response.status();
        let body = Limited::new(answer.response.into_body(), MAX_STATUS).collect();
        let body = timeout(STALL, body).await.ok().and_then(Result::ok);
        let text = body.map(|body| body.to_bytes()).unwrap_or_default();
        let status: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
        let message = status.as_ref().and_then(|status| status.get("message")?.as_str());
        Failure::new(&member.name, code, message.or_else(|| code.canonical_reason()).unwrap_or("refused"))
    }
}

impl Answer {
    /// The answer for the client, as it is.
    pub(super) fn into_response(self) -> Response<Body> {
        let Self { response, _permit } = self;
        let (mut parts, body) = response.into_parts();
        crate::head::headers::clean_response(&mut parts.headers, false);
        Response::from_parts(parts, body)
    }

    /// Whether the body is JSON, the only form that was asked for.
    pub(super) fn is_json(&self) -> bool {
        let headers = self.response.headers();
        let content_type = headers.get(header::CONTENT_TYPE);
        content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
            && !headers.contains_key(header::CONTENT_ENCODING)
    }

    /// The next bytes of the body; `None` at its end.
    pub(super) async fn next(&mut self, member: &Member, stall: Duration) -> Result<Option<Bytes>, Failure> {
        let failed = |message: &str| Failure::new(&member.name, StatusCode::BAD_GATEWAY, message);
        loop {
            match timeout(stall, self.response.body_mut().frame()).await {
                Err(_) => return Err(failed("the answer made no progress")),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(failed(&format!("the answer broke off: {error}"))),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The whole body, within the bounds of an object. The memory of the parsed document counts towards the share of
    /// the caller.
    pub(super) async fn whole(mut self, asker: &Asker, member: &Member) -> Result<Whole, Failure> {
        let failed =
            |error: items::Error| Failure::new(&member.name, StatusCode::BAD_GATEWAY, error.to_string());
        let charged = asker.memory.hold(asker.caller, 0, First::Largest);
        let charged = charged.map_err(|_| failed(items::Error::NoMemory))?;
        let mut text = Vec::new();
        while let Some(data) = self.next(member, STALL).await? {
            if text.len() + data.len() > MAX_OBJECT {
                return Err(failed(items::Error::TooLarge));
            }
            text.extend_from_slice(&data);
            charged.resize(text.len(), First::Largest).map_err(|_| failed(items::Error::NoMemory))?;
        }
        if !bodies::values_are_at_most(bodies::MAX_VALUES, &text) {
            return Err(failed(items::Error::TooLarge));
        }
        let weight = bodies::weight(&text);
        charged.resize(weight, First::Largest).map_err(|_| failed(items::Error::NoMemory))?;
        Ok(Whole { text, _charged: charged })
    }
}

/// The failure of a member whose request could not be sent, or was not answered.
fn failure_of(member: &ClusterName, error: &RequestError) -> Failure {
    let code = match error {
        RequestError::Limits(_) => StatusCode::TOO_MANY_REQUESTS,
        RequestError::Impersonation(_) => StatusCode::FORBIDDEN,
        _ => StatusCode::BAD_GATEWAY,
    };
    Failure::new(member, code, error.to_string())
}

/// Time for the head of a member's answer, with repeats. Others wait for it, so it is shorter than a request's.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest pause between two pieces of an answer that others wait for.
pub(super) const STALL: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_STATUS: usize = 64 * 1024;
