//! Prints text of several clusters as whole lines, each after the name of its cluster. A last line without a line
//! break gets one, and a line that is too long is printed in parts.

use std::collections::{HashMap, HashSet};

use crate::cluster::cluster_id::ClusterId;

use super::colors::{self, Colors};
use super::output;
use super::{Fault, Job};
use crate::printer::Printer;
use crate::server_text::escaped;

/// Prints lines with the cluster before each.
pub(crate) struct Lines<'a> {
    printer: &'a Printer,
    /// What stands before each line of a cluster, on standard output and standard error.
    prefixes: HashMap<ClusterId, [Vec<u8>; 2]>,
    width: usize,
    colors: Colors,
    /// Whether standard error is that of a program, which is shown as it is.
    raw_errors: bool,
    /// The beginnings of lines, by cluster and stream.
    torn: HashMap<(ClusterId, OutputStream), Vec<u8>>,
    /// Clusters of which an error is printed.
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
        let raw_errors = output::shows_content(job.scanned);
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

    /// A cluster that was not there at the start.
    pub(crate) fn add(&mut self, cluster: &ClusterId) {
        let (at, width, colors) = (self.prefixes.len(), self.width, self.colors);
        let prefixes = || prefixes_of(cluster, at, width, colors);
        self.prefixes.entry(cluster.clone()).or_insert_with(prefixes);
    }

    /// What a cluster wrote to standard output.
    pub(crate) fn out(&mut self, cluster: &ClusterId, bytes: &[u8]) {
        self.write(cluster, OutputStream::Out, bytes, |_| false);
    }

    /// What a cluster wrote to standard error.
    pub(crate) fn err(&mut self, cluster: &ClusterId, bytes: &[u8]) {
        self.write(cluster, OutputStream::Err, bytes, |_| false);
    }

    /// What is left of a line is all there is of it.
    pub(crate) fn complete(&mut self, cluster: &ClusterId) {
        for stream in [OutputStream::Out, OutputStream::Err] {
            if let Some(rest) = self.torn.remove(&(cluster.clone(), stream)).filter(|rest| !rest.is_empty()) {
                self.print(stream, &self.whole(cluster, stream, &rest));
            }
        }
    }

    /// A cluster has ended: the rest of a line, and an error that is not printed yet.
    pub(crate) fn end(&mut self, cluster: &ClusterId, result: &Result<(), Fault>) {
        self.complete(cluster);
        if let Err(fault) = result
            && !self.failed.contains(cluster)
        {
            self.fail(cluster, fault);
        }
    }

    /// Prints an error of a cluster that need not have ended.
    pub(crate) fn fail(&mut self, cluster: &ClusterId, fault: &Fault) {
        if let Some(detail) = fault.detail() {
            self.failed.insert(cluster.clone());
            // A server's error says that it is one, as kubectl writes it.
            let says = if matches!(fault, Fault::Answered { .. }) { "" } else { "error: " };
            let line = format!("{says}{}", escaped(detail.trim()));
            self.print(OutputStream::Err, &self.whole(cluster, OutputStream::Err, line.as_bytes()));
        }
    }

    /// The same without the lines that are taken for something else.
    pub(super) fn out_unless(&mut self, cluster: &ClusterId, bytes: &[u8], taken: impl FnMut(&[u8]) -> bool) {
        self.write(cluster, OutputStream::Out, bytes, taken);
    }

    /// Prints what there is of whole lines by one write, so that nothing gets between them.
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
        // A carriage return goes back over the prefix; the one of a CRLF is the last of the line.
        if stream == OutputStream::Err && !self.raw_errors {
            // kubectl prints the words of servers as they are.
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

/// Longer lines are shown in parts, so that one without end needs no memory.
pub(super) const LONGEST_LINE: usize = 1024 * 1024;

/// What stands before the lines of a cluster.
fn prefixes_of(name: &ClusterId, at: usize, width: usize, colors: Colors) -> [Vec<u8>; 2] {
    let plain = format!("{:width$}", name.as_str());
    let prefix = |is_colored: bool| {
        let name = if is_colored { colors::paint(&plain, at) } else { plain.clone() };
        format!("{name} | ").into_bytes()
    };
    [prefix(colors.out), prefix(colors.err)]
}

/// The line with the prefix before it, and again after each carriage return that it goes on after.
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
