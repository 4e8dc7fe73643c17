//! Runs streaming work (watches, followed logs) on all clusters of a command, and on those that become Ready
//! or newly match the choice while it runs.

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::sync::Arc;

use crate::cluster::cluster_id::ClusterId;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::arrivals::{Arrivals, Names};
use super::member::{Member, Members};
use super::task::{Ended, Task};
use crate::cluster::context::ClusterContext;
use crate::multi::fault::Fault;
use crate::multi::ordered_output::{self, Sink, TaskResult};

/// A piece of output of a member.
pub(super) struct Of<P> {
    pub(super) member: Member,
    pub(super) piece: P,
}

/// Runs `work` on each member, with a flag for members that have just become Ready, and passes the pieces to
/// the sink as they arrive. It ends when standard output is closed or all work has ended. Returns the results
/// of the command's clusters in order, then those of clusters that joined.
pub(super) async fn run<P, F>(
    task: &Task<'_>,
    members: &mut Members,
    work: impl Fn(Member, bool, Sender<P>) -> F + Send + Sync + 'static,
    sink: &mut impl Sink<Of<P>>,
) -> Vec<Ended>
where
    P: Send + 'static,
    F: Future<Output = Result<(), Fault>> + Send + 'static,
{
    let Members { all, host, warnings } = members;
    let not_ready = |name: &ClusterId| task.not_ready.iter().find(|(other, _)| other == name);
    let ready = all.iter().filter(|member| not_ready(&member.name).is_none());
    let mut parts: Vec<_> = ready.cloned().map(Part::Now).collect();
    let (going, _) = watch::channel(parts.len());
    let arrivals = host.as_ref().map(|login| Arrivals::follow(login, task));
    let names = arrivals.as_ref().and_then(Arrivals::subscribe);
    let model = all.iter().find(|member| member.name.member().is_some());
    if let (Some(names), Some(model), Some(host)) = (names, model, &task.reach.host) {
        let known = all.iter().map(|member| (member.name.clone(), member.clone())).collect();
        let through = Box::new(host.through.clone());
        parts.push(Part::Later(Later { known, model: model.clone(), through, names }));
    }
    let work = Arc::new(work);
    let follow = |part: Part, sender| {
        let (work, going) = (Arc::clone(&work), going.clone());
        async move {
            match part {
                Part::Now(member) => {
                    let ended = at(member, false, &*work, sender).await;
                    going.send_modify(|going| *going -= 1);
                    vec![ended]
                }
                Part::Later(later) => later.follow(work, sender, going).await,
            }
        }
    };
    let ended = tokio::select! {
        biased;
        ended = ordered_output::run_unordered(parts, follow, sink) => ended,
        never = warnings.print_all(task.printer) => match never {},
    };
    warnings.print_received(task.printer);
    let is_closed = ended.is_none();
    let ended = ended.into_iter().flatten().flatten();
    let (at_start, joined): (Vec<_>, Vec<_>) = ended.partition(|(name, _)| task.clusters.contains(name));
    let mut at_start: BTreeMap<_, _> = at_start.into_iter().collect();
    let results = task.clusters.iter().map(|name| {
        let absent = || match not_ready(name) {
            Some((_, why)) => Err(Fault::NotReady(why.clone())),
            None if is_closed => Ok(()),
            None => Err(Fault::died()),
        };
        (name.clone(), at_start.remove(name).unwrap_or_else(absent))
    });
    results.chain(joined).collect()
}

/// The clusters of such a task are known as missing.
impl TaskResult for Vec<Ended> {
    fn died() -> Self {
        Self::new()
    }
}

/// The tasks that run in parallel.
enum Part {
    /// A cluster that was Ready at the start.
    Now(Member),
    /// All clusters that become Ready later.
    Later(Later),
}

struct Later {
    known: BTreeMap<ClusterId, Member>,
    /// Any member, as a template for clusters that join.
    model: Member,
    through: Box<ClusterContext>,
    names: watch::Receiver<Names>,
}

impl Later {
    async fn follow<P, F, W>(
        mut self,
        work: Arc<W>,
        sender: Sender<Of<P>>,
        going: watch::Sender<usize>,
    ) -> Vec<Ended>
    where
        P: Send + 'static,
        F: Future<Output = Result<(), Fault>> + Send + 'static,
        W: Fn(Member, bool, Sender<P>) -> F + Send + Sync + 'static,
    {
        let (mut others, mut running) = (going.subscribe(), JoinSet::new());
        let (mut taken, mut all) = (HashSet::new(), Vec::new());
        let mut next = self.known.len();
        loop {
            tokio::select! {
                biased;
                // Alone, this task would wait forever.
                _ = others.wait_for(|going| *going == 0) => return all,
                Some(ended) = running.join_next() => {
                    all.extend(ended);
                    going.send_modify(|going| *going -= 1);
                    continue;
                }
                Ok(()) = self.names.changed() => {}
            }
            let arrived: Vec<_> = self.names.borrow_and_update().iter().cloned().collect();
            for name in arrived.into_iter().filter(|name| taken.insert(name.clone())) {
                let member = self.known.get(&name).cloned().unwrap_or_else(|| {
                    next += 1;
                    self.model.another(name, &self.through, next - 1)
                });
                going.send_modify(|going| *going += 1);
                let (work, sender) = (Arc::clone(&work), sender.clone());
                running.spawn(async move { at(member, true, &*work, sender).await });
            }
        }
    }
}

/// Runs the work of one member and adds its name to the pieces.
async fn at<P, F>(
    member: Member,
    is_late: bool,
    work: impl Fn(Member, bool, Sender<P>) -> F,
    sender: Sender<Of<P>>,
) -> Ended
where
    F: Future<Output = Result<(), Fault>>,
{
    let (own, mut pieces) = mpsc::channel(1);
    let name = member.name.clone();
    let work = work(member.clone(), is_late, own);
    let pass_on = async {
        while let Some(piece) = pieces.recv().await {
            if sender.send(Of { member: member.clone(), piece }).await.is_err() {
                // Without a receiver, the work ends.
                pieces.close();
                return;
            }
        }
    };
    (name, tokio::join!(work, pass_on).0)
}

/// Minimum number of streams for clusters that join while a command runs.
pub(super) const SPARE: usize = 8;
