//! `get --watch` on many clusters as one stream of whole lines. Each member is listed, then watched from there. A
//! watch that ends resumes from the last version, and one whose version is too old starts again.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use super::Ask;
use super::list::Source;
use super::resolve::Wanted;
use super::table::ACCEPT;
use crate::multi::direct::failure::{MemberFailure, Status};
use crate::multi::direct::server_table::{Column, Shown, Table, TableLines, parse};
use crate::multi::direct::{Merge, Task};
use crate::multi::ordered_output::{self, Sink};
use crate::tabwriter::TabWriter;

/// What the watch of one member tells.
enum Told {
    /// All objects that there are.
    Listed(TableLines),
    Changed(TableLines),
    /// What a person should know of the stream itself.
    Remark(String),
    Ended(MemberFailure),
}

/// Watches until standard output is closed, or every member has failed. Failures by place.
pub(super) async fn run(
    wanted: Vec<Wanted>,
    source: &Source,
    shown: &Shown,
    task: &Task<'_>,
) -> Vec<(usize, MemberFailure)> {
    let mut screen = Screen::new(task, shown, &wanted);
    let watch = |wanted: Wanted, sender: Sender<Told>| {
        let (source, shown) = (source.clone(), shown.clone());
        async move {
            let ended = match wanted.ask().await {
                Ok(Some(ask)) => Watch::new(source, shown, ask, sender.clone()).follow().await,
                // The word means nothing there that could be watched.
                Ok(None) => Ok(()),
                Err(failure) => Err(failure),
            };
            if let Err(failure) = ended {
                // The receiver may be gone.
                let _ = sender.send(Told::Ended(failure)).await;
            }
        }
    };
    if ordered_output::run_unordered(wanted, watch, &mut screen).await.is_some() {
        let _ = screen.show();
    }
    screen.failures
}

/// The watch of one member.
struct Watch {
    source: Source,
    shown: Shown,
    ask: Ask,
    sender: Sender<Told>,
    columns: Vec<Column>,
    /// The version of each object that was shown, so that a list after a gap tells only what is new.
    versions: HashMap<String, String>,
}

/// Why one request of a watch came to its end.
enum Gap {
    /// The server ends every watch after some minutes.
    Ended,
    Expired,
    Failed(MemberFailure),
}

impl Watch {
    fn new(source: Source, shown: Shown, ask: Ask, sender: Sender<Told>) -> Self {
        Self { source, shown, ask, sender, columns: Vec::new(), versions: HashMap::new() }
    }

    async fn follow(mut self) -> Result<(), MemberFailure> {
        let mut version = self.list(true).await?;
        let mut pause = Pause::default();
        while !self.sender.is_closed() {
            let began = version.clone();
            match self.watch(&mut version).await {
                Gap::Ended => {}
                Gap::Expired => {
                    self.remark("the watch restarted; deletions in between are not shown").await;
                    version = self.list_again(&mut pause).await?;
                }
                Gap::Failed(failure) if failure.is_passing() => {
                    self.remark(&format!("lost: {failure}; trying again")).await;
                }
                Gap::Failed(failure) => return Err(failure),
            }
            if version == began { pause.wait().await } else { pause = Pause::default() }
        }
        Ok(())
    }

    /// Shows all there is, and gives the version to watch from.
    async fn list(&mut self, first: bool) -> Result<String, MemberFailure> {
        let path = self.source.path(&self.ask.resource);
        let mut all = TableLines::default();
        let mut seen = HashMap::new();
        let mut next = String::new();
        loop {
            let token = Some(next.as_str()).filter(|next| !next.is_empty());
            let query = self.query().with("limit", CHUNK).with_some("continue", token);
            let body = self.ask.member.get(&format!("{path}{query}"), ACCEPT).await?;
            let mut table = Table::parse(&body)?;
            if table.has_columns() {
                self.columns = table.columns().to_vec();
            }
            let version = std::mem::take(&mut table.metadata.resource_version);
            next = std::mem::take(&mut table.metadata.next);
            let lines = table.lines(&self.columns, &self.shown);
            all.header = lines.header;
            for (row, object) in lines.rows.into_iter().zip(lines.objects) {
                if self.versions.get(&object.name) != Some(&object.version) {
                    all.rows.push(row);
                }
                seen.insert(object.name, object.version);
            }
            if next.is_empty() {
                if let Some(name) = self.name().filter(|_| first && seen.is_empty()) {
                    let kind = self.ask.resource.qualified();
                    return Err(MemberFailure::not_found(&kind, name));
                }
                self.versions = seen;
                self.tell(if first { Told::Listed(all) } else { Told::Changed(all) }).await;
                return Ok(version);
            }
        }
    }

