//! A list of all members: their items one member after another, as they arrive. All heads are awaited before the first
//! byte, so that one Warning can name what is missing; at most one object of a member is in memory.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Response, StatusCode};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::fleet::names;
use kubectl_mc_api::fleet::references::{Scope, Type};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use super::error::Error;
use super::failures::{Failure, Failures};
use super::members::Member;
use super::negotiated::is_strict;
use super::read::Read;
use super::stream::{self, Out};
use crate::fleet::renamer::{self, Shown};
use crate::fleet::vector::Vector;
use crate::head::query::Query;
use crate::head::request_info::MemberPath;
use crate::head::request_info::fleet::Resource;
use crate::head::request_info::fleet_query::escape_query;
use crate::outbound::body::{self, Body};
use crate::request::error::Error as RequestError;
use crate::request::record::Record;

mod part;

use part::{Ask, Piece};

/// The request to each member.
pub(super) struct Question {
    pub(super) path: MemberPath,
    /// The selectors, for every member.
    pub(super) selectors: String,
    pub(super) of: Type,
    pub(super) with_cluster: bool,
    /// Whether objects of the same name are one.
    pub(super) is_merged: bool,
}

impl Question {
    pub(super) fn new(path: &MemberPath, resource: &Resource, query: Query<'_>) -> Self {
        let scope = if resource.namespace.is_some() { Scope::Namespaced } else { Scope::Cluster };
        let mut selectors = String::new();
        for key in ["labelSelector", "fieldSelector"] {
            if let Some(value) = query.first(key) {
                selectors.push_str(&format!("&{key}={}", escape_query(&value)));
            }
        }
        if let Some(include) = query.first("includeObject").filter(|include| include != "None") {
            selectors.push_str(&format!("&includeObject={}", escape_query(&include)));
        }
        Self {
            path: path.clone(),
            selectors,
            of: Type::new(&resource.group, &resource.name, "", scope),
            with_cluster: resource.namespace.is_some(),
            is_merged: names::is_merged_resource(&resource.group, &resource.name),
        }
    }
}

/// The versions that a list asks for.
enum Version {
    /// The member's own default, or any.
    Query(&'static str),
    Vector(Vector, &'static str),
}

impl Version {
    fn parse(query: Query<'_>, members: &[Member]) -> Result<Self, Error> {
        if query.first("continue").is_some_and(|token| !token.is_empty()) {
            return Err(Error::Expired);
        }
        let version = query.first("resourceVersion").unwrap_or_default();
        let rule = match query.first("resourceVersionMatch").as_deref() {
            Some("Exact") => "&resourceVersionMatch=Exact",
            _ => "&resourceVersionMatch=NotOlderThan",
        };
        match &*version {
            "" => Ok(Self::Query("")),
            "0" => Ok(Self::Query("&resourceVersion=0")),
            token => {
                let vector = Vector::parse(token, members.iter().map(|member| member.name.clone()));
                Ok(Self::Vector(vector.ok_or(Error::Expired)?, rule))
            }
        }
    }

    fn of(&self, member: &ClusterName) -> String {
        match self {
            Self::Query(query) => (*query).to_owned(),
            Self::Vector(vector, rule) => match vector.get(member) {
                0 => String::new(),
                version => format!("&resourceVersion={version}{rule}"),
            },
        }
    }
}

/// A member's part.
struct Part {
    member: ClusterName,
    head: Option<oneshot::Receiver<Result<(), Failure>>>,
    pieces: mpsc::Receiver<Piece>,
}

/// Answers a list.
pub(super) async fn respond(read: Read) -> Result<Response<Body>, RequestError> {
    let Read { route, query, headers, members, asker, record } = read;
    let query = Query::new(query.as_deref());
    let question = Arc::new(Question::new(&route.path, &route.resource, query));
    let version = Version::parse(query, &members.all)?;
    let shown = Shown::new(question.with_cluster);
    let mut tasks = JoinSet::new();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut parts: Vec<Part> = Vec::with_capacity(members.all.len());
    for member in &members.all {
        let (head, answered) = oneshot::channel();
        let (pieces, received) = mpsc::channel(1);
        let version = version.of(&member.name);
        let ask = Ask::new(asker.clone(), member.clone(), question.clone(), version, shown.clone());
        tasks.spawn(ask.run(turns.clone(), head, pieces));
        parts.push(Part { member: member.name.clone(), head: Some(answered), pieces: received });
    }
    let failures = heads(&mut parts).await;
    let vector = Vector::of(members.names().cloned());
    let (failures, refused) = split(failures, members.all.len(), &route.resource)?;
    if is_strict(&headers) && !failures.is_empty() {
        return Err(Error::Incomplete(failures).into());
    }
    tell(&record, &failures);
    let mut response = Response::new(Body::Empty);
    answer_headers(response.headers_mut());
    failures.warn(response.headers_mut());
    parts.retain(|part| part.head.is_some() && !refused.contains(&part.member));
    let (out, body) = stream::channel();
    let merge = Merge { parts, vector, failures, is_strict: is_strict(&headers), shown, record, out };
    *response.body_mut() = body.run(async move {
        let _tasks = tasks;
        merge.run().await
    });
    Ok(response)
}

pub(super) fn answer_headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Records which members are missing.
pub(super) fn tell(record: &Record, failures: &Failures) {
    record.audit(|trail| trail.missing(failures.0.iter().map(|failure| &failure.member)));
}

/// Waits for the heads of all members. Parts that failed have none any more.
async fn heads(parts: &mut [Part]) -> Failures {
    let mut failures = Failures::default();
    for part in parts {
        let Some(head) = &mut part.head else { continue };
        match head.await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                part.head = None;
                failures.push(failure);
            }
            Err(_) => {
                part.head = None;
                failures.push(Failure::new(
                    &part.member,
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the request failed",
                ));
            }
        }
    }
    failures
}

