//! The messages from the logs of one member, and the code that reads them in order and prints them.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::ControlFlow;

use tokio::sync::mpsc::{self, Sender};

use crate::cluster::cluster_id::ClusterId;
use crate::multi::direct::failure::MemberFailure;
use crate::multi::direct::lasting::Of;
use crate::multi::direct::task::{Merge, Task};
use crate::multi::direct::text::Text;
use crate::multi::ordered_output::{Abort, Sink};

/// A message from the logs of one member.
pub(super) enum Said {
    /// Whole lines.
    Lines(Vec<u8>),
    /// The last line of a log, which may lack a line break.
    Last(Vec<u8>),
    Remark(String),
    /// One of the logs failed.
    Failed(MemberFailure),
}

/// Prints a remark for a member that has just become Ready.
pub(super) async fn greet(is_late: bool, sender: &Sender<Said>) {
    if is_late {
        // The receiver may be gone.
        let _ = sender.send(Said::Remark("ready, followed from now on".to_owned())).await;
    }
}

/// Reads logs in order. Prefetches some of the later logs.
pub(super) async fn in_order<S, F>(
    streams: Vec<S>,
    beside: usize,
    read: impl Fn(S, Sender<Said>) -> F,
    sender: &Sender<Said>,
) -> Result<(), MemberFailure>
where
    F: Future<Output = Result<(), MemberFailure>> + Send + 'static,
{
    let begin = |stream: S| {
        let (sender, said) = mpsc::channel(1);
        (said, Abort(tokio::spawn(read(stream, sender))))
    };
    let mut waiting = streams.into_iter();
    let mut running: VecDeque<_> = waiting.by_ref().take(beside).map(begin).collect();
    while let Some((mut said, mut log)) = running.pop_front() {
        while let Some(said) = said.recv().await {
            if sender.send(said).await.is_err() {
                return Ok(());
            }
        }
        (&mut log.0).await.unwrap_or_else(|_| Err(MemberFailure::died()))?;
        running.extend(waiting.next().map(begin));
    }
    Ok(())
}

/// Prints text in the order of the members.
pub(super) struct Texts<'a, 't> {
    pub(super) task: &'a Task<'a>,
    pub(super) text: &'t mut dyn Text,
    /// Whether the lines already begin with their origin.
    pub(super) has_prefixes: bool,
}

impl Texts<'_, '_> {
    fn print(&mut self, cluster: &ClusterId, said: Said) -> ControlFlow<()> {
        match said {
            Said::Lines(lines) | Said::Last(lines) if self.has_prefixes => {
                return self.task.printer.stream(&lines);
            }
            Said::Lines(lines) => return self.text.out(cluster, &lines),
            Said::Last(mut line) => {
                // Other logs of the cluster may follow; kubectl leaves the last line unchanged.
                if self.task.merge == Merge::Marked && !line.is_empty() && !line.ends_with(b"\n") {
                    line.push(b'\n');
                }
                return self.text.out(cluster, &line);
            }
            Said::Remark(remark) => self.text.remark(cluster, &remark),
            Said::Failed(failure) => self.text.failed(cluster, &failure),
        }
        ControlFlow::Continue(())
    }
}

/// For followed logs.
impl Sink<Of<Said>> for Texts<'_, '_> {
    fn take(&mut self, _: usize, Of { member, piece }: Of<Said>) -> ControlFlow<()> {
        self.print(&member.name, piece)
    }
}

/// For logs that are read once.
impl Sink<Said> for Texts<'_, '_> {
    fn take(&mut self, place: usize, said: Said) -> ControlFlow<()> {
        let Some(cluster) = self.task.clusters.get(place) else { return ControlFlow::Continue(()) };
        self.print(cluster, said)
    }

    fn end(&mut self, place: usize) {
        if let Some(cluster) = self.task.clusters.get(place) {
            self.text.end(cluster);
        }
    }
}