    async fn list_again(&mut self, pause: &mut Pause) -> Result<String, MemberFailure> {
        loop {
            match self.list(false).await {
                Err(failure) if failure.is_passing() => pause.wait().await,
                listed => return listed,
            }
        }
    }

    /// One request, until it ends. The version moves on with what comes.
    async fn watch(&mut self, version: &mut String) -> Gap {
        let path = self.source.path(&self.ask.resource);
        let query = self.query().with("watch", "true").with("allowWatchBookmarks", "true");
        let query = query.with("resourceVersion", version);
        let mut body = match self.ask.member.open(&format!("{path}{query}"), ACCEPT).await {
            Ok(response) => response.into_body(),
            Err(failure) if failure.is_expired() => return Gap::Expired,
            Err(failure) => return Gap::Failed(failure),
        };
        let mut pending: Vec<u8> = Vec::new();
        loop {
            let data = match body.frame().await {
                None => return Gap::Ended,
                Some(Err(error)) => return Gap::Failed(MemberFailure::BrokenOff(error.to_string().into())),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            pending.extend_from_slice(&data);
            let Some(end) = pending.iter().rposition(|byte| *byte == b'\n') else {
                if pending.len() > MAX_EVENT {
                    return Gap::Failed(MemberFailure::Unreadable("an event without end".into()));
                }
                continue;
            };
            let rest = pending.split_off(end + 1);
            let events = std::mem::replace(&mut pending, rest);
            for event in events.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
                if let Err(gap) = self.event(event, version).await {
                    return gap;
                }
            }
        }
    }

    async fn event(&mut self, event: &[u8], version: &mut String) -> Result<(), Gap> {
        let Event { kind, object } = parse(event).map_err(Gap::Failed)?;
        let object = object.get().as_bytes();
        if kind == "ERROR" {
            let failure = MemberFailure::of_status(parse::<Status>(object).map_err(Gap::Failed)?);
            return Err(if failure.is_expired() { Gap::Expired } else { Gap::Failed(failure) });
        }
        let mut table = Table::parse(object).map_err(Gap::Failed)?;
        if table.has_columns() {
            self.columns = table.columns().to_vec();
        }
        let of_table = std::mem::take(&mut table.metadata.resource_version);
        let mut lines = table.lines(&self.columns, &self.shown);
        for object in std::mem::take(&mut lines.objects) {
            if !object.version.is_empty() {
                version.clone_from(&object.version);
            }
            match kind {
                "BOOKMARK" => {}
                "DELETED" => drop(self.versions.remove(&object.name)),
                _ => drop(self.versions.insert(object.name, object.version)),
            }
        }
        if !of_table.is_empty() {
            *version = of_table;
        }
        if kind != "BOOKMARK" {
            self.tell(Told::Changed(lines)).await;
        }
        Ok(())
    }

    fn query(&self) -> crate::multi::direct::member::Query {
        match self.name() {
            Some(name) => self.source.query().with("fieldSelector", &format!("metadata.name={name}")),
            None => self.source.query(),
        }
    }

    /// The one object that is watched.
    fn name(&self) -> Option<&str> {
        Some(self.ask.names.as_ref()?.first()?.as_str())
    }

    async fn remark(&self, remark: &str) {
        self.tell(Told::Remark(remark.to_owned())).await;
    }

