//! Implements `kubectl logs` on many clusters as whole lines that name their cluster. After a lost
//! connection, a followed log resumes from the last line, with a remark.

mod lines;
mod options;
mod plan;
mod pods;
mod said;
mod stream;
mod tail;

use std::sync::Arc;

use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

pub(crate) use plan::LogsPlan;
pub(crate) use tail::TailPlan;
pub(super) use tail::run as run_tail;

use self::lines::Cutter;
use self::said::{Said, Texts, greet, in_order};
use self::stream::{LogStream, PlainLines};
use super::lasting::{self, SPARE};
use super::member::Member;
use super::member_deadline::MemberDeadline;
use super::task::{Ended, Task};
use super::text::Text;
use crate::cluster::client::ClientError;
use crate::multi::fault::Fault;
use crate::multi::pause::Pause;
use crate::server_text::escaped;

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

/// Reads the logs of one member in order. Prefetches some of the later logs.
async fn member_logs(plan: LogsPlan, member: Member, sender: Sender<Said>) -> Result<(), Fault> {
    let timestamps = plan.timestamps;
    let read =
        |stream: LogStream, sender: Sender<Said>| async move { stream.read(timestamps, &sender).await };
    let streams = streams(&plan, &member, &sender).await?;
    in_order(streams, BESIDE, read, &sender).await
}

/// Follows the logs of one member. It fails if one of them could not be opened at all.
async fn member_follow(
    plan: LogsPlan,
    member: Member,
    is_late: bool,
    sender: Sender<Said>,
) -> Result<(), Fault> {
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
        Ok(streams) if streams.len() > plan.most => Err(Fault::said(format!(
            "you are attempting to follow {} log streams, but maximum allowed concurrency is {}, \
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
async fn all_ended(mut running: JoinSet<Result<(), Fault>>, sender: &Sender<Said>) -> Result<(), Fault> {
    let mut result = Ok(());
    while let Some(ended) = running.join_next().await {
        if let Err(failure) = ended.unwrap_or_else(|_| Err(Fault::died())) {
            // The other logs of the member may run for days.
            let _ = sender.send(Said::Failed(failure.clone())).await;
            result = result.and(Err(failure));
        }
    }
    result
}

/// The logs of a plan on a member: pods in the server's order, containers in the pod's.
async fn streams(plan: &LogsPlan, member: &Member, sender: &Sender<Said>) -> Result<Vec<LogStream>, Fault> {
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

/// Number of logs of one member that are read in parallel, the number that kubectl follows.
const BESIDE: usize = 5;

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn panic_of_a_log_fails_its_member() {
        let (sender, mut said) = mpsc::channel(1);
        let read = |is_broken: bool| async move {
            assert!(!is_broken, "a defect");
            Ok(())
        };
        let result = in_order(vec![false, true], 2, move |is_broken, _| read(is_broken), &sender).await;
        assert_eq!(result, Err(Fault::died()));
        let mut running = JoinSet::new();
        running.spawn(read(false));
        running.spawn(read(true));
        assert_eq!(all_ended(running, &sender).await, Err(Fault::died()));
        assert!(matches!(said.recv().await, Some(Said::Failed(_))));
    }
}
