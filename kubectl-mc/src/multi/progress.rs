//! Shows the progress of a slow command on a terminal's standard error.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::cluster_id::ClusterId;
use indicatif::ProgressBar;
use tokio::sync::watch;

use crate::printer::Printer;
use crate::progress::Line;

/// The number of finished clusters, and the running ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterProgress(Arc<watch::Sender<State>>);

#[derive(Debug, Default)]
struct State {
    all: usize,
    waiting: BTreeSet<ClusterId>,
    succeeded: BTreeSet<ClusterId>,
    bar: Option<ProgressBar>,
}

impl ClusterProgress {
    /// Adds clusters to wait for.
    pub(crate) fn wait_for<'a>(&self, clusters: impl Iterator<Item = &'a ClusterId>) {
        let waiting: BTreeSet<_> = clusters.cloned().collect();
        self.0.send_modify(|state| (state.all, state.waiting) = (waiting.len(), waiting));
        self.0.borrow().draw();
    }

    /// Removes a finished cluster.
    pub(crate) fn ended(&self, cluster: &ClusterId) {
        self.0.send_modify(|state| drop(state.waiting.take(cluster)));
        self.0.borrow().draw();
    }

    /// Records that the command succeeded on a cluster.
    pub(super) fn succeeded(&self, cluster: &ClusterId) {
        self.0.send_modify(|state| {
            state.succeeded.insert(cluster.clone());
        });
    }

    pub(super) fn has_succeeded(&self, cluster: &ClusterId) -> bool {
        self.0.borrow().succeeded.contains(cluster)
    }

    /// Shows the progress after a delay, until the future is dropped.
    pub(super) async fn show(&self, printer: &Printer) {
        tokio::time::sleep(AFTER).await;
        let line = Line::draw(printer, self.0.borrow().message());
        self.0.send_modify(|state| state.bar = Some(line.bar().clone()));
        self.0.borrow().draw();
        std::future::pending().await
    }
}

impl State {
    fn draw(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message(self.message());
        }
    }

    /// Such as `12 of 40 clusters, waiting for m7, m9 …`.
    fn message(&self) -> String {
        let names: Vec<_> = self.waiting.iter().take(NAMES).map(ClusterId::as_str).collect();
        let done = format!("{} of {} clusters", self.all - self.waiting.len(), self.all);
        match self.waiting.len() {
            0 => done,
            waiting if waiting > NAMES => format!("{done}, waiting for {} …", names.join(", ")),
            _ => format!("{done}, waiting for {}", names.join(", ")),
        }
    }
}

/// A shorter delay would make the line flicker.
const AFTER: Duration = Duration::from_millis(500);
/// The line must fit the terminal.
const NAMES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_message_counts_and_names_clusters() {
        let names: Vec<ClusterId> = (1..=6).map(|at| format!("m{at}").parse().unwrap()).collect();
        let progress = ClusterProgress::default();
        progress.wait_for(names.iter());
        progress.ended(&names[0]);
        assert_eq!(progress.0.borrow().message(), "1 of 6 clusters, waiting for m2, m3, m4, m5 …");
        progress.ended(&names[1]);
        assert_eq!(progress.0.borrow().message(), "2 of 6 clusters, waiting for m3, m4, m5, m6");
        progress.wait_for(names[..1].iter());
        progress.ended(&names[0]);
        assert_eq!(progress.0.borrow().message(), "1 of 1 clusters");
    }
}
