//! `kubectl logs` on many clusters as whole lines that name their cluster. A followed log resumes after a drop from
//! the last line, with a remark.

mod lines;
mod plan;
mod pods;
mod stream;

use std::ops::ControlFlow;

use tokio::sync::mpsc::Sender;

pub(crate) use plan::LogsPlan;

use self::stream::LogStream;
use super::failure::MemberFailure;
use super::member::Member;
use super::{Merge, Task, Text};
use crate::cluster::client::ClientError;
use crate::multi::ordered_output::{self, Sink};

/// What the logs of one member say.
pub(super) enum Said {
    /// Whole lines.
    Lines(Vec<u8>),
    /// The last line of a log, which may have no end.
    Last(Vec<u8>),
    Remark(String),
}

pub(super) async fn run(
    plan: &LogsPlan,
    task: &Task<'_>,
    text: &mut dyn Text,
) -> Result<Vec<Result<(), MemberFailure>>, ClientError> {
    let streams = plan.follow.then(|| task.clusters.len().saturating_mul(plan.most));
    let mut members = task.members(streams).await?;
    let namespace = task.namespace(plan.namespace.as_deref());
    let (all, mut sink) = (members.all.clone(), Texts { task, text });
    let results = if plan.follow {
        let ask = |member: Member, sender| member_follow(plan.clone(), member, namespace.clone(), sender);
        ordered_output::run_unordered(all, ask, &mut sink).await
    } else {
        let ask = |member: Member, sender| member_logs(plan.clone(), member, namespace.clone(), sender);
        ordered_output::run(all, &task.way(&members.all), ask, &mut sink).await
    };
    members.warn(task.printer);
    Ok(results.unwrap_or_default().into_iter().map(|result| result.unwrap_or(Ok(()))).collect())
}

/// One member's logs, one after the other.
async fn member_logs(
    plan: LogsPlan,
    member: Member,
    namespace: String,
    sender: Sender<Said>,
) -> Result<(), MemberFailure> {
    for stream in streams(&plan, &member, &namespace, &sender).await? {
        stream.read(&sender).await?;
    }
    Ok(())
}

/// One member's logs as they come. It has failed when one of them could not be had at all.
async fn member_follow(
    plan: LogsPlan,
    member: Member,
    namespace: String,
    sender: Sender<Said>,
) -> Result<(), MemberFailure> {
    let streams = streams(&plan, &member, &namespace, &sender).await?;
    if streams.len() > plan.most {
        // kubectl's own words.
        return Err(MemberFailure::Said(format!(
            "error: you are attempting to follow {} log streams, but maximum allowed concurrency is {}, \
             use --max-log-requests to increase the limit",
            streams.len(),
            plan.most
        )));
    }
    let mut running = tokio::task::JoinSet::new();
    for stream in streams {
        let sender = sender.clone();
        running.spawn(async move { stream.follow(&sender).await });
    }
    drop(sender);
    let mut result = Ok(());
    while let Some(ended) = running.join_next().await {
        if let (Ok(()), Ok(ended)) = (&result, ended) {
            result = ended;
        }
    }
    result
}

/// The logs that a plan means at a member: pods in the server's order, containers in the pod's.
async fn streams(
    plan: &LogsPlan,
    member: &Member,
    namespace: &str,
    sender: &Sender<Said>,
) -> Result<Vec<LogStream>, MemberFailure> {
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
            // Each on a stream of its own, spread over the connections.
            let place = member.place * plan.most + streams.len();
            streams.push(LogStream {
                plan: plan.clone(),
                member: member.at(place),
                namespace: namespace.to_owned(),
                pod: pod.metadata.name.clone(),
                id: pod.running(&container).map(str::to_owned),
                container,
            });
        }
    }
    Ok(streams)
}

/// Text in the order of the members.
struct Texts<'a, 't> {
    task: &'a Task<'a>,
    text: &'t mut dyn Text,
}

impl Sink<Said> for Texts<'_, '_> {
    fn take(&mut self, place: usize, said: Said) -> ControlFlow<()> {
        let Some(cluster) = self.task.clusters.get(place) else { return ControlFlow::Continue(()) };
        match said {
            Said::Lines(lines) => self.text.out(cluster, &lines),
            Said::Last(mut line) => {
                // Other logs of the cluster may follow; kubectl leaves it as it is.
                if self.task.merge == Merge::Marked && !line.is_empty() && !line.ends_with(b"\n") {
                    line.push(b'\n');
                }
                self.text.out(cluster, &line)
            }
            Said::Remark(remark) => {
                self.text.remark(cluster, &remark);
                ControlFlow::Continue(())
            }
        }
    }

    fn end(&mut self, place: usize) {
        if let Some(cluster) = self.task.clusters.get(place) {
            self.text.end(cluster);
        }
    }
}
