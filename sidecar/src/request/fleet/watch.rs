//! A watch of all members: one upstream for each, merged by their arrival. Its bookmarks carry the versions of all
//! members, so that a client can resume the watch without a gap. A member that cannot be reached is named in bookmarks;
//! its objects stay.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Response, StatusCode};
use kubectl_mc_api::ClusterName;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout, timeout_at};

use super::ask::Asker;
use super::error::Error;
use super::failures::{Failure, Failures};
use super::list::{Question, answer_headers, split, tell};
use super::members::{Member, Members};
use super::negotiated::is_strict;
use super::read::Read;
use super::stream::{self, Out};
use crate::base::random;
use crate::fleet::renamer::Shown;
use crate::fleet::shares::{First, Share, Shared};
use crate::fleet::vector::Vector;
use crate::head::query::Query;
use crate::outbound::body::{self, Body};
use crate::request::error::Error as RequestError;

mod member;
mod progress;

use member::{Follow, Report, Start};
use progress::Progress;

/// The options of the watch that the client requested.
struct Options {
    bookmarks: bool,
    until: Instant,
}

/// Answers a watch.
pub(super) async fn respond(read: Read, watches: &Arc<Shared>) -> Result<Response<Body>, RequestError> {
    let Read { route, query, headers, members, asker, record } = read;
    let query = Query::new(query.as_deref());
    let question = Arc::new(Question::new(&route.path, &route.resource, query));
    let (vector, start) = begin(query, &members)?;
    let place = watches.hold(asker.caller, members.all.len().max(1), First::Newest);
    let place = place.map_err(|_| Error::TooMany)?;
    let seconds = query.first("timeoutSeconds").and_then(|text| text.parse().ok()).filter(|n| *n > 0);
    let lasts = seconds.map_or_else(default_timeout, |n| Duration::from_secs(n).min(LONGEST));
    let bookmarks = query.is_set("allowWatchBookmarks");
    let (is_strict, marks_end) = (is_strict(&headers), bookmarks && query.is_set("sendInitialEvents"));
    let options = Options { bookmarks, until: Instant::now() + lasts };
    let shown = Shown::new(question.with_cluster);
    let (reports, received) = mpsc::channel(QUEUE);
    let mut merge = Merge {
        members,
        vector,
        place,
        asker,
        question,
        shown,
        options,
        reports,
        tasks: JoinSet::new(),
        progress: Progress::new(is_strict, marks_end),
    };
    let (mut firsts, patience) = (Vec::new(), Instant::now() + FIRST_TIMEOUT);
    for member in merge.members.all.clone() {
        let start = match start {
            Some(start) => start,
            None => match merge.vector.get(&member.name) {
                0 => Start::List,
                version => Start::After(version),
            },
        };
        let name = member.name.clone();
        firsts.push(first(name, merge.follow(member, start)?, patience, is_strict));
    }
    let mut failures = Failures::default();
    join_all(firsts).await.into_iter().flatten().for_each(|failure| failures.push(failure));
    let (failures, _) = split(failures, merge.members.all.len(), &route.resource)?;
    if is_strict && !failures.is_empty() {
        return Err(Error::Incomplete(failures).into());
    }
    tell(&record, &failures);
    let (out, body) = stream::channel();
    let over = merge.place.over().clone();
    let mut response = Response::new(body.run(async move {
        // Cancel-safe: what is dropped ends the members' watches, whether the client reads or not.
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            ended = merge.run(received, &out) => return ended,
        }
        let told = timeout(AFTER_BURST, out.send(Bytes::from_static(TOO_MANY))).await;
        told.unwrap_or_else(|_| {
            record.hold().cutoff().cut();
            Ok(())
        })
    }));
    answer_headers(response.headers_mut());
    failures.warn(response.headers_mut());
    Ok(response)
}

