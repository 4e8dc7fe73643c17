//! Implements `kubectl logs` on many clusters as whole lines that name their cluster. After a lost
//! connection, a followed log resumes from the last line, with a remark.

mod lines;
mod plan;
mod pods;
mod stream;
mod tail;

use std::collections::VecDeque;
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cluster::cluster_id::ClusterId;
use tokio::sync::mpsc::{self, Sender};
use tokio::task::JoinSet;

pub(crate) use plan::LogsPlan;
pub(crate) use tail::TailPlan;
pub(super) use tail::run as run_tail;

use self::lines::Cutter;
use self::stream::{LogStream, PlainLines};
use super::failure::MemberFailure;
use super::lasting::{self, Of, SPARE};
use super::member::Member;
use super::member_deadline::MemberDeadline;
use super::task::{Ended, Merge, Task};
use super::text::Text;
use crate::cluster::client::ClientError;
use crate::multi::ordered_output::{Abort, Sink};
use crate::multi::pause::Pause;
use crate::server_text::escaped;

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

pub(super) async fn run(
    plan: &LogsPlan,
    task: &Task<'_>,
    text: &mut dyn Text,
) -> Result<Vec<Ended>, ClientError> {
    let mut sink = Texts { task, text, has_prefixes: false };
    let plan = plan.clone();
    if plan.options.follow {
        let places = task.clusters.len().saturating_add(SPARE);
        let mut members = task.members(places.saturating_mul(plan.most), MemberDeadline::each).await?;
        let follow = move |member: Member, is_late, sender: Sender<Said>| {
            member_follow(plan.clone(), member, is_late, sender)
        };
        return Ok(lasting::run(task, &mut members, follow, &mut sink).await);
    }
    let members = task.members(task.at_once().saturating_mul(BESIDE), MemberDeadline::whole).await?;
    let ask = |member: Member, sender| member_logs(plan.clone(), member, sender);
    Ok(task.run_each(members, ask, &mut sink).await)
}

/// Prints a remark for a member that has just become Ready.
async fn greet(is_late: bool, sender: &Sender<Said>) {
    if is_late {
        // The receiver may be gone.
        let _ = sender.send(Said::Remark("ready, followed from now on".to_owned())).await;
    }
}

/// Reads the logs of one member in order. Prefetches some of the later logs.
async fn member_logs(plan: LogsPlan, member: Member, sender: Sender<Said>) -> Result<(), MemberFailure> {
    let timestamps = plan.timestamps;
    let read =
        |stream: LogStream, sender: Sender<Said>| async move { stream.read(timestamps, &sender).await };
    let streams = streams(&plan, &member, &sender).await?;
    in_order(streams, BESIDE, read, &sender).await
}

/// Reads logs in order. Prefetches some of the later logs.
async fn in_order<S, F>(
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

/// Follows the logs of one member. It fails if one of them could not be opened at all.
async fn member_follow(
    plan: LogsPlan,
    member: Member,
    is_late: bool,
    sender: Sender<Said>,
) -> Result<(), MemberFailure> {
    greet(is_late, &sender).await;
    let mut pause = Pause::default();
    let streams = loop {
        match streams(&plan, &member, &sender).await {
            // The member has just become Ready and may still fail.
            Err(failure) if is_late && failure.is_passing() && !sender.is_closed() => pause.wait().await,
            streams => break streams,
        }
    };
    let streams = match streams {
        // The error text of kubectl.
        Ok(streams) if streams.len() > plan.most => Err(MemberFailure::Said(format!(
            "error: you are attempting to follow {} log streams, but maximum allowed concurrency is {}, \
             use --max-log-requests to increase the limit",
            streams.len(),
            plan.most
        ))),
        streams => streams,
    };
    let streams = match streams {
        Ok(streams) => streams,
        Err(failure) => {
            let _ = sender.send(Said::Failed(failure.clone())).await;
            return Err(failure);
        }
    };
    let mut running = JoinSet::new();
    for stream in streams {
        let sender = sender.clone();
        running.spawn(async move { stream.follow(&mut Cutter::default(), &sender).await });
    }
    all_ended(running, &sender).await
}

/// Waits for the logs of a member; fails if one of them does.
async fn all_ended(
    mut running: JoinSet<Result<(), MemberFailure>>,
    sender: &Sender<Said>,
) -> Result<(), MemberFailure> {
    let mut result = Ok(());
    while let Some(ended) = running.join_next().await {
        if let Err(failure) = ended.unwrap_or_else(|_| Err(MemberFailure::died())) {
            // The other logs of the member may run for days.
            let _ = sender.send(Said::Failed(failure.clone())).await;
            result = result.and(Err(failure));
        }
    }
    result
}

/// The logs of a plan on a member: pods in the server's order, containers in the pod's.
async fn streams(
    plan: &LogsPlan,
    member: &Member,
    sender: &Sender<Said>,
) -> Result<Vec<LogStream>, MemberFailure> {
    let namespace = member.namespace(plan.namespace.as_deref());
    let pods = pods::of(plan, member, namespace).await?;
    if pods.is_empty() {
        let _ = sender.send(Said::Remark(format!("No resources found in {namespace} namespace."))).await;
    }
    let mut streams = Vec::new();
    for pod in &pods {
        let (containers, remark) = pod.containers(&plan.containers)?;
        if let Some(remark) = remark {
            let _ = sender.send(Said::Remark(remark)).await;
        }
        for container in containers {
            // Each log has its own stream; the streams are spread over the connections.
            let most = if plan.options.follow { plan.most } else { BESIDE };
            let place = member.place.saturating_mul(most) + streams.len() % most.max(1);
            let name = &pod.metadata.name;
            let prefix =
                if plan.prefix { escaped(&format!("[pod/{name}/{container}] ")) } else { String::new() };
            // A followed log always has timestamps, as positions to resume from.
            let omits_time = plan.options.follow && !plan.timestamps;
            streams.push(LogStream {
                options: plan.options.clone(),
                member: member.at(place),
                namespace: namespace.to_owned(),
                title: format!("pod/{name}/{container}"),
                pod: name.clone(),
                id: pod.running(&container).map(str::to_owned),
                container,
                format: Arc::new(PlainLines { omits_time, prefix }),
                is_patient: false,
            });
        }
    }
    Ok(streams)
}

/// Prints text in the order of the members.
struct Texts<'a, 't> {
    task: &'a Task<'a>,
    text: &'t mut dyn Text,
    /// Whether the lines already begin with their origin.
    has_prefixes: bool,
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

/// Number of logs of one member that are read in parallel, the number that kubectl follows.
const BESIDE: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_of_a_log_fails_its_member() {
        let (sender, mut said) = mpsc::channel(1);
        let read = |is_broken: bool| async move {
            assert!(!is_broken, "a defect");
            Ok(())
        };
        let result = in_order(vec![false, true], 2, move |is_broken, _| read(is_broken), &sender).await;
        assert_eq!(result, Err(MemberFailure::died()));
        let mut running = JoinSet::new();
        running.spawn(read(false));
        running.spawn(read(true));
        assert_eq!(all_ended(running, &sender).await, Err(MemberFailure::died()));
        assert!(matches!(said.recv().await, Some(Said::Failed(_))));
    }
}
