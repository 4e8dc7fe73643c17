//! Merges the output of the children into lines, a table or a document.

use crate::cluster::cluster_id::ClusterId;
use serde_json::Value;
use tokio::time::Instant;

use super::document::{Document, Format};
use super::lines::Lines;
use super::ports::Ports;
use super::tables::Tables;
use super::{Fault, Job};
use crate::argv::Scanned;
use crate::kubectl::verb;

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

/// The format of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputShape {
    Lines,
    Table,
    /// Lines, except that lines about local ports form a table.
    Ports,
    Document(Format),
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

/// Whether the output comes from a program or a file, and not from kubectl itself.
pub(super) fn shows_content(scanned: &Scanned) -> bool {
    let verb = scanned.verb().unwrap_or_default();
    !scanned.verb_is_builtin() || CONTENT.iter().any(|command| verb == *command)
}

/// The expected format of kubectl's output.
pub(super) fn shape(scanned: &Scanned) -> OutputShape {
    let verb = scanned.verb().unwrap_or_default();
    let output = scanned.value("output").map(|output| output.to_string_lossy().into_owned());
    if verb == "port-forward" {
        return OutputShape::Ports;
    }
    if verb::is_stream(scanned) || shows_content(scanned) {
        return OutputShape::Lines;
    }
    let tables = ["get", "top", "events", "api-resources"];
    let is_table = tables.iter().any(|table| verb == *table) && !scanned.has("no-headers");
    match output.as_deref() {
        Some("json") => OutputShape::Document(Format::Json),
        Some("yaml") => OutputShape::Document(Format::Yaml),
        None | Some("" | "wide") if is_table && scanned.value("raw").is_none() => OutputShape::Table,
        Some(columns) if is_table && columns.starts_with("custom-columns") => OutputShape::Table,
        _ => OutputShape::Lines,
    }
}

/// Whether kubectl sorts the output, or prints it by a template: one of each cluster, if several run it.
pub(super) fn is_of_one_cluster(scanned: &Scanned) -> bool {
    let output = scanned.value("output").unwrap_or_default().to_string_lossy();
    let is_template = output.contains("jsonpath") || output.contains("template");
    let is_template =
        is_template || output.starts_with("custom-columns") || scanned.value("template").is_some();
    let verb = scanned.verb().unwrap_or_default();
    scanned.verb_is_builtin()
        && (scanned.value("sort-by").is_some_and(|field| !field.is_empty()) || (verb == "get" && is_template))
}

const CONTENT: &[&str] = &["exec", "logs", "cp", "attach", "run", "debug", "diff"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verb_and_format_determine_output_shape() {
        for (line, expected) in [
            ("get pods", OutputShape::Table),
            ("get pods -owide", OutputShape::Table),
            ("get pods --no-headers", OutputShape::Lines),
            ("get pods -o name", OutputShape::Lines),
            ("get pods -w", OutputShape::Lines),
            ("get --raw /version", OutputShape::Lines),
            ("top nodes", OutputShape::Table),
            ("get pods -o custom-columns=A:.a", OutputShape::Table),
            ("get pods -o json", OutputShape::Document(Format::Json)),
            ("version --output=yaml", OutputShape::Document(Format::Yaml)),
            ("describe pod x", OutputShape::Lines),
            ("port-forward svc/x 80", OutputShape::Ports),
            ("exec x -o json -- ls", OutputShape::Lines),
            ("plugin-of-mine -o json", OutputShape::Lines),
        ] {
            let scanned = crate::argv::scan(line.split(' ').map(Into::into).collect());
            assert_eq!(shape(&scanned), expected, "{line}");
        }
    }
}
