//! Merges the output of the children into lines, a table or a document.

use crate::cluster::cluster_id::ClusterId;
use serde_json::Value;
use tokio::time::Instant;

use super::document::Document;
use super::fault::Fault;
use super::job::Job;
use super::lines::Lines;
use super::ports::Ports;
use super::shape::OutputShape;
use super::tables::Tables;

/// The merged output of many clusters.
pub(super) struct Output<'a> {
    lines: Lines<'a>,
    form: Merger,
}

enum Merger {
    Lines,
    Tables(Tables),
    Ports(Ports),
    Document(Document),
}

impl<'a> Output<'a> {
    pub(super) fn new(job: &Job<'a>, shape: OutputShape) -> Self {
        let form = match shape {
            OutputShape::Lines => Merger::Lines,
            OutputShape::Table => Merger::Tables(Tables::default()),
            OutputShape::Ports => Merger::Ports(Ports::default()),
            OutputShape::Document(format) => Merger::Document(Document::new(format)),
        };
        Self { lines: Lines::new(job), form }
    }

    /// Handles standard output of a cluster.
    pub(super) fn out(&mut self, cluster: &ClusterId, bytes: Vec<u8>) {
        match &mut self.form {
            Merger::Lines => self.lines.out(cluster, &bytes),
            Merger::Tables(tables) => tables.take(&bytes),
            Merger::Ports(ports) => self.lines.out_unless(cluster, &bytes, |line| ports.take(cluster, line)),
            Merger::Document(document) => document.take(cluster, &bytes),
        }
    }

    /// Handles standard error of a cluster.
    pub(super) fn err(&mut self, cluster: &ClusterId, bytes: &[u8]) {
        self.lines.err(cluster, bytes);
    }

    /// Handles the end of a cluster, whose output may turn out to be invalid.
    pub(super) fn end(&mut self, cluster: &ClusterId, mut result: Result<(), Fault>) -> Result<(), Fault> {
        match &mut self.form {
            Merger::Lines | Merger::Ports(_) => {}
            Merger::Tables(tables) => tables.end(cluster),
            Merger::Document(document) => result = document.end(cluster, result),
        }
        self.lines.end(cluster, &result);
        result
    }

    /// When held output must be shown.
    pub(super) fn due(&self) -> Option<Instant> {
        match &self.form {
            Merger::Tables(tables) => tables.due(),
            Merger::Ports(ports) => ports.due(),
            Merger::Lines | Merger::Document(_) => None,
        }
    }

    /// Shows held output that is due.
    pub(super) fn show(&mut self) {
        if self.due().is_none_or(|due| due > Instant::now()) {
            return;
        }
        let text = match &mut self.form {
            Merger::Tables(tables) => tables.show(),
            Merger::Ports(ports) => ports.show(),
            Merger::Lines | Merger::Document(_) => return,
        };
        self.lines.printer().out(&text);
    }

    /// The merged list of a document; null for any other output.
    pub(super) fn into_list(self) -> Value {
        match self.form {
            Merger::Document(document) => document.into_list(),
            Merger::Lines | Merger::Tables(_) | Merger::Ports(_) => Value::Null,
        }
    }

    /// Prints the output that needs the results of all clusters.
    pub(super) fn finish(self) {
        match self.form {
            Merger::Lines => {}
            Merger::Ports(mut ports) => self.lines.printer().out(&ports.show()),
            Merger::Tables(tables) => self.lines.printer().out(&tables.finish()),
            Merger::Document(document) => self.lines.printer().out(&document.render()),
        }
    }
}
