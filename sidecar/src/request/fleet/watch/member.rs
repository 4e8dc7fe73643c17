//! Follows one member for a merged watch. It lists and watches, and connects again from the last version after a failure:
//! a member that cannot be reached loses no event, and none of its objects is deleted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use kubectl_mc_api::ClusterName;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::base::random;
use crate::fleet::items::{self, Items};
use crate::fleet::renamed::Lines;
use crate::fleet::renamer::{Kind, Renamer, Shown};
use crate::fleet::shares::{First, Share};
use crate::members::inventory::Inventory;
use crate::request::fleet::ask::{Answer, Asker, STALL};
use crate::request::fleet::failures::Failure;
use crate::request::fleet::list::Question;
use crate::request::fleet::members::Member;

/// Where a member's watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// With the objects that exist.
    List,
    /// With the objects of this version: some of them were sent already.
    ListAt(u64),
    /// At the present, without them.
    Now,
    After(u64),
}

/// What a member's task reports.
#[derive(Debug)]
pub(super) enum Report {
    /// A line for the client, with the type of the object.
    Event {
        version: Option<u64>,
        line: Bytes,
        of: Option<(String, String)>,
    },
    Version(u64),
    /// The objects that exist were sent, or it begins without them.
    Synced,
    Reachable,
    Unreachable,
    /// The member's log does not reach back far enough, or it is another cluster now.
    Expired,
}

pub(super) struct Follow {
    pub(super) asker: Asker,
    pub(super) inventory: Arc<Inventory>,
    pub(super) member: Member,
    pub(super) question: Arc<Question>,
    pub(super) shown: Shown,
    pub(super) reports: mpsc::Sender<(ClusterName, Report)>,
    /// Accounts for the buffered part of an event.
    pub(super) memory: Share,
    /// Ends the watch if its unsent events must be dropped.
    pub(super) over: CancellationToken,
    /// Receives the result of the first attempt.
    pub(super) first: Option<oneshot::Sender<Result<(), Failure>>>,
}

/// Why an attempt ended.
enum End {
    /// The member ended the watch, as it does regularly.
    Over,
    Failed(Failure),
    Invalid(items::Error),
    /// The buffered part of an event must be dropped.
    Full,
    Expired,
    /// The client has disconnected.
    Gone,
}

impl From<items::Error> for End {
    fn from(error: items::Error) -> Self {
        Self::Invalid(error)
    }
}

impl Follow {
    /// Runs until the client is gone, or the member's log does not reach back far enough.
    pub(super) async fn run(mut self, mut start: Start) {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = tokio::time::Instant::now();
            let gone = self.member.cluster().map(|cluster| cluster.gone.clone()).unwrap_or_default();
            let over = self.memory.over().clone();
            // Cancel-safe: what is dropped was not sent, and is sent again after the last version.
            let end = tokio::select! {
                biased;
                () = gone.cancelled() => End::Expired,
                () = over.cancelled() => End::Full,
                end = self.attempt(&mut start) => end,
            };
            let lasted = begun.elapsed();
            let failure = match end {
                End::Gone => return,
                End::Expired => {
                    self.tell_first(Err(Failure::new(&self.member.name, StatusCode::GONE, "expired")));
                    let _ = self.report(Report::Expired).await;
                    return;
                }
                End::Over => None,
                End::Failed(failure) => Some(failure),
                End::Invalid(error) => Some(self.failure(&error.to_string())),
                End::Full => Some(self.failure("the events that are held of this member are too large")),
            };
            if lasted > LASTED {
                pause = FIRST_PAUSE;
            }
            if let Some(failure) = failure {
                let mut report = Report::Unreachable;
                // Without the type there is nothing to watch; when it comes, its objects are new.
                if failure.code == StatusCode::NOT_FOUND {
                    (start, report) = (Start::List, Report::Synced);
                }
                self.tell_first(Err(failure));
                if self.report(report).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = self.reports.closed() => return,
                () = sleep(pause.mul_f64(0.5 + random::fraction())) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            if self.memory.over().is_cancelled() {
                match self.memory.renewed() {
                    Ok(memory) => self.memory = memory,
                    Err(_) => continue,
                }
            }
            self.member = self.member.refreshed(&self.inventory);
        }
    }