    async fn tell(&self, told: Told) {
        // Without a receiver the watch ends.
        let _ = self.sender.send(told).await;
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Longer after each attempt that came to nothing.
#[derive(Default)]
struct Pause(u32);

impl Pause {
    async fn wait(&mut self) {
        let time = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.0)).min(LONGEST_PAUSE);
        self.0 += 1;
        tokio::time::sleep(time).await;
    }
}

/// One stream of lines. The lists of all members come first and together, as far as they are quick.
struct Screen<'a> {
    task: &'a Task<'a>,
    no_headers: bool,
    /// The places and names of the members.
    members: Vec<(usize, String)>,
    failures: Vec<(usize, MemberFailure)>,
    /// What is held back until all have listed: by place.
    lists: Vec<(usize, TableLines)>,
    unlisted: usize,
    due: Option<Instant>,
    header: String,
    writer: TabWriter,
}

impl<'a> Screen<'a> {
    fn new(task: &'a Task<'_>, shown: &Shown, wanted: &[Wanted]) -> Self {
        Self {
            task,
            no_headers: shown.columns.no_headers,
            members: wanted.iter().map(|wanted| (wanted.place, wanted.member.name.to_string())).collect(),
            failures: Vec::new(),
            lists: Vec::new(),
            unlisted: wanted.len(),
            due: None,
            header: String::new(),
            writer: TabWriter::default(),
        }
    }

    fn listed(&mut self, place: usize, lines: TableLines) -> ControlFlow<()> {
        self.unlisted = self.unlisted.saturating_sub(1);
        self.due.get_or_insert_with(|| Instant::now() + HELD);
        self.lists.push((place, lines));
        if self.unlisted == 0 { self.show() } else { ControlFlow::Continue(()) }
    }

    fn changed(&mut self, place: usize, lines: TableLines) -> ControlFlow<()> {
        if self.lists.iter().any(|(other, _)| *other == place) {
            self.show()?;
        }
        self.lines(place, lines);
        self.flush()
    }

    fn remark(&mut self, place: usize, remark: &str) -> ControlFlow<()> {
        self.show()?;
        let name = &self.members[place].1;
        self.task.printer.note_line(&format!("- {name}: {remark}"));
        ControlFlow::Continue(())
    }

    fn lines(&mut self, place: usize, lines: TableLines) {
        if lines.rows.is_empty() {
            return;
        }
        let name = match self.task.merge {
            Merge::Marked => self.members[place].1.as_str(),
            Merge::Plain => "",
        };
        let marked = |line: &str, first: &str| match self.task.merge {
            Merge::Marked => format!("{first}\t{line}"),
            Merge::Plain => line.to_owned(),
        };
        if self.header != lines.header && !self.no_headers {
            self.writer.line(&marked(&lines.header, "CLUSTER"));
        }
        self.header.clone_from(&lines.header);
        lines.rows.iter().for_each(|row| self.writer.line(&marked(row, name)));
    }

    fn flush(&mut self) -> ControlFlow<()> {
        let text = self.writer.flush();
        if text.is_empty() { ControlFlow::Continue(()) } else { self.task.printer.stream(text.as_bytes()) }
    }
}

impl Sink<Told> for Screen<'_> {
    fn take(&mut self, place: usize, told: Told) -> ControlFlow<()> {
        match told {
            Told::Listed(lines) => self.listed(place, lines),
            Told::Changed(lines) => self.changed(place, lines),
            Told::Remark(remark) => self.remark(place, &remark),
            Told::Ended(failure) => {
                self.failures.push((self.members[place].0, failure));
                self.listed(place, TableLines::default())
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Shows what is held back, in the order of the members.
    fn show(&mut self) -> ControlFlow<()> {
        self.due = None;
        let mut lists = std::mem::take(&mut self.lists);
        lists.sort_by_key(|(place, _)| *place);
        lists.into_iter().for_each(|(place, lines)| self.lines(place, lines));
        self.flush()
    }
}

const CHUNK: &str = "500";
/// What a person does not notice.
const HELD: Duration = Duration::from_millis(500);
/// An object is at most 1.5 MiB in etcd.
const MAX_EVENT: usize = 16 * 1024 * 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
