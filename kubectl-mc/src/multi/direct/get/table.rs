//! Prints one table for many clusters: a CLUSTER column first, one header, and aligned columns.
//!
//! Rows are held back until all clusters have responded, half a second has passed, or there are many rows.
//! Later rows keep the column widths and are printed immediately. Clusters with other columns follow in a
//! separate table.

use std::ops::ControlFlow;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use super::ask::Ask;
use super::list::{self, Source};
use super::resolve::Wanted;
use crate::multi::direct::printing::{self, PrintError};
use crate::multi::direct::server_table::{Shown, Table, TableLines, row_objects};
use crate::multi::direct::task::{Merge, Task};
use crate::multi::fault::Fault;
use crate::multi::ordered_output::{HELD, Sink};
use crate::tabwriter::TabWriter;

/// Converts tables to lines.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) source: Source,
    pub(super) shown: Shown,
}

impl Rows {
    /// Requests the rows of one member and sends them.
    pub(super) async fn fetch(self, ask: Ask, sender: Sender<TableLines>) -> Result<(), Fault> {
        let Self { source, mut shown } = self;
        shown.namespace &= ask.resource.namespaced;
        shown.prefix = shown.prefix.map(|_| ask.resource.prefix());
        let mut columns = Vec::new();
        let is_list = ask.names.is_none();
        let take = |body: Bytes| {
            let mut table = match is_list {
                true => Table::of_list(&body)?,
                false => Table::of_object(&body, &ask.resource.kind)?,
            };
            let next = std::mem::take(&mut table.metadata.next);
            let mut lines = table.lines(&mut columns, &shown);
            if source.whole_rows {
                let whole = row_objects(&body)?;
                let whole = whole.into_iter().map(|object| list::value(object, &ask.resource));
                lines.whole = whole.collect::<Result<_, _>>()?;
            }
            Ok((lines, next))
        };
        source.fetch(&ask, ACCEPT, CHUNK, take, &sender).await
    }
}

/// Prints the table.
pub(super) struct TableSink<'a> {
    task: &'a Task<'a>,
    shown: Shown,
    names: Vec<String>,
    /// The header of the current table, and whether it was printed.
    header: Option<String>,
    writer: TabWriter,
    /// Tables with other columns: header and lines.
    others: Vec<(String, Vec<String>)>,
    /// When lines were first held back; `None` while they are printed as they arrive.
    begun: Option<Instant>,
    at_once: bool,
    /// Whether there was output, so that an empty line must come first.
    written: bool,
    separate: bool,
    /// The rows that are not sorted yet; `None` if they stay in the order of the clusters.
    unsorted: Option<Vec<Unsorted>>,
}

/// A row, with the position of its cluster.
struct Unsorted {
    place: usize,
    header: String,
    row: String,
    object: Value,
}

impl<'a> TableSink<'a> {
    pub(super) fn new(task: &'a Task<'_>, shown: Shown, with_kind: bool) -> Self {
        let shown = Shown { prefix: with_kind.then(String::new), ..shown };
        Self {
            task,
            shown,
            names: Vec::new(),
            header: None,
            writer: TabWriter::default(),
            others: Vec::new(),
            begun: None,
            at_once: false,
            written: false,
            separate: false,
            unsorted: None,
        }
    }

    /// Holds the rows of a round back until they are sorted.
    pub(super) fn hold_back(&mut self, is_sorted: bool) {
        self.unsorted = is_sorted.then(Vec::new);
    }

    /// Sorts the rows of the round by kubectl's rules for a value of `--sort-by`, over all clusters.
    pub(super) async fn sort(&mut self, sort_by: &str, task: &Task<'_>) -> Result<(), PrintError> {
        let Some(mut rows) = self.unsorted.take() else { return Ok(()) };
        let objects: Vec<_> = rows.iter_mut().map(|row| std::mem::take(&mut row.object)).collect();
        let order = printing::order(&objects, sort_by, task.env).await?;
        for Unsorted { place, header, row, object: _ } in order.into_iter().filter_map(|at| rows.get(at)) {
            let lines =
                TableLines { header: header.clone(), rows: vec![row.clone()], ..TableLines::default() };
            // Nothing is printed before the end of the round.
            let _ = self.take(*place, lines);
        }
        Ok(())
    }

