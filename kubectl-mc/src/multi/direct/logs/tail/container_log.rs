//! Follows the log of one container across restarts.

use std::sync::Arc;

use tokio::sync::mpsc::Sender;
use tokio::sync::watch;

use super::super::lines::Cutter;
use super::super::pods::Pod;
use super::super::said::Said;
use super::super::stream::LogStream;
use super::line::{Origin, Tail, TailLines};
use super::slots::Slots;
use crate::multi::direct::member::Member;
use crate::multi::fault::Fault;

/// The matching logs of a pod.
pub(super) fn streams_of<'a>(
    tail: &'a Arc<Tail>,
    member: &'a Member,
    pod: &'a Pod,
) -> impl Iterator<Item = LogStream> + 'a {
    let wanted = pod.logs().filter(|(container, _)| tail.plan.containers.want(container.as_bytes()));
    wanted.map(move |(container, run)| {
        let metadata = &pod.metadata;
        let origin = Origin {
            cluster: member.name.clone(),
            place: member.place,
            namespace: metadata.namespace.clone(),
            pod: metadata.name.clone(),
            container: container.to_owned(),
            node: pod.node().to_owned(),
        };
        LogStream {
            options: tail.plan.options.clone(),
            member: member.clone(),
            namespace: metadata.namespace.clone(),
            pod: metadata.name.clone(),
            container: container.to_owned(),
            id: Some(run.to_owned()),
            format: Arc::new(TailLines::new(Arc::clone(tail), origin)),
            title: match tail.look.namespace {
                true => format!("{}/{}/{container}", metadata.namespace, metadata.name),
                false => format!("{}/{container}", metadata.name),
            },
            is_patient: true,
        }
    })
}

/// One container, whose runs are followed one after the other.
pub(super) struct ContainerLog {
    pub(super) stream: LogStream,
    /// The current run. The sender is dropped with the pod.
    pub(super) run: watch::Receiver<String>,
    pub(super) slots: Arc<Slots>,
    /// The position of the cluster's first log among all streams.
    pub(super) first_place: usize,
    /// Number of logs of the cluster that are followed in parallel.
    pub(super) most: usize,
}

impl ContainerLog {
    /// Follows the container until the pod is gone. A failure ends only this log.
    pub(super) async fn follow(mut self, sender: &Sender<Said>) {
        // One cutter for all runs, so that no line is repeated if the logs of two runs overlap.
        let mut cutter = Cutter::default();
        loop {
            self.stream.id = Some(self.run.borrow_and_update().clone());
            let title = self.stream.title.clone();
            let waits = || self.waits(&title, sender);
            let slot = self.slots.take(waits).await;
            self.stream.member = self.stream.member.at(self.first_place + slot.place);
            let _ = sender.send(Said::Remark(format!("+ {title}"))).await;
            match self.stream.follow(&mut cutter, sender).await {
                // The pod is gone, or the container is about to restart.
                Ok(()) | Err(Fault::Server { code: 400 | 404, .. }) => {
                    let _ = sender.send(Said::Remark(format!("- {title}"))).await;
                }
                Err(failure) => drop(sender.send(Said::Failed(failure)).await),
            }
            drop(slot);
            if sender.is_closed() || self.run.changed().await.is_err() {
                return;
            }
            // Everything in later runs is new.
            self.stream.options = self.stream.options.whole();
        }
    }

    async fn waits(&self, title: &str, sender: &Sender<Said>) {
        let remark = format!(
            "{title} and later logs wait: {} are followed already; --max-log-requests raises the limit",
            self.most
        );
        let _ = sender.send(Said::Remark(remark)).await;
    }
}
