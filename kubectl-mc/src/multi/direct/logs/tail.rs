//! `kubectl mc tail`: the logs of all pods whose names match a regular expression, on one cluster or on many. Pods that
//! start later and containers that start again are followed too, and so are clusters that become Ready.

mod container_log;
mod follow;
mod line;
mod once;
mod plan;
mod pod_watch;
mod slots;
mod template;

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use kubectl_mc_api::ClusterName;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) use plan::TailPlan;

use self::line::Look;
use super::{Member, MemberDeadline, MemberFailure, Merge, Said, Task, Text};
use crate::cluster::client::ClientError;
use crate::multi::colors::Colors;
use crate::multi::direct::Ended;
use crate::multi::direct::arrivals::{Arrivals, Names};
use crate::multi::direct::member::Members;
use crate::multi::ordered_output::{self, Sink};

/// What the logs of one cluster say.
struct Piece {
    cluster: ClusterName,
    said: Said,
}

/// One `tail`, as all its clusters need it.
struct Tail {
    plan: TailPlan,
    /// None is all of them.
    namespaces: Vec<Option<String>>,
    look: Look,
}

impl Tail {
    fn new(plan: &TailPlan, task: &Task<'_>) -> Arc<Self> {
        let namespaces = plan.namespaces(|| task.namespace(None));
        let is_marked = task.merge == Merge::Marked;
        let look = Look {
            colors: Colors::new(task.color, task.env).out,
            cluster: is_marked,
            width: task.clusters.iter().map(|name| name.as_str().len()).max().unwrap_or(0),
            namespace: namespaces.len() > 1 || namespaces.contains(&None),
        };
        Arc::new(Self { plan: plan.clone(), namespaces, look })
    }

    /// Lasting requests of one cluster: its logs, and a watch of pods for each namespace.
    fn streams(&self) -> usize {
        self.plan.most.saturating_add(self.namespaces.len())
    }
}

/// Shows the logs. What came of it at each cluster, those included that joined while it ran.
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
        let read = |member: Member, sender| {
            let (tail, cluster) = (Arc::clone(&tail), member.name.clone());
            forwarded(cluster, sender, |sender| async move { once::read(&tail, &member, &sender).await })
        };
        let results =
            ordered_output::run(members.all.clone(), &task.way(&members.all), read, &mut sink).await;
        members.warn(task.printer);
        let results = results.unwrap_or_default().into_iter().map(|result| result.unwrap_or(Ok(())));
        return Ok(task.clusters.iter().cloned().zip(results).collect());
    }
    let places = task.clusters.len().max(SPARE).saturating_mul(2);
    let streams = places.saturating_mul(tail.streams()).min(MOST_STREAMS);
    let mut members = task.members(streams, MemberDeadline::each).await?;
    let arrivals = Arrivals::follow(&members.login, task);
    let parts = parts(&members, &arrivals, task);
    let (going, _) = watch::channel(parts.iter().filter(|part| matches!(part, Part::Now(_))).count());
    let follow = |part: Part, sender| part.follow(Arc::clone(&tail), sender, going.clone());
    let ended = ordered_output::run_unordered(parts, follow, &mut sink).await;
    members.warn(task.printer);
    let ended: BTreeMap<_, _> = ended.into_iter().flatten().flatten().flatten().collect();
    let is_known = |(name, _): &Ended| !task.clusters.contains(name);
    let at_start = task.clusters.iter().map(|name| (name.clone(), ended.get(name).cloned()));
    let at_start = at_start.map(|(name, result)| {
        let not_ready = task.not_ready.iter().find(|(other, _)| *other == name);
        let absent = || not_ready.map_or(Ok(()), |(_, why)| Err(MemberFailure::NotReady(why.clone())));
        (name, result.unwrap_or_else(absent))
    });
    Ok(at_start.collect::<Vec<_>>().into_iter().chain(ended.clone().into_iter().filter(is_known)).collect())
}

