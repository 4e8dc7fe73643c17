//! Text of several clusters: whole lines, each with its cluster before it, aligned. A line is never
//! torn, and one without an end gets one.

use std::collections::BTreeMap;

use kubectl_mc_api::ClusterName;

use super::{Fault, Job};
use crate::printer::{Printer, printable};

/// Prints lines with the cluster before each.
pub(crate) struct Lines<'a> {
    printer: &'a Printer,
    width: usize,
    /// The beginnings of lines, by cluster and stream.
    torn: BTreeMap<(ClusterName, Stream), Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Out,
    Err,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(job: &Job<'a>) -> Self {
        let width = job.targets.names().map(|name| name.as_str().len()).max().unwrap_or(0);
        Self { printer: job.printer, width, torn: BTreeMap::new() }
    }

    /// What a cluster wrote to standard output.
    pub(crate) fn out(&mut self, cluster: &ClusterName, bytes: &[u8]) {
        self.write(cluster, Stream::Out, bytes);
    }

    /// What a cluster wrote to standard error.
    pub(crate) fn err(&mut self, cluster: &ClusterName, bytes: &[u8]) {
        self.write(cluster, Stream::Err, bytes);
    }

    /// A cluster has ended: what is left of a line, and what nobody told yet.
    pub(crate) fn end(&mut self, cluster: &ClusterName, result: &Result<(), Fault>) {
        for stream in [Stream::Out, Stream::Err] {
            if let Some(rest) = self.torn.remove(&(cluster.clone(), stream))
                && !rest.is_empty()
            {
                self.line(cluster, stream, &rest);
            }
        }
        if let Err(fault) = result
            && let Some(detail) = fault.detail()
        {
            self.line(cluster, Stream::Err, format!("error: {}", printable(&detail)).as_bytes());
        }
    }

    fn write(&mut self, cluster: &ClusterName, stream: Stream, bytes: &[u8]) {
        let mut rest = self.torn.remove(&(cluster.clone(), stream)).unwrap_or_default();
        rest.extend_from_slice(bytes);
        let mut whole = rest.as_slice();
        while let Some(end) = whole.iter().position(|&byte| byte == b'\n') {
            self.line(cluster, stream, &whole[..end]);
            whole = &whole[end + 1..];
        }
        self.torn.insert((cluster.clone(), stream), whole.to_vec());
    }

    fn line(&self, cluster: &ClusterName, stream: Stream, line: &[u8]) {
        let width = self.width;
        let mut whole = format!("{cluster:width$} | ").into_bytes();
        whole.extend_from_slice(line);
        whole.push(b'\n');
        match stream {
            Stream::Out => self.printer.out_bytes(&whole),
            Stream::Err => self.printer.note_bytes(&whole),
        }
    }
}
