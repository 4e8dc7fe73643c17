//! One command on several clusters: as native requests where that does exactly what kubectl does,
//! else as kubectl children, and what came of it at each cluster.

#[allow(dead_code, reason = "for the commands that write, which come next")]
mod batches;
mod child;
mod children;
mod dry_run;
mod lines;
#[allow(dead_code, reason = "for the commands that write, which come next")]
mod options;
#[allow(dead_code, reason = "some faults come with native requests")]
mod outcome;
mod summary;

pub(crate) use batches::{Batches, BatchesError};
pub(crate) use dry_run::show;
pub(crate) use options::Options;
pub(crate) use outcome::{Fault, Outcome};
pub(crate) use summary::Summary;

use crate::argv::Scanned;
use crate::client;
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::host::Host;
use crate::printer::Printer;
use crate::selection::Targets;

/// A command and the clusters that it is for.
pub(crate) struct Job<'a> {
    /// The words of kubectl.
    pub(crate) scanned: &'a Scanned,
    pub(crate) host: &'a Host,
    pub(crate) targets: &'a Targets,
    pub(crate) options: &'a Options,
    pub(crate) env: &'a Env,
    pub(crate) printer: &'a Printer,
}

/// Runs the command on all its clusters and tells how it went.
pub(crate) fn run(job: &Job<'_>) -> Result<ExitStatus, Failure> {
    let outcomes = client::runtime()?.block_on(children::run(job))?;
    let summary = Summary::of(&outcomes);
    job.printer.note(&summary.to_string());
    Ok(summary.status())
}
