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

use self::line::Tail;
use super::said::{Said, Texts, greet};
use crate::cluster::client::ClientError;
use crate::multi::direct::lasting::{self, SPARE};
use crate::multi::direct::member::Member;
use crate::multi::direct::member_deadline::MemberDeadline;
use crate::multi::direct::task::{Ended, Task};
use crate::multi::direct::text::Text;

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
            greet(is_late, &sender).await;
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

/// This assumes 80 streams per connection. More connections could overload the host.
const MOST_STREAMS: usize = 80 * 256;
