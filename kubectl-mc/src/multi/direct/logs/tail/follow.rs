//! Follows the logs of one cluster, for all pods that match now or later.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::super::pods::Pod;
use super::super::said::Said;
use super::container_log::{ContainerLog, streams_of};
use super::line::Tail;
use super::pod_watch::{PodEvent, PodWatch};
use super::slots::Slots;
use crate::multi::direct::member::Member;
use crate::multi::fault::Fault;

/// Follows the logs until standard output is closed, or the pods cannot be watched.
pub(super) async fn member(
    tail: Arc<Tail>,
    member: Member,
    is_late: bool,
    sender: &Sender<Said>,
) -> Result<(), Fault> {
    let first_place = member.place.saturating_mul(tail.streams());
    let (events_of, mut events) = mpsc::channel(AHEAD);
    let mut watches = JoinSet::new();
    let namespaces = tail.plan.namespaces(member.namespace(None));
    let count = namespaces.len();
    for (at, namespace) in namespaces.into_iter().enumerate() {
        let (tail, events) = (Arc::clone(&tail), events_of.clone());
        let member = member.at(first_place + tail.plan.most + at);
        watches.spawn(async move {
            let (own, mut told) = mpsc::channel(1);
            let watch = PodWatch { tail: &tail, member: &member, namespace: namespace.as_deref() };
            let pass_on = async move {
                while let Some(event) = told.recv().await {
                    if events.send((at, event)).await.is_err() {
                        return;
                    }
                }
            };
            let follow = async move { watch.follow(is_late, &own).await };
            tokio::join!(follow, pass_on).0
        });
    }
    drop(events_of);
    let mut logs = Logs {
        slots: Arc::new(Slots::new(tail.plan.most)),
        unlisted: (0..count).collect(),
        first: Vec::new(),
        first_place,
        containers: HashMap::new(),
        running: JoinSet::new(),
        tail,
        member,
        sender,
    };
    let mut result = Ok(());
    loop {
        tokio::select! {
            biased;
            () = sender.closed() => return Ok(()),
            Some(_) = logs.running.join_next() => {}
            Some((at, event)) = events.recv() => logs.take(at, event).await?,
            ended = watches.join_next() => match ended {
                // The pods of the other namespaces are still watched.
                Some(Ok(Err(failure))) if !watches.is_empty() => {
                    let _ = sender.send(Said::Failed(failure.clone())).await;
                    result = Err(failure);
                }
                Some(Ok(Err(failure))) => return Err(failure),
                Some(_) => {}
                None => return result,
            },
        }
    }
}

/// The followed logs.
struct Logs<'a> {
    tail: Arc<Tail>,
    member: Member,
    slots: Arc<Slots>,
    first_place: usize,
    /// Namespaces whose pods are not listed yet.
    unlisted: HashSet<usize>,
    /// The pods at the start, until all namespaces are listed.
    first: Vec<(usize, Pod)>,
    containers: HashMap<Container, watch::Sender<String>>,
    running: JoinSet<()>,
    sender: &'a Sender<Said>,
}

/// A container of a pod, seen by the watch of a namespace.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Container {
    watch: usize,
    pod: String,
    name: String,
}

impl Logs<'_> {
    async fn take(&mut self, at: usize, event: PodEvent) -> Result<(), Fault> {
        match event {
            PodEvent::Listed(pods) if self.unlisted.remove(&at) => {
                self.first.extend(pods.into_iter().map(|pod| (at, pod)));
                if self.unlisted.is_empty() {
                    self.begin().await?;
                }
            }
            PodEvent::Listed(pods) => {
                let there: HashSet<_> = pods.iter().map(|pod| pod.metadata.uid.clone()).collect();
                self.containers
                    .retain(|container, _| container.watch != at || there.contains(&container.pod));
                pods.iter().for_each(|pod| self.follow(at, pod, true));
            }
            PodEvent::Changed(pod) if !self.unlisted.is_empty() => self.first.push((at, pod)),
            PodEvent::Changed(pod) => self.follow(at, &pod, true),
            PodEvent::Deleted(pod) => {
                self.first.retain(|(_, other)| other.metadata.uid != pod.metadata.uid);
                self.containers.retain(|container, _| container.pod != pod.metadata.uid);
            }
            PodEvent::Remark(remark) => drop(self.sender.send(Said::Remark(remark)).await),
        }
        Ok(())
    }

    /// Follows the logs that exist at the start, unless there are too many.
    async fn begin(&mut self) -> Result<(), Fault> {
        let pods = std::mem::take(&mut self.first);
        let running = |pod: &Pod| {
            let streams = streams_of(&self.tail, &self.member, pod);
            streams.filter(|stream| pod.running(&stream.container).is_some()).count()
        };
        let (count, most) = (pods.iter().map(|(_, pod)| running(pod)).sum::<usize>(), self.tail.plan.most);
        if count > most {
            return Err(Fault::said(format!(
                "{count} logs match, but at most {most} are followed at a time: match fewer pods, or use \
                 --max-log-requests={count}"
            )));
        }
        if pods.is_empty() {
            let _ = self.sender.send(Said::Remark("no pod matches yet".to_owned())).await;
        }
        pods.iter().for_each(|(at, pod)| self.follow(*at, pod, false));
        Ok(())
    }

    /// Starts to follow the other logs of a pod. `is_new` requests the whole log.
    fn follow(&mut self, at: usize, pod: &Pod, is_new: bool) {
        let tail = Arc::clone(&self.tail);
        let streams: Vec<_> = streams_of(&tail, &self.member, pod).collect();
        for mut stream in streams {
            let Some(run) = stream.id.clone() else { continue };
            let container =
                Container { watch: at, pod: pod.metadata.uid.clone(), name: stream.container.clone() };
            if let Some(known) = self.containers.get(&container) {
                known.send_if_modified(|known| {
                    let is_other = *known != run;
                    *known = run;
                    is_other
                });
                continue;
            }
            if is_new {
                stream.options = stream.options.whole();
            }
            let (known, run) = watch::channel(run);
            self.containers.insert(container, known);
            let log = ContainerLog {
                stream,
                run,
                slots: Arc::clone(&self.slots),
                first_place: self.first_place,
                most: self.tail.plan.most,
            };
            let sender = self.sender.clone();
            self.running.spawn(async move { log.follow(&sender).await });
        }
    }
}

/// Maximum number of buffered pod events.
const AHEAD: usize = 16;
