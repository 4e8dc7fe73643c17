//! Implements `kubectl mc tail`: prints the logs of all pods whose names match a regular expression, on one
//! or many clusters. It also follows pods that start later, restarted containers, and clusters that become
//! Ready.

mod container_log;
mod follow;
mod line;
mod once;
mod plan;
mod pod_watch;
mod slots;
mod template;

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cluster::cluster_id::ClusterId;
use tokio::sync::mpsc::Sender;

pub(crate) use plan::TailPlan;

use self::line::Look;
use super::{Member, MemberDeadline, Merge, Said, Task, Text};
use crate::cluster::client::ClientError;
use crate::multi::colors::Colors;
use crate::multi::direct::lasting::{self, Of, SPARE};
use crate::multi::direct::{Ended, ended_results};
use crate::multi::ordered_output::{self, Sink};

/// The state of one `tail` for all its clusters.
struct Tail {
    plan: TailPlan,
    look: Look,
}

impl Tail {
    fn new(plan: &TailPlan, task: &Task<'_>) -> Arc<Self> {
        let is_marked = task.merge == Merge::Marked;
        let look = Look {
            colors: Colors::new(task.color, task.env).out,
            cluster: is_marked,
            width: task.clusters.iter().map(|name| name.as_str().len()).max().unwrap_or(0),
            namespace: plan.has_several_namespaces(),
        };
        Arc::new(Self { plan: plan.clone(), look })
    }

    /// Number of streaming requests to one cluster: its logs, and a watch of pods for each namespace.
    fn streams(&self) -> usize {
        self.plan.most.saturating_add(self.plan.namespaces("").len())
    }
}

/// Prints the logs. Returns the result of each cluster, including those that joined while it ran.
pub(in crate::multi::direct) async fn run(
    plan: &TailPlan,
    task: &Task<'_>,
    text: &mut dyn Text,
) -> Result<Vec<Ended>, ClientError> {
    let tail = Tail::new(plan, task);
    let mut sink = TailSink { task, text };
    if !plan.options.follow {
        let streams = task.at_once().saturating_mul(plan.most).min(MOST_STREAMS);
        let mut members = task.members(streams, MemberDeadline::whole).await?;
        let read = |member: Member, sender: Sender<Said>| {
            let tail = Arc::clone(&tail);
            async move { once::read(&tail, &member, &sender).await }
        };
        let results =
            ordered_output::run(members.all.clone(), &task.way(&members.all), read, &mut sink).await;
        members.warn(task.printer);
        let results = ended_results(results);
        return Ok(task.clusters.iter().cloned().zip(results).collect());
    }
    let places = task.clusters.len().saturating_add(SPARE);
    let streams = places.saturating_mul(tail.streams()).min(MOST_STREAMS);
    let mut members = task.members(streams, MemberDeadline::each).await?;
    let follow = move |member: Member, is_late, sender: Sender<Said>| {
        let tail = Arc::clone(&tail);
        async move {
            super::greet(is_late, &sender).await;
            let result = follow::member(tail, member, is_late, &sender).await;
            if let Err(failure) = &result {
                // The receiver may be gone.
                let _ = sender.send(Said::Failed(failure.clone())).await;
            }
            result
        }
    };
    let ended = lasting::run(task, &members, follow, &mut sink).await;
    members.warn(task.printer);
    Ok(ended)
}

/// Prints the messages.
struct TailSink<'a, 't> {
    task: &'a Task<'a>,
    text: &'t mut dyn Text,
}

impl TailSink<'_, '_> {
    fn print(&mut self, cluster: &ClusterId, said: Said) -> ControlFlow<()> {
        match said {
            Said::Lines(lines) | Said::Last(lines) => return self.task.printer.stream(&lines),
            Said::Remark(remark) => self.text.remark(cluster, &remark),
            Said::Failed(failure) => self.text.failed(cluster, &failure),
        }
        ControlFlow::Continue(())
    }
}

/// For logs that are read once.
impl Sink<Said> for TailSink<'_, '_> {
    fn take(&mut self, place: usize, said: Said) -> ControlFlow<()> {
        let Some(cluster) = self.task.clusters.get(place) else { return ControlFlow::Continue(()) };
        self.print(cluster, said)
    }
}

/// For followed logs.
impl Sink<Of<Said>> for TailSink<'_, '_> {
    fn take(&mut self, _: usize, Of { member, piece }: Of<Said>) -> ControlFlow<()> {
        self.print(&member.name, piece)
    }
}

/// With 80 streams per connection. More connections could overload the host.
const MOST_STREAMS: usize = 80 * 256;
