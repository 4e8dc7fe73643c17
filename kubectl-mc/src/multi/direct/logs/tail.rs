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

use std::sync::Arc;

use tokio::sync::mpsc::Sender;

pub(crate) use plan::TailPlan;

use self::line::Look;
use super::{Member, MemberDeadline, Merge, Said, Task, Text, Texts};
use crate::cluster::client::ClientError;
use crate::multi::colors::Colors;
use crate::multi::direct::lasting::{self, SPARE};
use crate::multi::direct::task::Ended;

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
    let mut sink = Texts { task, text, has_prefixes: true };
    if !plan.options.follow {
        let streams = task.at_once().saturating_mul(plan.most).min(MOST_STREAMS);
        let members = task.members(streams, MemberDeadline::whole).await?;
        let read = |member: Member, sender: Sender<Said>| {
            let tail = Arc::clone(&tail);
            async move { once::read(&tail, &member, &sender).await }
        };
        return Ok(task.run_each(members, read, &mut sink).await);
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
    Ok(lasting::run(task, &mut members, follow, &mut sink).await)
}

/// With 80 streams per connection. More connections could overload the host.
const MOST_STREAMS: usize = 80 * 256;
