//! Formats the summary line with failures grouped by cause, and determines the exit code of the command.

use std::collections::BTreeMap;
use std::fmt;

use super::outcome::{Fault, Outcome};
use crate::exit::ExitStatus;

/// The counted outcomes.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    all: usize,
    failed: usize,
    succeeded: Vec<String>,
    /// Clusters whose batch did not start.
    not_begun: Vec<String>,
    /// Whether some clusters gave a negative answer, or have differences.
    said_no: bool,
    /// The names of the clusters by cause, in order.
    causes: BTreeMap<String, Vec<String>>,
}

impl Summary {
    pub(crate) fn of(outcomes: &[Outcome]) -> Self {
        let mut summary = Self { all: outcomes.len(), ..Self::default() };
        for Outcome { cluster, result } in outcomes {
            match result {
                Err(Fault::NotBegun) => summary.not_begun.push(cluster.to_string()),
                Err(fault) if fault.is_failure() => {
                    summary.failed += 1;
                    summary.causes.entry(fault.cause(cluster)).or_default().push(cluster.to_string());
                }
                Err(_) => summary.said_no = true,
                Ok(()) => summary.succeeded.push(cluster.to_string()),
            }
        }
        summary
    }

    /// Whether some clusters were not started.
    pub(super) fn has_rest(&self) -> bool {
        !self.not_begun.is_empty()
    }

    /// The line after Ctrl-C in a change, such as `interrupted: 1 succeeded (m2), 2 unfinished (m3, m4)`.
    pub(super) fn interrupted(&self) -> String {
        let counts = [("succeeded", &self.succeeded), ("unfinished", &self.not_begun)];
        let counts = counts.into_iter().filter(|(_, names)| !names.is_empty());
        let counts: Vec<_> = counts.map(|(what, names)| counted(what, names)).collect();
        format!("interrupted: {}\n", counts.join(", "))
    }

    /// The exit code: 0, 1 as in kubectl after a negative answer, or the code for some or all failed
    /// clusters.
    pub(crate) fn status(&self) -> ExitStatus {
        match self.failed {
            0 if self.said_no => ExitStatus::Failed,
            0 => ExitStatus::Success,
            failed if failed + self.not_begun.len() == self.all => ExitStatus::AllFailed,
            _ => ExitStatus::SomeFailed,
        }
    }
}

/// Such as `3 of 40 clusters failed: 2 unreachable (m7, m9), 1 forbidden by the member (m12); 9 not begun
/// (…)`; empty if none failed.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failed == 0 {
            return Ok(());
        }
        let mut causes: Vec<_> = self.causes.iter().collect();
        // The most frequent cause first.
        causes.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
        let causes: Vec<_> = causes.into_iter().map(|(cause, names)| counted(cause, names)).collect();
        let clusters = if self.all == 1 { "cluster" } else { "clusters" };
        write!(f, "{} of {} {clusters} failed: {}", self.failed, self.all, causes.join(", "))?;
        if !self.not_begun.is_empty() {
            write!(f, "; {}", counted("not begun", &self.not_begun))?;
        }
        writeln!(f)
    }
}

/// Such as `2 unreachable (m7, m9)`.
fn counted(what: &str, names: &[String]) -> String {
    let shown = names.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} {what} ({shown}{more})", names.len())
}

/// Limits the names in the line, because each cluster also has its own line above.
const NAMES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::hop::{Hop, Refusal};
    use crate::multi::Fault;
    use crate::server_text::ServerText;

    fn outcomes(faults: Vec<Option<Fault>>) -> Vec<Outcome> {
        faults
            .into_iter()
            .enumerate()
            .map(|(at, fault)| Outcome {
                cluster: format!("m{at}").parse().unwrap(),
                result: fault.map_or(Ok(()), Err),
            })
            .collect()
    }

    #[test]
    fn failures_are_grouped_by_cause() {
        let unreachable =
            || Some(Fault::Refused(Refusal { hop: Hop::MemberUnreachable, message: ServerText::default() }));
        let forbidden = Some(Fault::Answered { reason: "Forbidden".into(), message: ServerText::default() });
        let summary = Summary::of(&outcomes(vec![None, forbidden, unreachable(), None, unreachable()]));
        assert_eq!(
            summary.to_string(),
            "3 of 5 clusters failed: 2 unreachable (m2, m4), 1 forbidden by the member (m1)\n"
        );
        assert_eq!(summary.status(), ExitStatus::SomeFailed);
    }

    #[test]
    fn empty_reach_differs_from_full_reach() {
        let seven = || Some(Fault::Kubectl { code: Some(7), reason: None });
        let summary = Summary::of(&outcomes(vec![None, None]));
        assert_eq!((summary.to_string().as_str(), summary.status()), ("", ExitStatus::Success));
        let summary = Summary::of(&outcomes(vec![seven(), seven()]));
        assert_eq!(summary.to_string(), "2 of 2 clusters failed: 2 exit code 7 (m0, m1)\n");
        assert_eq!(summary.status(), ExitStatus::AllFailed);
        let summary = Summary::of(&outcomes(vec![None, Some(Fault::NegativeAnswer)]));
        assert_eq!((summary.to_string().as_str(), summary.status()), ("", ExitStatus::Failed));
    }
}
