//! Implements `get --watch` on many clusters as one stream of whole lines. Each member is listed, then
//! watched from that version. A watch that ends resumes from the last version, and an expired one starts
//! again with a list. A cluster that is not ready at the start, or joins the choice later, is watched once it
//! is ready.

mod screen;

use std::collections::HashMap;

use tokio::sync::mpsc::Sender;

use self::screen::Screen;
use super::ask::{Ask, MemberResults};
use super::list::Source;
use super::plan::{GetPlan, Output};
use super::resolve::{LaterWord, Search, Wanted};
use super::table::ACCEPT;
use crate::multi::direct::lasting;
use crate::multi::direct::member::{Member, Members};
use crate::multi::direct::pages::Pages;
use crate::multi::direct::server_table::{Column, Shown, Table, TableLines};
use crate::multi::direct::task::{Ended, Task};
use crate::multi::direct::text::Text;
use crate::multi::direct::watch_request::{Gap, WatchRequest, parse_event};
use crate::multi::fault::Fault;
use crate::multi::ordered_output::Sink;
use crate::multi::pause::Pause;

/// A message from the watch of one member.
enum Told {
    /// All existing objects.
    Listed(TableLines),
    Changed(TableLines),
    /// A remark about the stream itself.
    Remark(String),
    /// The member has become ready.
    Begun,
    Ended(Fault),
}

/// Watches until standard output is closed, or every member that was ready has failed.
pub(super) async fn run(
    plan: &GetPlan,
    task: &Task<'_>,
    members: &mut Members,
    text: &mut dyn Text,
) -> Vec<Ended> {
    let Output::Table(columns) = &plan.output else { return Vec::new() };
    let shown = Shown { columns: columns.clone(), namespace: plan.source.all_namespaces, prefix: None };
    let source = plan.source.clone();

    let is_ready = |member: &&Member| task.not_ready.iter().all(|(name, _)| *name != member.name);
    let ready: Vec<Member> = members.all.iter().filter(is_ready).cloned().collect();
    let search = Search::begin(plan, task, &ready, false).await;
    let mut unknown = MemberResults::new(ready.len());
    let wanted = search.each(&mut unknown);
    let mut screen = Screen::new(task, text, &shown, wanted.len());
    let unknown =
        ready.iter().zip(unknown.0).filter_map(|(member, result)| Some((member.clone(), result.err()?)));
    let unknown: Vec<(Member, Fault)> = unknown.collect();
    unknown.iter().for_each(|(member, failure)| screen.failed(member, failure));

    let unknown: HashMap<_, _> = unknown.into_iter().map(|(member, why)| (member.name, why)).collect();
    let wanted: HashMap<_, _> =
        wanted.into_iter().map(|wanted| (wanted.member.name.clone(), wanted)).collect();
    let later = LaterWord::new(plan, task);
    let watch = move |member: Member, is_late: bool, sender: Sender<Told>| {
        let (source, shown, later) = (source.clone(), shown.clone(), later.clone());
        let (unknown, wanted) = (unknown.get(&member.name).cloned(), wanted.get(&member.name).cloned());
        async move {
            if is_late {
                let _ = sender.send(Told::Begun).await;
            }
            let result = match (unknown, wanted, later) {
                (Some(failure), _, _) => return Err(failure),
                (None, Some(wanted), _) => first(wanted, source, shown, &sender).await,
                (None, None, Some(later)) if is_late => {
                    later_on(&later, &member, source, shown, &sender).await
                }
                // The member has no such type.
                _ => Ok(()),
            };
            if let Err(failure) = &result {
                // The receiver may be gone.
                let _ = sender.send(Told::Ended(failure.clone())).await;
            }
            result
        }
    };
    let ended = lasting::run(task, members, watch, &mut screen).await;
    let _ = screen.show();
    ended
}

/// Watches a member that was ready at the start.
async fn first(wanted: Wanted, source: Source, shown: Shown, sender: &Sender<Told>) -> Result<(), Fault> {
    match wanted.ask().await? {
        Some(ask) => Watch::new(source, shown, ask, sender.clone()).follow().await,
        // The member has no such type to watch.
        None => Ok(()),
    }
}