    async fn attempt(&mut self, start: &mut Start) -> End {
        let ended = match start {
            Start::List | Start::ListAt(_) => self.list(start).await,
            Start::Now => self.version(start).await,
            Start::After(_) => Ok(()),
        };
        match ended {
            Ok(()) => self.watch(start).await.err().unwrap_or(End::Over),
            Err(end) => end,
        }
    }

    /// Sends the existing objects as ADDED events. If that fails halfway, the next attempt reads the same version: an
    /// object that was sent and then deleted gets a DELETED event.
    async fn list(&mut self, start: &mut Start) -> Result<(), End> {
        let query = match start {
            Start::ListAt(version) => format!("resourceVersion={version}&resourceVersionMatch=Exact"),
            _ => String::new(),
        };
        let query = format!("{query}{}", self.question.selectors);
        let answer = self.asker.get(&self.member, &self.question.path, query.trim_start_matches('&')).await;
        let mut answer = answer.map_err(|failure| match failure.code {
            StatusCode::GONE => End::Expired,
            _ => End::Failed(failure),
        })?;
        self.tell_first(Ok(()));
        let mut has_sent = false;
        let sent = self.items(&mut answer, start, &mut has_sent).await;
        // Without the version, nothing tells which of the sent objects have gone since.
        match sent {
            Err(End::Failed(_) | End::Invalid(_) | End::Full) if has_sent && *start == Start::List => {
                Err(End::Expired)
            }
            sent => sent,
        }
    }

    async fn items(
        &mut self,
        answer: &mut Answer,
        start: &mut Start,
        has_sent: &mut bool,
    ) -> Result<(), End> {
        let (mut list, mut renamer) = (Items::default(), self.renamer());
        let mut of = None;
        while let Some(data) = answer.next(&self.member, STALL).await.map_err(End::Failed)? {
            let mut ready = Vec::new();
            list.push(&data, |list, item| {
                if of.is_none() {
                    of = list.before_items().as_ref().and_then(type_of_items);
                }
                ready.push(added(&renamer.element(list, item)?, of.as_ref(), &renamer, &self.shown)?);
                Ok::<_, End>(())
            })?;
            self.hold(list.held() + ready.iter().map(Vec::len).sum::<usize>())?;
            for line in ready {
                if !std::mem::replace(has_sent, true)
                    && let Some(version) = list.before_items().as_ref().and_then(version_of)
                {
                    *start = Start::ListAt(version);
                }
                let line = self.counted(line)?;
                self.report(Report::Event { version: None, line, of: of.clone() }).await?;
            }
        }
        let rest = list.finish()?;
        let version = version_of(&rest).ok_or(items::Error::NotAList)?;
        *start = Start::After(version);
        let of = of.or_else(|| type_of_items(&rest));
        self.report(Report::Event { version: Some(version), line: Bytes::new(), of }).await?;
        self.report(Report::Synced).await
    }

    /// Finds the present version.
    async fn version(&mut self, start: &mut Start) -> Result<(), End> {
        let query = format!("limit=1{}", self.question.selectors);
        let answer = self.asker.get(&self.member, &self.question.path, &query).await.map_err(End::Failed)?;
        let whole = answer.whole(&self.asker, &self.member).await.map_err(End::Failed)?;
        let list: Value = serde_json::from_slice(&whole.text).map_err(|_| items::Error::NotAList)?;
        let version = version_of(&list).ok_or(items::Error::NotAList)?;
        *start = Start::After(version);
        self.report(Report::Version(version)).await
    }

