//! The command by kubectl, a child for each cluster: so many at once, each in a process group of its
//! own, and what they write taken in the order of the clusters.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::child::{self, Child, Event};
use super::lines::Lines;
use super::{Fault, Job, Outcome};
use crate::cache::Cache;
use crate::error::Failure;
use crate::kubeconfig;
use crate::kubectl::{Invocation, Kubectl};
use crate::preflight;
use crate::rewrite::{self, RawPath};
use crate::selection::Target;

/// Runs it at all targets; the outcomes are in their order.
pub(super) async fn run(job: &Job<'_>) -> Result<Vec<Outcome>, Failure> {
    let kubectl = Kubectl::find(job.env)?;
    let client = crate::client::connection(job.host, job.scanned, job.env).await.ok();
    let asks = !preflight::needs_no_server(job.scanned);
    let permits = Arc::new(Semaphore::new(concurrency(job)));
    let timeout = job.options.timeout(false);
    let mut tasks = JoinSet::new();
    let mut receivers = Vec::new();
    for target in job.targets.iter() {
        let (events, receiver) = mpsc::channel(CHUNKS);
        receivers.push(receiver);
        if let Some(reason) = target.not_ready() {
            // It is told at once; nobody waits for it.
            let _ = events.try_send(Event::End(Err(Fault::NotReady(reason.to_owned()))));
            continue;
        }
        let invocation = invocation(job, &kubectl, target)?;
        let (kubectl, permits) = (kubectl.clone(), permits.clone());
        let (client, cluster) = (client.clone().filter(|_| asks), target.name.clone());
        tasks.spawn(async move {
            // The semaphore is never closed.
            let Ok(_permit) = permits.acquire_owned().await else { return };
            let refusal = match &client {
                Some(client) => preflight::refusal(client, &cluster).await,
                None => None,
            };
            let result = match refusal {
                Some(refusal) => Err(Fault::Refused(refusal)),
                None => child::run(Child { command: kubectl.child(invocation), timeout }, &events).await,
            };
            let _ = events.send(Event::End(result)).await;
        });
    }
    let mut lines = Lines::new(job);
    let mut outcomes = Vec::new();
    for (target, mut receiver) in job.targets.iter().zip(receivers) {
        let mut result = Err(Fault::Other("it ended without a word".to_owned()));
        while let Some(event) = receiver.recv().await {
            match event {
                Event::Out(bytes) => lines.out(&target.name, &bytes),
                Event::Err(bytes) => lines.err(&target.name, &bytes),
                Event::End(end) => result = end,
            }
        }
        lines.end(&target.name, &result);
        outcomes.push(Outcome { cluster: target.name.clone(), result });
    }
    Ok(outcomes)
}

fn invocation(job: &Job<'_>, kubectl: &Kubectl, target: &Target) -> Result<Invocation, Failure> {
    let overlay = kubeconfig::overlay_json(job.host, &target.name)?;
    let overlay = Cache::open(job.env)?.store(&overlay, SystemTime::now())?;
    let mut raw = RawPath::Joined;
    if rewrite::uses_raw(job.scanned).is_some() {
        let minor = kubectl.minor_version(&rewrite::kubeconfig_list(job.host, &overlay)?)?;
        raw = RawPath::of_minor_version(minor);
    }
    Ok(rewrite::rewrite(job.scanned.clone(), job.host, &target.name, &overlay, raw)?)
}

/// A kubectl costs 50 MB and a good part of a core while it starts.
fn concurrency(job: &Job<'_>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    job.options.concurrency.map_or_else(|| (2 * cores).clamp(4, 16), std::num::NonZero::get)
}

/// What a child may have said before its turn to be heard: 4 MB, then it waits.
const CHUNKS: usize = 256;