fn parts(members: &Members, arrivals: &Arrivals, task: &Task<'_>) -> Vec<Part> {
    let is_ready = |member: &&Member| task.not_ready.iter().all(|(name, _)| *name != member.name);
    let mut parts: Vec<_> = members.all.iter().filter(is_ready).cloned().map(Part::Now).collect();
    if let Some(names) = arrivals.subscribe() {
        let known = members.all.iter().map(|member| (member.name.clone(), member.clone())).collect();
        let next = members.all.len();
        let model = members.all.first().cloned();
        parts.extend(model.map(|model| Part::Later { known, model, next, names }));
    }
    parts
}

/// What runs beside each other.
enum Part {
    /// A cluster that was there at the start.
    Now(Member),
    /// All clusters that become Ready later.
    Later {
        known: BTreeMap<ClusterName, Member>,
        /// Any member, of which one for a cluster that joins is made.
        model: Member,
        /// The place of the next cluster that joins.
        next: usize,
        names: watch::Receiver<Names>,
    },
}

impl Part {
    async fn follow(self, tail: Arc<Tail>, sender: Sender<Piece>, going: watch::Sender<usize>) -> Vec<Ended> {
        match self {
            Self::Now(member) => {
                let ended = follow_member(tail, member, false, sender).await;
                going.send_modify(|going| *going -= 1);
                vec![ended]
            }
            Self::Later { known, model, mut next, mut names } => {
                let (mut others, mut running) = (going.subscribe(), JoinSet::new());
                let (mut taken, mut all) = (HashSet::new(), Vec::new());
                loop {
                    tokio::select! {
                        biased;
                        () = sender.closed() => return all,
                        // Waiting alone, it would wait for ever.
                        _ = others.wait_for(|going| *going == 0) => return all,
                        Some(ended) = running.join_next() => {
                            all.extend(ended);
                            going.send_modify(|going| *going -= 1);
                            continue;
                        }
                        Ok(()) = names.changed() => {}
                    }
                    let arrived: Vec<_> = names.borrow_and_update().iter().cloned().collect();
                    for name in arrived.into_iter().filter(|name| taken.insert(name.clone())) {
                        let member = known.get(&name).cloned().unwrap_or_else(|| {
                            next += 1;
                            model.another(name, next - 1)
                        });
                        going.send_modify(|going| *going += 1);
                        running.spawn(follow_member(Arc::clone(&tail), member, true, sender.clone()));
                    }
                }
            }
        }
    }
}

async fn follow_member(tail: Arc<Tail>, member: Member, is_late: bool, sender: Sender<Piece>) -> Ended {
    let cluster = member.name.clone();
    let result = forwarded(cluster.clone(), sender, |sender| async move {
        if is_late {
            let _ = sender.send(Said::Remark("ready, followed from now on".to_owned())).await;
        }
        let result = follow::member(tail, member, is_late, &sender).await;
        if let Err(failure) = &result {
            let _ = sender.send(Said::Failed(failure.clone())).await;
        }
        result
    });
    (cluster, result.await)
}

/// Does the work of a cluster, and names the cluster with all it says.
async fn forwarded<F, R>(
    cluster: ClusterName,
    sender: Sender<Piece>,
    work: impl FnOnce(Sender<Said>) -> F,
) -> R
where
    F: Future<Output = R>,
{
    let (own, mut said) = mpsc::channel(1);
    let pass_on = async move {
        while let Some(said) = said.recv().await {
            if sender.send(Piece { cluster: cluster.clone(), said }).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(work(own), pass_on).0
}

/// Prints what comes.
struct TailSink<'a, 't> {
    task: &'a Task<'a>,
    text: &'t mut dyn Text,
}

impl Sink<Piece> for TailSink<'_, '_> {
    fn take(&mut self, _: usize, Piece { cluster, said }: Piece) -> ControlFlow<()> {
        match said {
            Said::Lines(lines) | Said::Last(lines) => return self.task.printer.stream(&lines),
            Said::Remark(remark) => self.text.remark(&cluster, &remark),
            Said::Failed(failure) => self.text.failed(&cluster, &failure),
        }
        ControlFlow::Continue(())
    }
}

/// Connections of 80 streams: more would be a denial of service.
const MOST_STREAMS: usize = 80 * 256;
/// Clusters that may join while it runs, at least.
const SPARE: usize = 8;
