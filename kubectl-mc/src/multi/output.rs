//! What the children write, made into one answer: lines, a table, or a document.

use kubectl_mc_api::ClusterName;
use tokio::time::Instant;

use super::document::{Document, Format};
use super::lines::Lines;
use super::ports::Ports;
use super::tables::Tables;
use super::{Fault, Job};
use crate::argv::Scanned;
use crate::kubectl::verb;

/// One answer of many.
pub(super) struct Output<'a> {
    lines: Lines<'a>,
    form: Form,
}

enum Form {
    Lines,
    Tables(Tables),
    Ports(Ports),
    Document(Document),
}

/// The form that a command's answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Lines,
    Table,
    /// Lines, of which those that tell of local ports are a table.
    Ports,
    Document(Format),
}

impl<'a> Output<'a> {
    pub(super) fn new(job: &Job<'a>, shape: Shape) -> Self {
        let form = match shape {
            Shape::Lines => Form::Lines,
            Shape::Table => Form::Tables(Tables::default()),
            Shape::Ports => Form::Ports(Ports::default()),
            Shape::Document(format) => Form::Document(Document::new(format)),
        };
        Self { lines: Lines::new(job), form }
    }

    /// What a cluster wrote to standard output.
    pub(super) fn out(&mut self, cluster: &ClusterName, bytes: Vec<u8>) {
        match &mut self.form {
            Form::Lines => self.lines.out(cluster, &bytes),
            Form::Tables(tables) => tables.take(&bytes),
            Form::Ports(ports) => self.lines.out_unless(cluster, &bytes, |line| ports.take(cluster, line)),
            Form::Document(document) => document.take(cluster, &bytes),
        }
    }

    /// What a cluster wrote to standard error.
    pub(super) fn err(&mut self, cluster: &ClusterName, bytes: &[u8]) {
        self.lines.err(cluster, bytes);
    }

    /// A cluster has ended; what it wrote may turn out to be no answer.
    pub(super) fn end(&mut self, cluster: &ClusterName, mut result: Result<(), Fault>) -> Result<(), Fault> {
        match &mut self.form {
            Form::Lines | Form::Ports(_) => {}
            Form::Tables(tables) => tables.end(cluster),
            Form::Document(document) => result = document.end(cluster, result),
        }
        self.lines.end(cluster, &result);
        result
    }

    /// When what is held back must be shown.
    pub(super) fn due(&self) -> Option<Instant> {
        match &self.form {
            Form::Tables(tables) => tables.due(),
            Form::Ports(ports) => ports.due(),
            Form::Lines | Form::Document(_) => None,
        }
    }

    /// Shows what is held back, when that is due.
    pub(super) fn show(&mut self) {
        if self.due().is_none_or(|due| due > Instant::now()) {
            return;
        }
        let text = match &mut self.form {
            Form::Tables(tables) => tables.show(),
            Form::Ports(ports) => ports.show(),
            Form::Lines | Form::Document(_) => return,
        };
        self.lines.printer().out(&text);
    }

    /// All have ended: what could only be told of all together.
    pub(super) fn finish(self) {
        match self.form {
            Form::Lines => {}
            Form::Ports(mut ports) => self.lines.printer().out(&ports.show()),
            Form::Tables(tables) => self.lines.printer().out(&tables.finish()),
            Form::Document(document) => self.lines.printer().out(&document.render()),
        }
    }
}

/// Whether the output is that of a program or a file, and not kubectl's own words.
pub(super) fn shows_content(scanned: &Scanned) -> bool {
    let verb = scanned.verb().unwrap_or_default();
    !scanned.verb_is_builtin() || CONTENT.iter().any(|command| verb == *command)
}

/// The form that kubectl's answer will have.
pub(super) fn shape(scanned: &Scanned) -> Shape {
    let verb = scanned.verb().unwrap_or_default();
    let output = scanned.value("output").map(|output| output.to_string_lossy().into_owned());
    if verb == "port-forward" {
        return Shape::Ports;
    }
    if verb::is_stream(scanned) || shows_content(scanned) {
        return Shape::Lines;
    }
    let tables = ["get", "top", "events", "api-resources"];
    let is_table = tables.iter().any(|table| verb == *table) && !scanned.has("no-headers");
    match output.as_deref() {
        Some("json") => Shape::Document(Format::Json),
        Some("yaml") => Shape::Document(Format::Yaml),
        None | Some("" | "wide") if is_table && scanned.value("raw").is_none() => Shape::Table,
        Some(columns) if is_table && columns.starts_with("custom-columns") => Shape::Table,
        _ => Shape::Lines,
    }
}

const CONTENT: &[&str] = &["exec", "logs", "cp", "attach", "run", "debug", "diff"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verb_and_the_format_say_what_the_answer_will_be() {
        for (line, expected) in [
            ("get pods", Shape::Table),
            ("get pods -owide", Shape::Table),
            ("get pods --no-headers", Shape::Lines),
            ("get pods -o name", Shape::Lines),
            ("get pods -w", Shape::Lines),
            ("get --raw /version", Shape::Lines),
            ("top nodes", Shape::Table),
            ("get pods -o custom-columns=A:.a", Shape::Table),
            ("get pods -o json", Shape::Document(Format::Json)),
            ("version --output=yaml", Shape::Document(Format::Yaml)),
            ("describe pod x", Shape::Lines),
            ("port-forward svc/x 80", Shape::Ports),
            ("exec x -o json -- ls", Shape::Lines),
            ("plugin-of-mine -o json", Shape::Lines),
        ] {
            let scanned = crate::argv::scan(line.split(' ').map(Into::into).collect());
            assert_eq!(shape(&scanned), expected, "{line}");
        }
    }
}