    async fn watch(&mut self, start: &mut Start) -> Result<(), End> {
        let Start::After(mut version) = *start else { return Ok(()) };
        let query =
            format!("watch=1&allowWatchBookmarks=true&resourceVersion={version}{}", self.question.selectors);
        let answer = self.asker.get(&self.member, &self.question.path, &query).await;
        let mut answer = answer.map_err(|failure| match failure.code {
            StatusCode::GONE => End::Expired,
            _ => End::Failed(failure),
        })?;
        self.tell_first(Ok(()));
        self.report(Report::Reachable).await?;
        let (mut lines, mut renamer) = (Lines::default(), self.renamer());
        while let Some(data) = answer.next(&self.member, NO_STALL).await.map_err(End::Failed)? {
            let mut ready = Vec::new();
            self.hold(lines.held() + data.len())?;
            lines.push(&data, |line| {
                ready.push(renamer.event(line)?);
                Ok::<_, End>(())
            })?;
            self.hold(lines.held() + ready.iter().map(|event| event.line.len()).sum::<usize>())?;
            for event in ready {
                match event.kind {
                    Kind::Error(410) => return Err(End::Expired),
                    Kind::Error(_) => return Err(End::Failed(self.failure("the member ended its watch"))),
                    Kind::Bookmark => {
                        if let Some(now) = event.version {
                            version = now;
                            self.report(Report::Version(now)).await?;
                        }
                    }
                    Kind::Change => {
                        version = event.version.unwrap_or(version);
                        let (of, line) = (event.of, self.counted(event.line)?);
                        self.report(Report::Event { version: event.version, line, of }).await?;
                    }
                }
                *start = Start::After(version);
            }
        }
        Ok(())
    }

    fn renamer(&self) -> Renamer {
        Renamer::new(self.member.name.clone(), self.question.of, self.shown.clone())
    }

    fn hold(&self, bytes: usize) -> Result<(), End> {
        self.memory.resize(bytes + BOOKKEEPING, First::Largest).map_err(|_| End::Full)
    }

    fn counted(&self, line: Vec<u8>) -> Result<Bytes, End> {
        self.memory.count(line, &self.over).map_err(|_| End::Full)
    }

    async fn report(&self, report: Report) -> Result<(), End> {
        self.reports.send((self.member.name.clone(), report)).await.map_err(|_| End::Gone)
    }

    fn tell_first(&mut self, result: Result<(), Failure>) {
        if let Some(first) = self.first.take() {
            let _ = first.send(result);
        }
    }

    fn failure(&self, message: &str) -> Failure {
        Failure::new(&self.member.name, StatusCode::BAD_GATEWAY, message)
    }
}

fn version_of(list: &Value) -> Option<u64> {
    list.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

/// The type of the objects of a list, or of a Table itself.
fn type_of_items(list: &Value) -> Option<(String, String)> {
    let text = |key: &str| Some(list.get(key)?.as_str()?.to_owned());
    let (kind, version) = (text("kind")?, text("apiVersion")?);
    Some((kind.strip_suffix("List").unwrap_or(&kind).to_owned(), version))
}

/// The ADDED event of an existing object. Objects in a list have no `kind` and `apiVersion` of their own.
fn added(
    element: &[u8],
    of: Option<&(String, String)>,
    renamer: &Renamer,
    shown: &Shown,
) -> Result<Vec<u8>, items::Error> {
    let mut object: Value = serde_json::from_slice(element).map_err(|_| items::Error::NotAList)?;
    if renamer.is_table() {
        let definitions = shown.definitions();
        object = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": definitions, "rows": [object]});
    } else if let (Some((kind, version)), Value::Object(fields)) = (of, &mut object) {
        fields.entry("kind").or_insert_with(|| kind.as_str().into());
        fields.entry("apiVersion").or_insert_with(|| version.as_str().into());
    }
    let mut line = json!({"type": "ADDED", "object": object}).to_string().into_bytes();
    line.push(b'\n');
    Ok(line)
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// After this uptime the backoff is reset.
const LASTED: Duration = Duration::from_secs(60);
/// A watch may be idle for hours; TCP keepalive detects a dead connection.
const NO_STALL: Duration = Duration::from_secs(24 * 60 * 60);
/// A task, its channel and its buffers.
const BOOKKEEPING: usize = 8 * 1024;
