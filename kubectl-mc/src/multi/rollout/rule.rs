//! How to wait for a batch: the flags `--batch-wait`, `--batch-timeout`, `--batch-check` and
//! `--batch-pause`.

use std::ffi::OsString;
use std::time::Duration;

use super::command;
use crate::argv::Scanned;
use crate::next_command::shown;

/// How to wait for a batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rollout {
    /// Whether to wait; `None` depends on the command.
    pub(crate) wait: Option<bool>,
    /// For the rollout of all workloads of a batch.
    pub(crate) timeout: Duration,
    /// Arguments of kubectl that must succeed on each cluster of the batch.
    pub(crate) check: Option<Vec<OsString>>,
    /// Time between two batches.
    pub(crate) pause: Duration,
}

impl Default for Rollout {
    fn default() -> Self {
        Self { wait: None, timeout: TIMEOUT, check: None, pause: Duration::ZERO }
    }
}

impl Rollout {
    /// Whether the batches of this command wait for their workloads.
    pub(in crate::multi) fn waits(&self, scanned: &Scanned) -> bool {
        let is_tried = scanned.value("dry-run").is_some_and(|dry_run| dry_run != "none");
        !is_tried && self.wait.unwrap_or_else(|| command::changes_workloads(scanned))
    }

    /// How the batches continue, for people:
    /// `each after the rollout of the one before, for 5m at most`.
    pub(in crate::multi) fn described(&self, scanned: &Scanned) -> Option<String> {
        let mut steps = Vec::new();
        if self.waits(scanned) {
            steps.push(format!("waits up to {} s for its rollout", self.timeout.as_secs()));
        }
        if let Some(check) = &self.check {
            steps.push(format!("is checked by kubectl {}", shown(check.iter().map(OsString::as_os_str))));
        }
        if !self.pause.is_zero() {
            steps.push(format!("is followed by a pause of {} s", self.pause.as_secs()));
        }
        (!steps.is_empty()).then(|| format!("each {}", steps.join(" and ")))
    }
}

/// kubectl's own deadline for progress is ten minutes by default.
const TIMEOUT: Duration = Duration::from_secs(300);
