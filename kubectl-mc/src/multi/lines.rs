//! Prints text of several clusters as whole lines, each prefixed with the cluster's name. A missing
//! last line break is added, and a long line is printed in parts.

use std::collections::{HashMap, HashSet};

use crate::cluster::cluster_id::ClusterId;

use super::colors::{self, Colors};
use super::job::Job;
use super::outcome::Fault;
use super::shape;
use crate::printer::Printer;
use crate::server_text::escaped;

/// Prints lines prefixed with the cluster.
pub(crate) struct Lines<'a> {
    printer: &'a Printer,
    /// The prefixes of each cluster for standard output and standard error.
    prefixes: HashMap<ClusterId, [Vec<u8>; 2]>,
    width: usize,
    colors: Colors,
    /// Whether standard error comes from a program and is printed unescaped.
    raw_errors: bool,
    /// Incomplete lines, by cluster and stream.
    torn: HashMap<(ClusterId, OutputStream), Vec<u8>>,
    /// Clusters whose error was printed.
    failed: HashSet<ClusterId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OutputStream {
    Out,
    Err,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(job: &Job<'a>) -> Self {
        let colors = Colors::new(job.options.color, job.env);
        let width = job.targets.names().map(|name| name.as_str().len()).max().unwrap_or(0);
        let names = job.targets.names().enumerate();
        let prefixes = names.map(|(at, name)| (name.clone(), prefixes_of(name, at, width, colors)));
        let raw_errors = shape::shows_content(job.scanned);
        Self {
            printer: job.printer,
            prefixes: prefixes.collect(),
            width,
            colors,
            raw_errors,
            torn: HashMap::new(),
            failed: HashSet::new(),
        }
    }

    pub(crate) fn printer(&self) -> &'a Printer {
        self.printer
    }

    /// Adds a cluster that joined after the start.
    pub(crate) fn add(&mut self, cluster: &ClusterId) {
        let (at, width, colors) = (self.prefixes.len(), self.width, self.colors);
        let prefixes = || prefixes_of(cluster, at, width, colors);
        self.prefixes.entry(cluster.clone()).or_insert_with(prefixes);
    }

    /// Prints standard output of a cluster.
    pub(crate) fn out(&mut self, cluster: &ClusterId, bytes: &[u8]) {
        self.write(cluster, OutputStream::Out, bytes, |_| false);
    }

    /// Prints standard error of a cluster.
    pub(crate) fn err(&mut self, cluster: &ClusterId, bytes: &[u8]) {
        self.write(cluster, OutputStream::Err, bytes, |_| false);
    }

    /// Prints an incomplete line as a complete one.
    pub(crate) fn complete(&mut self, cluster: &ClusterId) {
        for stream in [OutputStream::Out, OutputStream::Err] {
            if let Some(rest) = self.torn.remove(&(cluster.clone(), stream)).filter(|rest| !rest.is_empty()) {
                self.print(stream, &self.whole(cluster, stream, &rest));
            }
        }
    }

    /// Handles the end of a cluster: prints an incomplete line, and an error that was not printed yet.
    pub(crate) fn end(&mut self, cluster: &ClusterId, result: &Result<(), Fault>) {
        self.complete(cluster);
        if let Err(fault) = result
            && !self.failed.contains(cluster)
        {
            self.fail(cluster, fault);
        }
    }

    /// Prints an error of a cluster that may still be running.
    pub(crate) fn fail(&mut self, cluster: &ClusterId, fault: &Fault) {
        if let Some(detail) = fault.detail() {
            self.failed.insert(cluster.clone());
            // A server's error already contains the word, as kubectl prints it.
            let says = if matches!(fault, Fault::Answered { .. }) { "" } else { "error: " };
            let line = format!("{says}{}", escaped(detail.trim()));
            self.print(OutputStream::Err, &self.whole(cluster, OutputStream::Err, line.as_bytes()));
        }
    }

    /// Prints standard output except for the lines that `taken` consumes.
    pub(super) fn out_unless(&mut self, cluster: &ClusterId, bytes: &[u8], taken: impl FnMut(&[u8]) -> bool) {
        self.write(cluster, OutputStream::Out, bytes, taken);
    }

    /// Prints the complete lines in one write, so that no other output comes between them.
    fn write(
        &mut self,
        cluster: &ClusterId,
        stream: OutputStream,
        bytes: &[u8],
        mut taken: impl FnMut(&[u8]) -> bool,
    ) {
        let mut rest = self.torn.remove(&(cluster.clone(), stream)).unwrap_or_default();
        let begun = rest.len();
        rest.extend_from_slice(bytes);
        let end = rest[begun..].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| begun + at + 1);
        let mut lines = Vec::with_capacity(rest.len() * 2);
        for line in rest[..end].split_inclusive(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if !taken(line) {
                lines.extend(self.whole(cluster, stream, line));
            }
        }
        self.print(stream, &lines);
        rest.drain(..end);
        if rest.len() > LONGEST_LINE {
            let part = std::mem::take(&mut rest);
            self.print(stream, &self.whole(cluster, stream, &part));
        }
        self.torn.insert((cluster.clone(), stream), rest);
    }

    fn whole(&self, cluster: &ClusterId, stream: OutputStream, line: &[u8]) -> Vec<u8> {
        let prefix =
            self.prefixes.get(cluster).map(|[out, err]| if stream == OutputStream::Out { out } else { err });
        let mut whole = prefix.cloned().unwrap_or_default();
        // A carriage return would overwrite the prefix; that of a CRLF ends the line.
        if stream == OutputStream::Err && !self.raw_errors {
            // kubectl prints server messages unescaped.
            whole.extend_from_slice(escaped(&String::from_utf8_lossy(line)).as_bytes());
        } else {
            whole = after_each_return(&whole, line);
        }
        whole.push(b'\n');
        whole
    }

    fn print(&self, stream: OutputStream, lines: &[u8]) {
        match stream {
            _ if lines.is_empty() => {}
            OutputStream::Out => self.printer.out_bytes(lines),
            OutputStream::Err => self.printer.note_bytes(lines),
        }
    }
}

