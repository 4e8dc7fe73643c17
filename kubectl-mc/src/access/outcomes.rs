//! Collects the outcome of a grant or a revocation on each of several clusters.

use kubectl_mc_api::ClusterName;

use crate::cluster::context::ClusterContext;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::printer::Printer;

/// Collects outcomes. With several clusters, a failure on one does not stop the command.
pub(super) struct Outcomes<'a> {
    clusters: usize,
    failed: usize,
    /// The host that the commands of hints address.
    host: &'a ClusterContext,
    printer: &'a Printer,
}

impl<'a> Outcomes<'a> {
    pub(super) fn new(clusters: usize, host: &'a ClusterContext, printer: &'a Printer) -> Self {
        Self { clusters, failed: 0, host, printer }
    }

    pub(super) fn add(&mut self, cluster: &ClusterName, outcome: Result<(), Failure>) -> Result<(), Failure> {
        let Err(failure) = outcome else { return Ok(()) };
        if self.clusters == 1 {
            return Err(failure);
        }
        self.failed += 1;
        self.printer.note_line(&format!("{cluster}: error: {}", failure.to_string().trim()));
        if let Some(hint) = failure.hint {
            self.printer.note_line(&format!("{cluster}: hint: {}", self.host.complete(hint)));
        }
        Ok(())
    }

    pub(super) fn status(&self) -> ExitStatus {
        match self.failed {
            0 => ExitStatus::Success,
            failed if failed == self.clusters => ExitStatus::AllFailed,
            _ => ExitStatus::SomeFailed,
        }
    }
}
