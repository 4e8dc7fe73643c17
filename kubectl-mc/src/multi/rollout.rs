//! Waits after a batch until the workloads that it changed have rolled out: an API server accepts a change long
//! before it is known whether its pods run. kubectl itself finds the workloads (`get` of the objects of the
//! command) and waits for them (`rollout status`); a check that the user specifies may follow.

mod command;
pub(super) mod rule;
mod workloads;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use self::workloads::Workload;
use super::children::Children;
use super::dry_run;
use super::job::Job;
use super::options::Options;
use super::outcome::{Fault, Outcome};
use super::output::Output;
use super::progress::ClusterProgress;
use super::selection::SelectedCluster;
use super::shape::OutputShape;
use crate::argv;
use crate::cluster::cluster_id::ClusterId;
use crate::error::Failure;
use crate::kubectl::verb::Effect;
use crate::multi::document::Format;
use crate::next_command::shown;

/// Waits for a batch. Returns the faults of clusters whose change has not rolled out, or whose check failed.
pub(super) async fn settle(
    job: &Job<'_>,
    batch: &[&SelectedCluster],
) -> Result<BTreeMap<ClusterId, Fault>, Failure> {
    let rollout = &job.options.rollout;
    let mut faults = BTreeMap::new();
    if rollout.waits(job.scanned) {
        let end = Instant::now() + rollout.timeout;
        let workloads = changed(job, batch, &mut faults).await?;
        for (workload, clusters) in &workloads {
            let targets: Vec<_> =
                batch.iter().filter(|target| clusters.contains(&target.name)).copied().collect();
            let left = end.saturating_duration_since(Instant::now()).max(LEAST);
            let words = workload.status(&command::caller(job.scanned), left);
            let ended = run(job, words, left + GRACE, &targets).await?;
            let failed = note(ended, &mut faults);
            if !failed.is_empty() {
                undo(job, workload, &failed);
            }
        }
    }
    if let Some(check) = &rollout.check {
        let targets: Vec<_> =
            batch.iter().filter(|target| !faults.contains_key(&target.name)).copied().collect();
        note(run(job, check.clone(), rollout.timeout, &targets).await?, &mut faults);
    }
    Ok(faults)
}

/// The workloads of the command on each cluster.
async fn changed(
    job: &Job<'_>,
    batch: &[&SelectedCluster],
    faults: &mut BTreeMap<ClusterId, Fault>,
) -> Result<BTreeMap<Workload, Vec<ClusterId>>, Failure> {
    let scanned = argv::scan(command::objects(job.scanned));
    let options = Options { timeout: Some(READ), ..job.options.clone() };
    let job =
        Job { scanned: &scanned, options: &options, effect: Effect::Reads, input: job.input.clone(), ..*job };
    let mut output = Output::new(&job, OutputShape::Document(Format::Json));
    let children = Children::new(&job, scanned.clone()).await?;
    let ended = children.run(batch, &mut output, &ClusterProgress::default()).await?;
    note(ended, faults);
    Ok(workloads::of(&output.into_list(), batch.iter().map(|target| &target.name)))
}

/// Runs kubectl on these clusters, and prints its output.
async fn run(
    job: &Job<'_>,
    words: Vec<OsString>,
    timeout: Duration,
    targets: &[&SelectedCluster],
) -> Result<Vec<Outcome>, Failure> {
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    let scanned = argv::scan(words);
    let options = Options { timeout: Some(timeout), ..job.options.clone() };
    let job = Job { scanned: &scanned, options: &options, effect: Effect::Reads, input: None, ..*job };
    let mut output = Output::new(&job, OutputShape::Lines);
    let children = Children::new(&job, scanned.clone()).await?;
    let ended = children.run(targets, &mut output, &ClusterProgress::default()).await?;
    output.finish();
    Ok(ended)
}

/// Notes the faults; returns their clusters.
fn note(ended: Vec<Outcome>, faults: &mut BTreeMap<ClusterId, Fault>) -> Vec<ClusterId> {
    let mut failed = Vec::new();
    for Outcome { cluster, result } in ended {
        if let Err(fault) = result {
            failed.push(cluster.clone());
            faults.entry(cluster).or_insert(fault);
        }
    }
    failed
}

/// The command that undoes the change of a workload.
fn undo(job: &Job<'_>, workload: &Workload, clusters: &[ClusterId]) {
    let Some(first) = clusters.first() else { return };
    let choice = clusters.iter().map(|cluster| cluster.as_term().to_string()).collect::<Vec<_>>().join(",");
    let mut words = vec![OsString::from(format!("--cluster={choice}"))];
    words.extend(workload.undo());
    let program = dry_run::program(job.reach, first);
    let words = shown(words.iter().map(OsString::as_os_str));
    job.printer.note(&format!("undo with: {program} {words}\n"));
}

/// `rollout status` needs at least some time for its first answer.
const LEAST: Duration = Duration::from_secs(1);
/// kubectl reports the end of its own timeout by itself.
const GRACE: Duration = Duration::from_secs(10);
/// For the list of the objects.
const READ: Duration = Duration::from_secs(30);