/// Longer lines are printed in parts, so that an endless line does not need unlimited memory.
pub(super) const LONGEST_LINE: usize = 1024 * 1024;

/// The prefixes of a cluster's lines.
fn prefixes_of(name: &ClusterId, at: usize, width: usize, colors: Colors) -> [Vec<u8>; 2] {
    let plain = format!("{:width$}", name.as_str());
    let prefix = |is_colored: bool| {
        let name = if is_colored { colors::paint(&plain, at) } else { plain.clone() };
        format!("{name} | ").into_bytes()
    };
    [prefix(colors.out), prefix(colors.err)]
}

/// The line with the prefix at its start and after each carriage return inside it.
pub(super) fn after_each_return(prefix: &[u8], line: &[u8]) -> Vec<u8> {
    let mut whole = prefix.to_vec();
    let mut parts = line.split(|&byte| byte == b'\r').peekable();
    while let Some(part) = parts.next() {
        whole.extend_from_slice(part);
        if let Some(next) = parts.peek() {
            whole.push(b'\r');
            if !next.is_empty() {
                whole.extend_from_slice(prefix);
            }
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_line_keep_their_prefix() {
        for (line, expected) in [
            ("a", "m1 | a"),
            ("", "m1 | "),
            ("10%\r20%\r100%", "m1 | 10%\rm1 | 20%\rm1 | 100%"),
            ("crlf\r", "m1 | crlf\r"),
            ("\rx\r\r", "m1 | \rm1 | x\r\r"),
        ] {
            let whole = String::from_utf8(after_each_return(b"m1 | ", line.as_bytes())).unwrap();
            assert_eq!(whole, expected, "{line:?}");
        }
    }
}