/// Watches a member that has just become ready and may still fail.
async fn later_on(
    later: &LaterWord,
    member: &Member,
    source: Source,
    shown: Shown,
    sender: &Sender<Told>,
) -> Result<(), Fault> {
    let mut pause = Pause::default();
    let ask = loop {
        match later.ask(member).await {
            Err(failure) if failure.is_passing() && !sender.is_closed() => pause.wait().await,
            asked => break asked?,
        }
    };
    let Some(ask) = ask else { return Ok(()) };
    let mut watch = Watch::new(source, shown, ask, sender.clone());
    let version = watch.list_again(&mut pause).await?;
    watch.follow_from(version).await
}

/// The watch of one member.
struct Watch {
    source: Source,
    shown: Shown,
    ask: Ask,
    sender: Sender<Told>,
    columns: Vec<Column>,
    /// The version of each printed object, so that a list after a gap prints only changes.
    versions: HashMap<String, String>,
}

impl Watch {
    fn new(source: Source, shown: Shown, ask: Ask, sender: Sender<Told>) -> Self {
        Self { source, shown, ask, sender, columns: Vec::new(), versions: HashMap::new() }
    }

    async fn follow(mut self) -> Result<(), Fault> {
        let version = self.list(true).await?;
        self.follow_from(version).await
    }

    async fn follow_from(mut self, mut version: String) -> Result<(), Fault> {
        let mut pause = Pause::default();
        while !self.sender.is_closed() {
            let began = version.clone();
            match self.watch(&mut version).await {
                Ok(()) => {}
                Err(Gap::Expired) => {
                    self.remark("the watch restarted; deletions in between are not shown").await;
                    version = self.list_again(&mut pause).await?;
                }
                Err(Gap::Failed(failure)) if failure.is_passing() => {
                    self.remark(&format!("lost: {failure}; trying again")).await;
                }
                Err(Gap::Failed(failure)) => return Err(failure),
            }
            if version == began { pause.wait().await } else { pause = Pause::default() }
        }
        Ok(())
    }

    /// Prints all objects, and returns the version to watch from.
    async fn list(&mut self, first: bool) -> Result<String, Fault> {
        let path = self.source.path(&self.ask);
        let mut all = TableLines::default();
        let mut seen = HashMap::new();
        let mut pages = Pages::default();
        loop {
            let query = pages.query(self.query());
            let body = self.ask.member.get(&format!("{path}{query}"), ACCEPT).await?;
            let mut table = Table::of_list(&body)?;
            let version = std::mem::take(&mut table.metadata.resource_version);
            let next = std::mem::take(&mut table.metadata.next);
            let lines = table.lines(&mut self.columns, &self.shown);
            all.header = lines.header;
            for (row, object) in lines.rows.into_iter().zip(lines.objects) {
                if self.versions.get(&object.name) != Some(&object.version) {
                    all.rows.push(row);
                }
                seen.insert(object.name, object.version);
            }
            if !pages.has_next(next)? {
                if let Some(name) = self.name().filter(|_| first && seen.is_empty()) {
                    let kind = self.ask.resource.qualified();
                    return Err(Fault::not_found(&kind, name));
                }
                self.versions = seen;
                self.tell(if first { Told::Listed(all) } else { Told::Changed(all) }).await;
                return Ok(version);
            }
        }
    }

    async fn list_again(&mut self, pause: &mut Pause) -> Result<String, Fault> {
        loop {
            match self.list(false).await {
                Err(failure) if failure.is_passing() => pause.wait().await,
                listed => return listed,
            }
        }
    }

    /// Runs one watch request to its end. Advances the version with each event.
    async fn watch(&mut self, version: &mut String) -> Result<(), Gap> {
        let path = self.source.path(&self.ask);
        let mut watch = WatchRequest::open(&self.ask.member, &path, self.query(), version, ACCEPT).await?;
        while let Some(events) = watch.next().await? {
            for event in events.iter() {
                self.event(event, version).await?;
            }
        }
        Ok(())
    }

    async fn event(&mut self, event: &[u8], version: &mut String) -> Result<(), Gap> {
        let (kind, object) = parse_event(event)?;
        let mut table = Table::of_object(object, &self.ask.resource.kind)?;
        let of_table = std::mem::take(&mut table.metadata.resource_version);
        let mut lines = table.lines(&mut self.columns, &self.shown);
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

    /// The name of the watched object, if there is one.
    fn name(&self) -> Option<&str> {
        Some(self.ask.names.as_ref()?.first()?.as_str())
    }

    async fn remark(&self, remark: &str) {
        self.tell(Told::Remark(remark.to_owned())).await;
    }

    async fn tell(&self, told: Told) {
        // Without a receiver, the watch ends.
        let _ = self.sender.send(told).await;
    }
}
