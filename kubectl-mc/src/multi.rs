//! Runs one command on several clusters: with direct requests if they have exactly the same result
//! as kubectl, else with a kubectl process for each cluster.

mod batches;
mod child;
mod children;
mod colors;
mod confirm;
pub(crate) mod direct;
mod document;
mod dry_run;
mod interrupt;
mod job;
mod keep;
mod last_failed;
mod lines;
mod local_port;
mod options;
mod ordered_output;
mod outcome;
mod output;
mod pause;
mod ports;
mod progress;
mod rollout;
pub(crate) mod selection;
mod shape;
#[cfg(unix)]
mod signals;
mod straggler_timer;
mod summary;
mod tables;
mod unmarked;

use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};

pub(crate) use crate::cache::RunFolder;
pub(crate) use batches::Batches;
pub(crate) use confirm::confirm_one;
pub(crate) use dry_run::show;
pub(crate) use job::Job;
pub(crate) use keep::run_one as keep_one;
pub(crate) use last_failed::recall;
pub(crate) use options::Options;
pub(crate) use outcome::{Fault, Outcome};
pub(crate) use progress::ClusterProgress;
pub(crate) use rollout::rule::Rollout;
pub(crate) use shape::parses_output;
pub(crate) use summary::Summary;
pub(crate) use unmarked::{unmarked, unmarked_file};

use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cluster::client;
use crate::cluster::cluster_id::ClusterId;
use crate::error::{Context, Failure};
use crate::exit::ExitStatus;
use crate::kubectl::verb::{self, Effect};
use crate::log::Log;
use crate::multi::direct::Plan;
use crate::multi::selection::{SelectedCluster, SelectedClusters};
use crate::next_command::shown;
use children::Children;
use document::Format;
use output::Output;
use shape::OutputShape;

/// Refuses commands that make no sense for so many clusters, before anything is read or sent.
pub(crate) fn check(scanned: &Scanned, targets: &SelectedClusters) -> Result<(), Failure> {
    let clusters = targets.len();
    if let Some(what) = verb::deletes_nothing(scanned) {
        return Err(Failure::usage(format!("{what} names no object")).with_hint(
            "name objects (pod NAME, pod/NAME, -f FILE), choose them by -l, or delete all of a type by --all",
        ));
    }
    if let Some(why) = verb::needs_one_cluster(scanned) {
        return Err(Failure::usage(format!(
            "the command needs {why} and works on one cluster only, but {clusters} are chosen"
        ))
        .with_hint("name one cluster: --cluster=NAME"));
    }
    match verb::local_target(scanned) {
        Some(path) if clusters > 1 && !path.to_string_lossy().contains(local_port::PLACE) => {
            let path = path.to_string_lossy();
            Err(Failure::usage(format!(
                "{clusters} clusters would write their files to the same path {path:?}"
            ))
            .with_hint(format!("put the cluster's name into the path: {path}-{}", local_port::PLACE)))
        }
        Some(_) => {
            let mut seen = HashSet::new();
            let same = targets.names().map(local_port::file_name).find(|name| !seen.insert(name.clone()));
            same.map_or(Ok(()), |name| {
                Err(Failure::usage(format!("the names of several clusters become {name:?} in a path"))
                    .with_hint("copy from one of them at a time"))
            })
        }
        None => Ok(()),
    }
}

/// Runs the command on all its clusters and prints the outcome.
pub(crate) fn run(job: &Job<'_>) -> Result<ExitStatus, Failure> {
    let writes = job.effect == Effect::Writes;
    // This is only a convenience, so an unwritable folder is not an error.
    let cache = Cache::open(job.env).ok();
    if writes {
        confirm::confirm(job)?;
        if let Some(cache) = &cache {
            let _ = last_failed::forget(cache.folder(), job.effect);
        }
    }
    let progress = ClusterProgress::default();
    let finished = client::runtime()?.block_on(async {
        tokio::select! {
            biased;
            // Dropping the future also ends the children and deletes their files.
            () = interrupt::interrupted() => Ok(None),
            outcomes = run_all(job, &progress) => outcomes.map(Some),
        }
    });
    let remember = |outcomes: &[Outcome]| {
        if let Some(cache) = &cache {
            let _ =
                last_failed::remember(cache.folder(), job.reach, outcomes, &job.scanned.kubectl, job.effect);
        }
    };
    let outcomes = match finished {
        Ok(Some(outcomes)) => outcomes,
        ended => {
            if writes {
                let result =
                    |name: &ClusterId| progress.has_succeeded(name).then_some(()).ok_or(Fault::NotBegun);
                let outcome = |name: &ClusterId| Outcome { cluster: name.clone(), result: result(name) };
                let outcomes: Vec<_> = job.targets.names().map(outcome).collect();
                remember(&outcomes);
                if ended.is_ok() {
                    job.printer.note(&Summary::of(&outcomes).interrupted());
                    job.printer.note(&format!("continue with: {}\n", again(job.scanned)));
                }
            }
            return ended.map(|_| ExitStatus::Interrupted);
        }
    };
    remember(&outcomes);
    for outcome in &outcomes {
        if let Err(Fault::OtherHub(other)) = &outcome.result {
            return Err(other.clone().into());
        }
    }
    let summary = Summary::of(&outcomes);
    job.printer.note(&summary.to_string());
    if summary.has_rest() {
        job.printer.note(&format!("continue with: {}\n", again(job.scanned)));
    }
    Ok(summary.status())
}