/// Separates members that do not have the type, which is no failure.
pub(super) fn split(
    failures: Failures,
    members: usize,
    resource: &Resource,
) -> Result<(Failures, HashSet<ClusterName>), Error> {
    let all_failed = members > 0 && failures.0.len() == members;
    if failures.0.iter().any(|failure| failure.code == StatusCode::GONE) {
        return Err(Error::Expired);
    }
    let (without, failed): (Vec<_>, Vec<_>) =
        failures.0.into_iter().partition(|failure| failure.code == StatusCode::NOT_FOUND);
    let failures = Failures(failed);
    if all_failed && failures.is_empty() {
        return Err(Error::NotFound(format!("the resource {}", resource.name)));
    }
    if all_failed && failures.are_all(StatusCode::FORBIDDEN) {
        return Err(Error::Forbidden(failures));
    }
    if all_failed {
        return Err(Error::Incomplete(failures));
    }
    Ok((failures, without.into_iter().map(|failure| failure.member).collect()))
}

/// Writes the parts one after another.
struct Merge {
    parts: Vec<Part>,
    vector: Vector,
    failures: Failures,
    is_strict: bool,
    shown: Shown,
    record: Record,
    out: Out,
}

impl Merge {
    async fn run(mut self) -> Result<(), body::Error> {
        let (mut begun, mut rest, mut names) = (false, None, HashSet::new());
        let mut buffer = Vec::new();
        for mut part in std::mem::take(&mut self.parts) {
            let mut has_items = false;
            loop {
                match part.pieces.recv().await {
                    Some(Piece::Item(item, key)) => {
                        if let Some(key) = key.filter(|_| names.len() < MAX_NAMES)
                            && !names.insert(key)
                        {
                            continue;
                        }
                        buffer.extend_from_slice(match std::mem::replace(&mut begun, true) {
                            true => b",",
                            false => renamer::begin_of_list(self.shown.definitions().is_some()),
                        });
                        has_items = true;
                        if item.len() < CHUNK {
                            buffer.extend_from_slice(&item);
                        }
                        if buffer.len() + item.len() >= CHUNK {
                            self.out.send(Bytes::from(std::mem::take(&mut buffer))).await?;
                        }
                        // Not copied: its memory counts until it is sent.
                        if item.len() >= CHUNK {
                            self.out.send(item).await?;
                        }
                    }
                    Some(Piece::End(Ok(list))) => {
                        let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                        self.vector
                            .set(&part.member, version.and_then(|v| v.parse().ok()).unwrap_or_default());
                        rest.get_or_insert(list);
                        break;
                    }
                    Some(Piece::End(Err((failure, is_broken)))) => {
                        if self.is_strict || (is_broken && has_items) {
                            return Err(body::Error::Broken(format!(
                                "{}: {}",
                                failure.member, failure.message
                            )));
                        }
                        self.failures.push(failure);
                        break;
                    }
                    // The task panicked.
                    None => return Err(body::Error::Broken(format!("{}: the request failed", part.member))),
                }
            }
        }
        tell(&self.record, &self.failures);
        let rest = rest.unwrap_or_else(|| json!({"kind": "List", "apiVersion": "v1"}));
        let is_table = rest.get("rows").is_some();
        let mut rest = json!({"kind": rest["kind"], "apiVersion": rest["apiVersion"]});
        let mut metadata = json!({"resourceVersion": self.vector.token()});
        if !self.failures.is_empty() {
            metadata["clusterErrors"] = self.failures.to_json();
        }
        rest["metadata"] = metadata;
        if let Some(definitions) = self.shown.definitions() {
            rest["columnDefinitions"] = definitions;
        }
        if !begun {
            buffer.extend_from_slice(renamer::begin_of_list(is_table));
        }
        buffer.extend_from_slice(&renamer::end_of_list(rest));
        self.out.send(Bytes::from(buffer)).await
    }
}

/// Maximum number of concurrent requests to members that have not sent a response header yet.
const AT_ONCE: usize = 32;
/// Items that are sent together.
const CHUNK: usize = 32 * 1024;
/// Maximum number of definitions that are merged by name. Further ones are listed once for each member.
const MAX_NAMES: usize = 20_000;
