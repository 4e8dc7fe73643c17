//! Writes the lines of text of a plan.

use std::ops::ControlFlow;

use super::failure::MemberFailure;
use crate::cluster::cluster_id::ClusterId;
use crate::printer::Printer;

/// Writes lines of text.
pub(crate) trait Text {
    /// Prints lines of a cluster; breaks when standard output is closed.
    fn out(&mut self, cluster: &ClusterId, lines: &[u8]) -> ControlFlow<()>;

    /// Prints a remark about a cluster, separate from the data.
    fn remark(&mut self, cluster: &ClusterId, remark: &str);

    /// Reports the failure of a cluster as soon as it is known.
    fn failed(&mut self, cluster: &ClusterId, failure: &MemberFailure);

    /// Marks the end of a cluster's output, even without a final line break.
    fn end(&mut self, cluster: &ClusterId);
}

/// Prints the text of one cluster unchanged.
pub(crate) struct PlainText<'a> {
    printer: &'a Printer,
    /// Whether a failure was printed.
    has_failed: bool,
}

impl<'a> PlainText<'a> {
    pub(crate) fn new(printer: &'a Printer) -> Self {
        Self { printer, has_failed: false }
    }

    /// Prints why the command failed, unless a failure was already printed.
    pub(crate) fn end(&self, failure: &MemberFailure) {
        if !self.has_failed {
            self.printer.note_line(&failure.to_string());
        }
    }
}

impl Text for PlainText<'_> {
    fn out(&mut self, _: &ClusterId, lines: &[u8]) -> ControlFlow<()> {
        self.printer.stream(lines)
    }

    fn remark(&mut self, _: &ClusterId, remark: &str) {
        self.printer.note_line(remark);
    }

    fn failed(&mut self, _: &ClusterId, failure: &MemberFailure) {
        // These failures end the command, with a hint.
        if !matches!(
            failure,
            MemberFailure::Refused(_) | MemberFailure::OtherHub(_) | MemberFailure::Unreachable(_)
        ) {
            self.has_failed = true;
            self.printer.note_line(&failure.to_string());
        }
    }

    fn end(&mut self, _: &ClusterId) {}
}
