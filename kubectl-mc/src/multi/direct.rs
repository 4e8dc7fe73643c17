//! Runs commands that read (`get`, `logs`, `compare`, some others) on many clusters by direct requests, with one login and one pool of
//! connections. Only a command that is done exactly as by kubectl has a [`Plan`]; kubectl runs all others.
//!
//! - [`kubectl_flags`]: kubectl's flags, read strictly
//! - [`login`], [`pool`]: the way to the members, with a credential that may run out
//! - [`member`], [`member_deadline`], [`failure`]: one of them, how long it may take, and why it did not answer
//! - [`arrivals`]: clusters that become Ready while a command runs
//! - [`discovery`], [`member_types`]: which type a word means
//! - [`lasting`]: work that goes on until it is interrupted
//! - [`run_job`]: from a job and to its outcomes
//! - [`logs`]: the logs of pods; [`compare`]: what differs between clusters
//! - [`report`]: commands of one text for each cluster
//! - [`get`]: lists and watches; [`server_table`]: the rows of a server's table

mod arrivals;
mod compare;
mod discovery;
mod event_lines;
mod failure;
mod get;
mod kubectl_flags;
mod lasting;
mod login;
mod logs;
mod member;
mod member_deadline;
mod member_types;
mod pages;
mod pause;
mod pool;
mod report;
mod run_job;
mod server_table;
mod watch_request;

use std::ops::ControlFlow;
use std::time::Duration;

use crate::cluster::cluster_id::ClusterId;
use member_deadline::MemberDeadline;

pub(crate) use failure::MemberFailure;
pub(crate) use logs::TailPlan;
pub(crate) use server_table::render as render_table;

use crate::argv::{COMPARE, Scanned, TAIL};
use crate::cli::Color;
use crate::cluster::client::ClientError;
use crate::cluster::reach::Reach;
use crate::env::{self, Env};
use crate::error::Explain;
use crate::exit::ExitStatus;
use crate::multi::ClusterProgress;
use crate::multi::ordered_output::{Concurrency, ForCluster};
use crate::multi::selection::Growth;
use crate::printer::Printer;
use crate::server_text::ServerText;

/// A command that is done here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    Get(get::GetPlan),
    Logs(logs::LogsPlan),
    Tail(Box<TailPlan>),
    Compare(compare::ComparePlan),
    Report(report::ReportPlan),
}

/// When kubectl may take over what was begun by direct requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeOver {
    Never,
    /// As long as nothing is printed.
    BeforeOutput,
}

/// What came of a plan at a cluster.
pub(crate) type Ended = (ClusterId, Result<(), MemberFailure>);

impl Plan {
    /// The plan for a command on many clusters.
    pub(crate) fn for_many(scanned: &Scanned, env: &Env) -> Option<Self> {
        if scanned.verb().is_some_and(|verb| verb == COMPARE) {
            return compare::ComparePlan::of(scanned).map(Self::Compare);
        }
        if let Some(tail) = Self::tail(scanned) {
            return Some(tail);
        }
        // kubectl's tables of several clusters become one, which is done with the texts of kubectl.
        Self::of(scanned, env).filter(|plan| !matches!(plan, Self::Report(report) if report.is_table()))
    }

    /// The plan for a command on one cluster, and whether kubectl can take it over.
    pub(crate) fn for_one(scanned: &Scanned, env: &Env) -> Option<(Self, TakeOver)> {
        if let Some(tail) = Self::tail(scanned) {
            return Some((tail, TakeOver::Never));
        }
        let plan = Self::of(scanned, env)?;
        if env.var(env::DIRECT).is_some_and(|direct| direct == "only") {
            return Some((plan, TakeOver::Never));
        }
        // From level 6 on kubectl logs its requests.
        let level = scanned.value("v").map(|level| level.to_str().and_then(|level| level.parse::<u8>().ok()));
        let logs = level.is_some_and(|level| level.is_none_or(|level| level > 5));
        (!plan.lasts() && !logs).then_some((plan, TakeOver::BeforeOutput))
    }

    fn tail(scanned: &Scanned) -> Option<Self> {
        scanned.verb().filter(|verb| *verb == TAIL)?;
        TailPlan::parse(scanned).ok().map(|plan| Self::Tail(Box::new(plan)))
    }

    /// The plan for a command line, if it is one that is done here.
    fn of(scanned: &Scanned, env: &Env) -> Option<Self> {
        if env.var(env::DIRECT).is_some_and(|direct| direct == "0") {
            return None;
        }
        // A file of kubectl's own preferences may change what any command means.
        if has_preferences(env) {
            return None;
        }
        get::GetPlan::of(scanned)
            .map(Self::Get)
            .or_else(|| logs::LogsPlan::of(scanned).map(Self::Logs))
            .or_else(|| report::ReportPlan::parse(scanned).map(Self::Report))
    }

    /// Whether it lasts, so that a cluster may come to it later.
    fn lasts(&self) -> bool {
        match self {
            Self::Get(plan) => plan.is_watch(),
            Self::Tail(plan) => plan.follows(),
            Self::Logs(plan) => plan.follows(),
            Self::Compare(_) | Self::Report(_) => false,
        }
    }

