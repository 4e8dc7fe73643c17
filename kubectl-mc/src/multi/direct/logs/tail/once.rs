//! Reads the current logs of one cluster, pod by pod.

use std::sync::Arc;

use tokio::sync::mpsc::{self, Sender};

use super::super::said::{Said, in_order};
use super::super::stream::LogStream;
use super::container_log::streams_of;
use super::line::Tail;
use super::pod_watch::PodWatch;
use crate::multi::direct::member::Member;
use crate::multi::fault::Fault;

/// Reads the logs. The error of one log is printed immediately, and the other logs are still read.
pub(super) async fn read(tail: &Arc<Tail>, member: &Member, sender: &Sender<Said>) -> Result<(), Fault> {
    let mut streams = Vec::new();
    for namespace in &tail.plan.namespaces(member.namespace(None)) {
        let (pods, _) = PodWatch { tail, member, namespace: namespace.as_deref() }.list().await?;
        streams.extend(pods.iter().flat_map(|pod| streams_of(tail, member, pod)));
    }
    if streams.is_empty() {
        let _ = sender.send(Said::Remark("no log matches".to_owned())).await;
    }
    for (at, stream) in streams.iter_mut().enumerate() {
        let most = tail.plan.most;
        stream.member = member.at(member.place.saturating_mul(most) + at % most);
    }
    let (failed, mut failures) = mpsc::unbounded_channel();
    let read = |stream: LogStream, sender: Sender<Said>| {
        let failed = failed.clone();
        async move {
            let result = stream.read(true, &sender).await;
            if let Err(failure) = result {
                let _ = sender.send(Said::Failed(failure.clone())).await;
                let _ = failed.send(failure);
            }
            Ok(())
        }
    };
    in_order(streams, tail.plan.most, read, sender).await?;
    failures.try_recv().map_or(Ok(()), Err)
}
