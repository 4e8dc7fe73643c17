//! The watches of all members as one stream of lines.

use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::Instant;

use super::{Part, Told};
use crate::multi::direct::failure::MemberFailure;
use crate::multi::direct::member::Member;
use crate::multi::direct::server_table::{Shown, TableLines};
use crate::multi::direct::{Merge, Task, Text};
use crate::multi::ordered_output::Sink;
use crate::tabwriter::TabWriter;

/// One stream of lines. The lists of all members come first and together, as far as they are quick.
pub(super) struct Screen<'a, 't> {
    task: &'a Task<'a>,
    text: &'t mut dyn Text,
    no_headers: bool,
    /// The members of the parts.
    members: Vec<Member>,
    /// By the members' own places.
    pub(super) failures: Vec<Option<MemberFailure>>,
    /// What is held back until all have listed: by place.
    lists: Vec<(usize, TableLines)>,
    unlisted: usize,
    due: Option<Instant>,
    header: String,
    writer: TabWriter,
}

impl<'a, 't> Screen<'a, 't> {
    pub(super) fn new(task: &'a Task<'_>, text: &'t mut dyn Text, shown: &Shown, parts: &[Part]) -> Self {
        let reason = |name| task.not_ready.iter().find(|(other, _)| other == name);
        let failure = |name| reason(name).map(|(_, reason)| MemberFailure::NotReady(reason.clone()));
        Self {
            task,
            text,
            no_headers: shown.columns.no_headers,
            members: parts.iter().map(|part| part.member().clone()).collect(),
            failures: task.clusters.iter().map(failure).collect(),
            lists: Vec::new(),
            unlisted: parts.iter().filter(|part| matches!(part, Part::Now(_))).count(),
            due: None,
            header: String::new(),
            writer: TabWriter::default(),
        }
    }

    /// Members that have nothing of what is to be watched.
    pub(super) fn not_found<'m>(
        &mut self,
        failures: impl Iterator<Item = (&'m Member, Option<MemberFailure>)>,
    ) {
        for (member, failure) in failures {
            if let Some(failure) = failure {
                self.failed(member, failure);
            }
        }
    }

    fn failed(&mut self, member: &Member, failure: MemberFailure) {
        self.text.failed(&member.name, &failure);
        self.failures[member.place] = Some(failure);
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
        let name = &self.members[place].name;
        self.task.printer.note_line(&format!("- {name}: {remark}"));
        ControlFlow::Continue(())
    }

    fn lines(&mut self, place: usize, lines: TableLines) {
        if lines.rows.is_empty() {
            return;
        }
        let name = match self.task.merge {
            Merge::Marked => self.members[place].name.as_str(),
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

impl Sink<Told> for Screen<'_, '_> {
    fn take(&mut self, place: usize, told: Told) -> ControlFlow<()> {
        match told {
            Told::Listed(lines) => self.listed(place, lines),
            Told::Changed(lines) => self.changed(place, lines),
            Told::Remark(remark) => self.remark(place, &remark),
            Told::Begun => {
                self.failures[self.members[place].place] = None;
                self.remark(place, "ready, watched from now on")
            }
            Told::Ended(failure) => {
                self.failed(&self.members[place].clone(), failure);
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

/// What a person does not notice.
const HELD: Duration = Duration::from_millis(500);