    /// Does it. What came of it at each of the clusters, in their order, and then at those that joined; lines of text
    /// go to `text`.
    pub(crate) async fn run(&self, task: &Task<'_>, text: &mut dyn Text) -> Result<Vec<Ended>, DirectError> {
        let named =
            |results: Vec<Result<(), MemberFailure>>| task.clusters.iter().cloned().zip(results).collect();
        let result = match self {
            Self::Get(plan) => get::run(plan, task, text).await,
            Self::Logs(plan) => logs::run(plan, task, text).await,
            Self::Tail(plan) => logs::run_tail(plan, task, text).await,
            Self::Compare(plan) => compare::run(plan, task).await.map(named),
            Self::Report(plan) => report::run(plan, task, text).await.map(named),
        };
        result.map_err(|source| DirectError::Client { host: task.reach.describe(), source })
    }
}

/// Writes lines of text.
pub(crate) trait Text {
    /// Lines of a cluster; breaks when standard output is closed.
    fn out(&mut self, cluster: &ClusterId, lines: &[u8]) -> ControlFlow<()>;

    /// Something about them, beside the data.
    fn remark(&mut self, cluster: &ClusterId, remark: &str);

    /// Why a cluster has failed, as soon as that is known.
    fn failed(&mut self, cluster: &ClusterId, failure: &MemberFailure);

    /// The last line of a cluster was its last, whether it has an end or not.
    fn end(&mut self, cluster: &ClusterId);
}

/// Text of one cluster, as it is.
pub(crate) struct PlainText<'a> {
    printer: &'a Printer,
    /// Whether a failure was printed.
    has_failed: bool,
}

impl<'a> PlainText<'a> {
    pub(crate) fn new(printer: &'a Printer) -> Self {
        Self { printer, has_failed: false }
    }

    /// Prints why the command failed, unless that is printed.
    pub(crate) fn end(&self, failure: &MemberFailure) {
        if !self.has_failed {
            self.printer.note_line(&failure.to_string());
        }
    }
}

impl Text for PlainText<'_> {
    fn out(&mut self, _: &ClusterId, lines: &[u8]) -> ControlFlow<()> {
        self.printer.stream(lines)
    }

    fn remark(&mut self, _: &ClusterId, remark: &str) {
        self.printer.note_line(remark);
    }

    fn failed(&mut self, _: &ClusterId, failure: &MemberFailure) {
        // These end the command, with a hint.
        if !matches!(
            failure,
            MemberFailure::Refused(_) | MemberFailure::OtherHub(_) | MemberFailure::Unreachable(_)
        ) {
            self.has_failed = true;
            self.printer.note_line(&failure.to_string());
        }
    }

    fn end(&mut self, _: &ClusterId) {}
}

/// Where and how a plan is run.
pub(crate) struct Task<'a> {
    pub(crate) reach: &'a Reach,
    pub(crate) scanned: &'a Scanned,
    pub(crate) env: &'a Env,
    pub(crate) printer: &'a Printer,
    pub(crate) clusters: Vec<ClusterId>,
    /// Clusters of the command that do not answer, and why. A watch takes them up when they do.
    pub(crate) not_ready: Vec<(ClusterId, ServerText)>,
    /// The choice of the clusters, if it may come to mean more of them.
    pub(crate) growth: Option<&'a Growth>,
    pub(crate) color: Color,
    /// How many are asked at once; none is as many as are good for one connection.
    pub(crate) at_once: Option<usize>,
    /// How long a cluster has; for what lasts, how long each answer may take to begin.
    pub(crate) timeout: Option<Duration>,
    pub(crate) progress: ClusterProgress,
    pub(crate) merge: Merge,
}

/// How the answers of several clusters become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// Each row and object says which cluster it is of.
    Marked,
    /// One cluster, and the output of kubectl byte for byte.
    Plain,
}

impl Task<'_> {
    /// The members, reached by one client that bears so many streams at a time.
    async fn members(
        &self,
        streams: usize,
        deadline: fn(Duration) -> MemberDeadline,
    ) -> Result<member::Members, ClientError> {
        let time = self.timeout.unwrap_or(FOREVER);
        member::Members::new(self, streams, || deadline(time)).await
    }

    /// How many clusters are asked at a time.
    fn at_once(&self) -> usize {
        self.at_once.unwrap_or(AT_ONCE).min(self.clusters.len())
    }

    /// How to ask these, which are shown as waited for from now on.
    fn way(&self, what: &[impl ForCluster]) -> Concurrency {
        self.progress.wait_for(what.iter().map(ForCluster::cluster));
        let (at_once, progress) = (self.at_once(), self.progress.clone());
        Concurrency { at_once, ahead: 1, grace: GRACE, stalled: Some(STALLED), progress }
    }
}

/// kubectl's file of preferences (kuberc): named by a variable, or where kubectl looks for it.
fn has_preferences(env: &Env) -> bool {
    if env.var(env::KUBECTL_KUBERC).is_some_and(|on| on == "false") {
        return false;
    }
    env.var(env::KUBERC).is_some_and(|file| file != "off")
        || env.home().is_some_and(|home| std::path::Path::new(home).join(".kube").join("kuberc").exists())
}

/// The client could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectError {
    #[error("cannot use {host}")]
    Client { host: String, source: ClientError },
}

impl Explain for DirectError {
    fn status(&self) -> ExitStatus {
        ExitStatus::Failed
    }
}

/// Short requests that share a connection well.
const AT_ONCE: usize = 64;
/// What a person waits for without a thought.
const GRACE: Duration = Duration::from_secs(1);
/// The same for a cluster that has begun to answer.
const STALLED: Duration = Duration::from_secs(5);
/// Longer than any command lasts.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
