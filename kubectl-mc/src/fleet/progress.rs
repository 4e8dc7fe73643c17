//! How far it is, on a terminal's standard error only, and only when it takes longer than one likes to
//! wait without a word.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kubectl_mc_api::ClusterName;

/// How many clusters have ended, and who is waited for.
pub(super) struct Progress {
    all: usize,
    waiting: RefCell<BTreeSet<ClusterName>>,
    /// There is a terminal to show it on.
    shows: bool,
    bar: Cell<Option<ProgressBar>>,
}

impl Progress {
    /// `quiet`: the lines of the command itself show that it goes on.
    pub(super) fn new<'a>(clusters: impl Iterator<Item = &'a ClusterName>, quiet: bool) -> Self {
        let waiting: BTreeSet<_> = clusters.cloned().collect();
        let shows = !quiet && io::stderr().is_terminal();
        Self { all: waiting.len(), waiting: RefCell::new(waiting), shows, bar: Cell::new(None) }
    }

    /// Begins to show it after a while; never ends.
    pub(super) async fn show(&self) {
        if !self.shows {
            return std::future::pending().await;
        }
        tokio::time::sleep(AFTER).await;
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.set_message(self.message());
        bar.enable_steady_tick(TICK);
        self.bar.set(Some(bar));
        std::future::pending().await
    }

    /// A cluster needs no more waiting for.
    pub(super) fn ended(&self, cluster: &ClusterName) {
        self.waiting.borrow_mut().remove(cluster);
        if let Some(bar) = self.bar.take() {
            bar.set_message(self.message());
            self.bar.set(Some(bar));
        }
    }

    /// Does something that writes, with nothing in its way.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        match self.bar.take() {
            Some(bar) => {
                bar.suspend(write);
                self.bar.set(Some(bar));
            }
            None => write(),
        }
    }

    /// `12 of 40 clusters, waiting for m7, m9 …`
    fn message(&self) -> String {
        let waiting = self.waiting.borrow();
        let names: Vec<_> = waiting.iter().take(NAMES).map(ClusterName::as_str).collect();
        let more = if waiting.len() > NAMES { " …" } else { "" };
        format!(
            "{} of {} clusters, waiting for {}{more}",
            self.all - waiting.len(),
            self.all,
            names.join(", ")
        )
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Sooner it would only flicker.
const AFTER: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(100);
/// The line must fit the terminal.
const NAMES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_many_and_whom() {
        let names: Vec<ClusterName> = (1..=6).map(|at| format!("m{at}").parse().unwrap()).collect();
        let progress = Progress::new(names.iter(), false);
        progress.ended(&names[0]);
        assert_eq!(progress.message(), "1 of 6 clusters, waiting for m2, m3, m4, m5 …");
        progress.ended(&names[1]);
        assert_eq!(progress.message(), "2 of 6 clusters, waiting for m3, m4, m5, m6");
    }
}