/// Why a member's watch did not begin. A slow member joins later, unless the client accepts no incomplete answer.
async fn first(
    member: ClusterName,
    told: oneshot::Receiver<Result<(), Failure>>,
    patience: Instant,
    is_strict: bool,
) -> Option<Failure> {
    let failed = |code, why| Some(Failure::new(&member, code, why));
    match timeout_at(patience, told).await {
        Ok(Ok(began)) => began.err(),
        Ok(Err(_)) => failed(StatusCode::INTERNAL_SERVER_ERROR, "the request failed"),
        Err(_) if is_strict => failed(StatusCode::GATEWAY_TIMEOUT, "no answer yet"),
        Err(_) => None,
    }
}

/// Where each member's watch begins: at the versions of a token, or all alike.
fn begin(query: Query<'_>, members: &Members) -> Result<(Vector, Option<Start>), Error> {
    let names = || members.names().cloned();
    let version = query.first("resourceVersion").unwrap_or_default();
    let initial = query.boolean("sendInitialEvents");
    match (&*version, initial) {
        ("" | "0", Some(false)) => Ok((Vector::of(names()), Some(Start::Now))),
        ("" | "0", _) => Ok((Vector::of(names()), Some(Start::List))),
        (token, initial) => {
            let vector = Vector::parse(token, names()).ok_or(Error::Expired)?;
            match initial {
                // The objects of now are not older than any version.
                Some(true) => Ok((Vector::of(names()), Some(Start::List))),
                _ => Ok((vector, None)),
            }
        }
    }
}

/// Between half an hour and an hour, as a kube-apiserver (apiserver: `MinRequestTimeout`).
fn default_timeout() -> Duration {
    Duration::from_secs(30 * 60).mul_f64(1.0 + random::fraction())
}

/// Merges the members' events.
struct Merge {
    members: Members,
    vector: Vector,
    place: Share,
    asker: Asker,
    question: Arc<Question>,
    shown: Shown,
    options: Options,
    reports: mpsc::Sender<(ClusterName, Report)>,
    tasks: JoinSet<()>,
    progress: Progress,
}

/// How a watch ends.
enum End {
    Time,
    /// The client must list again.
    Expired,
}

impl Merge {
    /// Starts to follow a member.
    fn follow(
        &mut self,
        member: Member,
        start: Start,
    ) -> Result<oneshot::Receiver<Result<(), Failure>>, Error> {
        let (first, told) = oneshot::channel();
        let memory =
            self.asker.memory.hold(self.asker.caller, 0, First::Largest).map_err(|_| Error::TooMany)?;
        if start == Start::List {
            self.progress.begins(&member.name);
        }
        let follow = Follow {
            asker: self.asker.clone(),
            inventory: self.asker.inventory.clone(),
            member,
            question: self.question.clone(),
            shown: self.shown.clone(),
            reports: self.reports.clone(),
            memory,
            over: self.place.over().clone(),
            first: Some(first),
        };
        self.tasks.spawn(follow.run(start));
        Ok(told)
    }

    async fn run(
        mut self,
        mut received: mpsc::Receiver<(ClusterName, Report)>,
        out: &Out,
    ) -> Result<(), body::Error> {
        let mut mark = Instant::now() + BOOKMARK_INTERVAL;
        let mut recheck = interval_at(Instant::now() + RECHECK_INTERVAL, RECHECK_INTERVAL);
        recheck.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = loop {
            // All of these are cancel-safe.
            tokio::select! {
                biased;
                () = sleep_until(self.options.until) => break End::Time,
                () = sleep_until(mark) => {
                    out.send(self.bookmark(false)).await?;
                    mark = Instant::now() + BOOKMARK_INTERVAL;
                }
                Some((member, report)) = received.recv() => match self.take(&member, report, out).await? {
                    Taken::Expired => break End::Expired,
                    Taken::Event => mark = mark.min(Instant::now() + AFTER_BURST),
                    Taken::Nothing => {}
                },
                _ = recheck.tick() => if !Box::pin(self.keeps_members()).await {
                    break End::Expired;
                },
            }
        };
        let last = match end {
            End::Time => self.bookmark(false),
            End::Expired => Bytes::from_static(EXPIRED),
        };
        out.send(last).await
    }

