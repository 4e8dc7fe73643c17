//! Merges the watches of all members into one stream of lines.

use std::ops::ControlFlow;

use tokio::time::Instant;

use super::Told;
use crate::multi::direct::lasting::Of;
use crate::multi::direct::member::Member;
use crate::multi::direct::server_table::{Shown, TableLines};
use crate::multi::direct::task::{Merge, Task};
use crate::multi::direct::text::Text;
use crate::multi::fault::Fault;
use crate::multi::ordered_output::{HELD, Sink};
use crate::tabwriter::TabWriter;

/// One stream of lines. The lists of all fast members come first and together.
pub(super) struct Screen<'a, 't> {
    task: &'a Task<'a>,
    text: &'t mut dyn Text,
    no_headers: bool,
    /// The lists that are held back until all members have listed.
    lists: Vec<(Member, TableLines)>,
    unlisted: usize,
    due: Option<Instant>,
    header: String,
    writer: TabWriter,
}

impl<'a, 't> Screen<'a, 't> {
    /// Expects the lists of `unlisted` members.
    pub(super) fn new(task: &'a Task<'_>, text: &'t mut dyn Text, shown: &Shown, unlisted: usize) -> Self {
        Self {
            task,
            text,
            no_headers: shown.columns.no_headers,
            lists: Vec::new(),
            unlisted,
            due: None,
            header: String::new(),
            writer: TabWriter::default(),
        }
    }

    pub(super) fn failed(&mut self, member: &Member, failure: &Fault) {
        self.text.failed(&member.name, failure);
    }

    fn listed(&mut self, member: Member, lines: TableLines) -> ControlFlow<()> {
        self.unlisted = self.unlisted.saturating_sub(1);
        self.due.get_or_insert_with(|| Instant::now() + HELD);
        self.lists.push((member, lines));
        if self.unlisted == 0 { self.show() } else { ControlFlow::Continue(()) }
    }

    fn changed(&mut self, member: &Member, lines: TableLines) -> ControlFlow<()> {
        if self.lists.iter().any(|(other, _)| other.name == member.name) {
            self.show()?;
        }
        self.lines(member, lines);
        self.flush()
    }

    fn remark(&mut self, member: &Member, remark: &str) -> ControlFlow<()> {
        self.show()?;
        let name = &member.name;
        self.task.printer.note_line(&format!("- {name}: {remark}"));
        ControlFlow::Continue(())
    }

    fn lines(&mut self, member: &Member, lines: TableLines) {
        if lines.rows.is_empty() {
            return;
        }
        let name = match self.task.merge {
            Merge::Marked => member.name.as_str(),
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

impl Sink<Of<Told>> for Screen<'_, '_> {
    fn take(&mut self, _: usize, Of { member, piece }: Of<Told>) -> ControlFlow<()> {
        match piece {
            Told::Listed(lines) => self.listed(member, lines),
            Told::Changed(lines) => self.changed(&member, lines),
            Told::Remark(remark) => self.remark(&member, &remark),
            Told::Begun => self.remark(&member, "ready, watched from now on"),
            Told::Ended(failure) => {
                self.failed(&member, &failure);
                self.listed(member, TableLines::default())
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Prints the held lists, in the order of the members.
    fn show(&mut self) -> ControlFlow<()> {
        self.due = None;
        let mut lists = std::mem::take(&mut self.lists);
        lists.sort_by_key(|(member, _)| member.place);
        lists.into_iter().for_each(|(member, lines)| self.lines(&member, lines));
        self.flush()
    }
}