    pub(super) fn shown(&self) -> Shown {
        self.shown.clone()
    }

    /// Sets the clusters of this round.
    pub(super) fn names(&mut self, wanted: &[Wanted]) {
        self.names = wanted.iter().map(|wanted| wanted.member.name.to_string()).collect();
    }

    /// Starts the table of another type.
    pub(super) fn begin(&mut self) {
        self.separate = self.written && !self.shown.columns.no_headers;
        self.header = None;
        self.writer = TabWriter::default();
        (self.begun, self.at_once) = (None, false);
    }

    /// Prints all held lines of this type.
    pub(super) fn end_round(&mut self) -> ControlFlow<()> {
        self.show()?;
        for (header, lines) in std::mem::take(&mut self.others) {
            self.separate = self.written && !self.shown.columns.no_headers;
            self.writer = TabWriter::default();
            self.header(&header);
            lines.iter().for_each(|line| self.writer.line(line));
            self.show()?;
        }
        ControlFlow::Continue(())
    }

    pub(super) fn wrote_nothing(&self) -> bool {
        !self.written
    }

    fn header(&mut self, header: &str) {
        if !self.shown.columns.no_headers {
            self.writer.line(header);
        }
    }
}

impl Sink<TableLines> for TableSink<'_> {
    fn take(&mut self, place: usize, piece: TableLines) -> ControlFlow<()> {
        if piece.rows.is_empty() {
            return ControlFlow::Continue(());
        }
        if let Some(unsorted) = &mut self.unsorted {
            let rows = piece.rows.into_iter().zip(piece.whole);
            let header = piece.header;
            unsorted.extend(rows.map(|(row, object)| Unsorted {
                place,
                header: header.clone(),
                row,
                object,
            }));
            return ControlFlow::Continue(());
        }
        let marked = self.task.merge == Merge::Marked;
        let header = if marked { format!("CLUSTER\t{}", piece.header) } else { piece.header };
        let name = self.names.get(place).cloned().unwrap_or_default();
        let line = |row: String| if marked { format!("{name}\t{row}") } else { row };
        if self.header.is_none() {
            self.header(&header);
            self.header = Some(header.clone());
            self.begun = Some(Instant::now());
        }
        if self.header.as_ref() != Some(&header) {
            if let Some((_, lines)) = self.others.iter_mut().find(|(other, _)| *other == header) {
                lines.extend(piece.rows.into_iter().map(line));
            } else {
                self.others.push((header, piece.rows.into_iter().map(line).collect()));
            }
            return ControlFlow::Continue(());
        }
        piece.rows.into_iter().for_each(|row| self.writer.line(&line(row)));
        if marked && (self.at_once || self.writer.waiting() > HELD_LINES) {
            return self.show();
        }
        ControlFlow::Continue(())
    }

    fn due(&self) -> Option<Instant> {
        // kubectl prints the rows of one cluster together.
        let held = self.task.merge == Merge::Marked && !self.at_once;
        self.begun.filter(|_| held).map(|begun| begun + HELD)
    }

    fn show(&mut self) -> ControlFlow<()> {
        self.at_once = self.begun.is_some_and(|begun| begun.elapsed() >= HELD);
        let mut text = self.writer.flush();
        if text.is_empty() {
            return ControlFlow::Continue(());
        }
        if std::mem::take(&mut self.separate) {
            text.insert(0, '\n');
        }
        self.written = true;
        self.task.printer.stream(text.as_bytes())
    }
}

pub(super) const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
    application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
/// The default of kubectl.
const CHUNK: u32 = 500;
/// Limit of rows that are held back to align columns: some hundred kilobytes.
const HELD_LINES: usize = 2000;