    /// Takes a report, and passes its event on.
    async fn take(&mut self, member: &ClusterName, report: Report, out: &Out) -> Result<Taken, body::Error> {
        let mut taken = Taken::Nothing;
        match report {
            Report::Event { version, line, of } => {
                if let Some(kind) = of {
                    self.progress.is_of(member, kind);
                }
                if !line.is_empty() {
                    out.send(line).await?;
                    taken = Taken::Event;
                }
                if let Some(version) = version {
                    self.vector.set(member, version);
                }
            }
            Report::Version(version) => self.vector.set(member, version),
            Report::Reachable => self.progress.reachable(member),
            Report::Synced => self.progress.synced(member),
            Report::Unreachable => self.progress.unreachable(member),
            Report::Expired => return Ok(Taken::Expired),
        }
        if self.progress.reaches_end() {
            out.send(self.bookmark(true)).await?;
        }
        Ok(taken)
    }

    /// Whether the caller still has every member of the watch. New members join it.
    async fn keeps_members(&mut self) -> bool {
        // If the host does not answer, its previous decisions stay; the request's revalidation ends the watch if that
        // lasts.
        let Ok(now) = self.members.now().await else { return true };
        let (names, before) = (Members::set(&now), Members::set(&self.members.all));
        if before.iter().any(|member| !names.contains(member)) {
            return false;
        }
        let new: Vec<_> = now.iter().filter(|member| !before.contains(&member.name)).cloned().collect();
        self.members.all = now;
        for member in new {
            self.vector.0.insert(member.name.clone(), 0);
            if self.place.resize(self.members.all.len(), First::Newest).is_err()
                || self.follow(member, Start::List).is_err()
            {
                return false;
            }
        }
        true
    }

    /// The versions of all members; empty if the client wants none, or the type is not known yet.
    fn bookmark(&self, is_end: bool) -> Bytes {
        let is_wanted = self.options.bookmarks && !self.progress.is_before_end();
        let Some((kind, version)) = self.progress.kind().filter(|_| is_wanted) else { return Bytes::new() };
        let mut annotations = serde_json::Map::new();
        if is_end {
            annotations.insert(END_OF_LIST.to_owned(), "true".into());
        }
        let unreachable = self.progress.unreachable_names();
        if !unreachable.is_empty() {
            annotations.insert(UNREACHABLE.to_owned(), unreachable.into());
        }
        let metadata = json!({"resourceVersion": self.vector.token(), "creationTimestamp": null, "annotations": annotations});
        let mut object = json!({"kind": kind, "apiVersion": version, "metadata": metadata});
        if kind == "Table" {
            object["columnDefinitions"] = serde_json::Value::Null;
            object["rows"] = json!([]);
        }
        format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into()
    }
}

/// What became of a report.
enum Taken {
    Nothing,
    Event,
    Expired,
}

const END_OF_LIST: &str = "k8s.io/initial-events-end";
const UNREACHABLE: &str = "fleet.kubectl-mc.dev/unreachable";
const EXPIRED: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"The resourceVersion for the provided watch is too old.","reason":"Expired","code":410}}
"#;
const TOO_MANY: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too many watches of members are open, and this caller holds most","reason":"TooManyRequests","code":429}}
"#;
/// Reports that wait for the client, besides one of each member.
const QUEUE: usize = 4;
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(15);
const AFTER_BURST: Duration = Duration::from_secs(1);
/// The same interval as the revalidation of the watch itself.
const RECHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Longest wait for the first answers, before the head of the watch.
const FIRST_TIMEOUT: Duration = Duration::from_secs(3);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