/// The command for the clusters that failed or were not started.
fn again(scanned: &Scanned) -> String {
    let words = scanned.own_besides_choice();
    let words = words.into_iter().chain(scanned.kubectl.iter().map(std::ffi::OsString::as_os_str));
    format!("kubectl mc --retry-failed {}", shown(words))
}

/// Uses direct requests if they have exactly the same result as kubectl, else kubectl.
async fn run_all(job: &Job<'_>, progress: &ClusterProgress) -> Result<Vec<Outcome>, Failure> {
    progress.wait_for(job.targets.names());
    let plan = Plan::for_many(job.scanned, job.env);
    if plan.is_some() {
        interrupt::end_soon_after();
    }
    if plan.is_none() && shape::is_of_one_cluster(job.scanned) {
        job.printer.note_line(
            "- kubectl runs once for each cluster: --sort-by and templates see the objects of one cluster each",
        );
    }
    let means = if plan.is_some() { "direct requests" } else { "a kubectl for each cluster" };
    Log::new(job.env).decision("Run command", &[("by", &means)]);
    let all = async {
        match plan {
            Some(plan) => plan.run_job(job, progress).await,
            None => turns(job, progress).await,
        }
    };
    // The lines of a stream already show the progress.
    let shows = !verb::is_stream(job.scanned) && io::stderr().is_terminal();
    tokio::select! {
        outcomes = all => outcomes,
        // This future never completes.
        () = progress.show(job.printer), if shows => Ok(Vec::new()),
    }
}

/// Runs on all clusters at once, or in the batches of `--batch`.
async fn turns(job: &Job<'_>, progress: &ClusterProgress) -> Result<Vec<Outcome>, Failure> {
    let shape = shape::shape(job.scanned);
    let mut scanned = job.scanned.clone();
    if shape == OutputShape::Document(Format::Yaml) {
        // JSON contains the same data and is unambiguous to parse.
        scanned.set_value("output", "json".as_ref());
    }
    let children = Children::new(job, scanned).await?;
    let mut output = Output::new(job, shape);
    let targets: Vec<&SelectedCluster> = job.targets.iter().collect();
    let mut outcomes = Vec::new();
    let mut rest = targets.as_slice();
    let sizes =
        job.options.batches.as_ref().map_or_else(|| vec![rest.len()], |turns| turns.sizes(rest.len()));
    for size in sizes {
        let (turn, later) = rest.split_at(size);
        rest = later;
        let ended = children.run(turn, &mut output, progress).await;
        let mut end = |target: &&SelectedCluster, fault| Outcome {
            cluster: target.name.clone(),
            result: output.end(&target.name, Err(fault)),
        };
        let stops = match ended {
            Ok(mut ended) => {
                // A change that has not rolled out is not a success, and the next batch would
                // spread it.
                let is_settled = job.options.batches.is_none() || settle(job, turn, &mut ended).await;
                outcomes.extend(ended);
                let is_failure = |outcome: &Outcome| outcome.result.as_ref().is_err_and(Fault::is_failure);
                !is_settled || job.options.pause_on_failure && outcomes.iter().any(is_failure)
            }
            Err(failure) if outcomes.is_empty() => return Err(failure),
            // The batches before it need their summary.
            Err(failure) => {
                let fault = Fault::Other(failure.to_string());
                outcomes.extend(turn.iter().map(|target| end(target, fault.clone())));
                true
            }
        };
        if stops {
            outcomes.extend(rest.iter().map(|target| end(target, Fault::NotBegun)));
            break;
        }
        if !rest.is_empty() {
            tokio::time::sleep(job.options.rollout.pause).await;
        }
    }
    output.finish();
    Ok(outcomes)
}

/// Waits for the changes of a batch. Returns whether all have rolled out; clusters where this is
/// not the case have failed.
async fn settle(job: &Job<'_>, batch: &[&SelectedCluster], outcomes: &mut [Outcome]) -> bool {
    let succeeded = |target: &&&SelectedCluster| {
        outcomes.iter().any(|outcome| outcome.cluster == target.name && outcome.result.is_ok())
    };
    let changed: Vec<_> = batch.iter().filter(succeeded).copied().collect();
    let mut faults = rollout::settle(job, &changed).await.unwrap_or_else(|failure| {
        // The batches before it need their summary.
        let fault = Fault::Other(failure.to_string());
        changed.iter().map(|target| (target.name.clone(), fault.clone())).collect()
    });
    let is_settled = faults.is_empty();
    for outcome in outcomes {
        if let Some(fault) = faults.remove(&outcome.cluster) {
            outcome.result = Err(fault);
        }
    }
    is_settled
}

/// Reads the standard input for each cluster, if the command reads any.
pub(crate) fn read_input(scanned: &Scanned) -> Result<Option<Arc<[u8]>>, Failure> {
    use io::Read;
    if !verb::reads_stdin(scanned) {
        return Ok(None);
    }
    // A restarted command would find an empty standard input.
    static READ: OnceLock<Arc<[u8]>> = OnceLock::new();
    if let Some(input) = READ.get() {
        return Ok(Some(Arc::clone(input)));
    }
    let mut input = Vec::new();
    // One additional byte detects a longer input.
    io::stdin().lock().take(INPUT + 1).read_to_end(&mut input).context(|| "cannot read standard input")?;
    if input.len() as u64 > INPUT {
        return Err(Failure::new("standard input is larger than 64 MiB, the limit for several clusters")
            .with_hint("use a file: every cluster then reads it"));
    }
    Ok(Some(Arc::clone(READ.get_or_init(|| input.into()))))
}

/// More than any manifest needs; the input stays in memory until the last cluster has read it.
const INPUT: u64 = 64 * 1024 * 1024;
