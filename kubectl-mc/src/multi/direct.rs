//! Runs read commands (`get`, `logs`, `compare` and some others) on many clusters by direct requests, with
//! one login and one connection pool. Only a command with exactly the same result as in kubectl has a
//! [`Plan`]; kubectl runs all others.
//!
//! - [`kubectl_flags`]: strict parsing of kubectl's flags
//! - [`login`], [`pool`]: connections to the members, with a credential that may expire
//! - [`member`], [`member_deadline`], [`failure`]: one member, its timeout, and its error
//! - [`answer`]: answers that name their type
//! - [`arrivals`]: clusters that become Ready while a command runs
//! - [`discovery`], [`member_types`]: the type that a word stands for
//! - [`lasting`]: work that runs until it is interrupted
//! - [`run_job`]: runs a plan for a job and returns its outcomes
//! - [`logs`]: the logs of pods; [`compare`]: differences between clusters
//! - [`report`]: commands with one text for each cluster
//! - [`get`]: lists and watches; [`server_table`]: the rows of a server's table
//! - [`printing`]: kubectl sorts and prints one list of all clusters

mod answer;
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
mod path_name;
mod pool;
mod printing;
mod report;
mod run_job;
mod server_table;
mod warnings;
mod watch_request;
mod whole_body;

use std::ops::ControlFlow;
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use crate::cluster::cluster_id::ClusterId;
use get::GetError;
use member::{Member, Members};
use member_deadline::MemberDeadline;

pub(crate) use failure::MemberFailure;
pub(crate) use get::NDJSON;
pub(crate) use logs::TailPlan;
pub(crate) use server_table::render as render_table;

use crate::argv::{COMPARE, Scanned, TAIL};
use crate::cli::Color;
use crate::cluster::client::ClientError;
use crate::cluster::reach::Reach;
use crate::env::{self, Env};
use crate::error::{Context, Failure};
use crate::multi::ordered_output::{self, Concurrency, ForCluster, Sink};
use crate::multi::selection::Growth;
use crate::multi::{ClusterProgress, Fault};
use crate::printer::Printer;
use crate::server_text::ServerText;

/// A command that runs by direct requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    Get(get::GetPlan),
    Logs(logs::LogsPlan),
    Tail(Box<TailPlan>),
    Compare(compare::ComparePlan),
    Report(report::ReportPlan),
}

/// Until when kubectl may take over a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeOver {
    Never,
    /// Until the first output.
    BeforeOutput,
}

/// The result of a plan on a cluster.
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
        // kubectl's tables of several clusters are merged from kubectl's text output.
        Self::of(scanned, env).filter(|plan| !matches!(plan, Self::Report(report) if report.is_table()))
    }

    /// The plan for a command on one cluster, and until when kubectl can take over.
    pub(crate) fn for_one(scanned: &Scanned, env: &Env) -> Option<(Self, TakeOver)> {
        if let Some(tail) = Self::tail(scanned) {
            return Some((tail, TakeOver::Never));
        }
        // kubectl itself sorts and prints the objects of one cluster.
        let needs_kubectl =
            |plan: &Self| matches!(plan, Self::Get(get) if get.needs_kubectl() && !get.is_own_format());
        let plan = Self::of(scanned, env).filter(|plan| !needs_kubectl(plan))?;
        let is_own_format = matches!(&plan, Self::Get(get) if get.is_own_format());
        if is_own_format || env.var(env::DIRECT).is_some_and(|direct| direct == "only") {
            return Some((plan, TakeOver::Never));
        }
        // From level 6 on, kubectl logs its requests.
        let level = scanned.value("v").map(|level| level.to_str().and_then(|level| level.parse::<u8>().ok()));
        let logs = level.is_some_and(|level| level.is_none_or(|level| level > 5));
        (!plan.lasts() && !logs).then_some((plan, TakeOver::BeforeOutput))
    }

    fn tail(scanned: &Scanned) -> Option<Self> {
        scanned.verb().filter(|verb| *verb == TAIL)?;
        TailPlan::parse(scanned).ok().map(|plan| Self::Tail(Box::new(plan)))
    }

    /// The plan for a command line, if it runs by direct requests.
    fn of(scanned: &Scanned, env: &Env) -> Option<Self> {
        // kubectl has no such format.
        if let Some(own) = get::GetPlan::of(scanned).filter(get::GetPlan::is_own_format) {
            return Some(Self::Get(own));
        }
        if env.var(env::DIRECT).is_some_and(|direct| direct == "0") {
            return None;
        }
        // A kubectl preferences file may change the meaning of any command.
        if has_preferences(env) {
            return None;
        }
        get::GetPlan::of(scanned)
            .map(Self::Get)
            .or_else(|| logs::LogsPlan::of(scanned).map(Self::Logs))
            .or_else(|| report::ReportPlan::parse(scanned).map(Self::Report))
    }

    /// Whether the plan streams, so that clusters can be added later.
    fn lasts(&self) -> bool {
        match self {
            Self::Get(plan) => plan.is_watch(),
            Self::Tail(plan) => plan.follows(),
            Self::Logs(plan) => plan.follows(),
            Self::Compare(_) | Self::Report(_) => false,
        }
    }

    /// Runs the plan. Returns a result of each cluster in their order, then those of clusters that joined.
    /// Lines of text go to `text`.
    pub(crate) async fn run(&self, task: &Task<'_>, text: &mut dyn Text) -> Result<Vec<Ended>, Failure> {
        let result = match self {
            Self::Get(plan) => match get::run(plan, task, text).await {
                Ok(ended) => Ok(ended),
                Err(GetError::Client(error)) => Err(error),
                Err(GetError::Print(error)) => return Err(error.into()),
            },
            Self::Logs(plan) => logs::run(plan, task, text).await,
            Self::Tail(plan) => logs::run_tail(plan, task, text).await,
            Self::Compare(plan) => compare::run(plan, task).await,
            Self::Report(plan) => report::run(plan, task, text).await,
        };
        result.context(|| format!("cannot use {}", task.reach.describe()))
    }
}

/// Writes lines of text.
pub(crate) trait Text {
    /// Prints lines of a cluster; breaks when standard output is closed.
    fn out(&mut self, cluster: &ClusterId, lines: &[u8]) -> ControlFlow<()>;

    /// Prints a remark about a cluster beside the data.
    fn remark(&mut self, cluster: &ClusterId, remark: &str);

    /// Reports the failure of a cluster as soon as it is known.
    fn failed(&mut self, cluster: &ClusterId, failure: &MemberFailure);

    /// Marks the end of a cluster's output, even without a final line break.
    fn end(&mut self, cluster: &ClusterId);
}

/// Prints the text of one cluster unchanged.
pub(crate) struct PlainText<'a> {
    printer: &'a Printer,
    /// Whether a failure was printed.
    has_failed: bool,
}

impl<'a> PlainText<'a> {
    pub(crate) fn new(printer: &'a Printer) -> Self {
        Self { printer, has_failed: false }
    }

    /// Prints why the command failed, unless a failure was already printed.
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
        // These failures end the command, with a hint.
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

/// The clusters and options of a plan.
pub(crate) struct Task<'a> {
    pub(crate) reach: &'a Reach,
    pub(crate) scanned: &'a Scanned,
    pub(crate) env: &'a Env,
    pub(crate) printer: &'a Printer,
    pub(crate) clusters: Vec<ClusterId>,
    /// Clusters of the command that are not ready, and why. A watch includes them when they become ready.
    pub(crate) not_ready: Vec<(ClusterId, ServerText)>,
    /// The choice of clusters, if it may match more clusters later.
    pub(crate) growth: Option<&'a Growth>,
    pub(crate) color: Color,
    /// Maximum number of parallel clusters; `None` means the default for one connection.
    pub(crate) at_once: Option<usize>,
    /// Timeout of each cluster. For a stream, the timeout until each response begins.
    pub(crate) timeout: Option<Duration>,
    pub(crate) progress: ClusterProgress,
    pub(crate) merge: Merge,
}

/// How the responses of several clusters are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// Each row and object names its cluster.
    Marked,
    /// One cluster, with the output of kubectl byte for byte.
    Plain,
}

impl Task<'_> {
    /// The members, with one client for this number of concurrent streams.
    async fn members(
        &self,
        streams: usize,
        deadline: fn(Duration) -> MemberDeadline,
    ) -> Result<Members, ClientError> {
        let time = self.timeout.unwrap_or(FOREVER);
        Members::new(self, streams, || deadline(time)).await
    }

    /// Number of parallel clusters.
    fn at_once(&self) -> usize {
        self.at_once.unwrap_or(AT_ONCE).min(self.clusters.len())
    }

    /// Length of the longest name of a cluster.
    fn width(&self) -> usize {
        self.clusters.iter().map(|name| name.as_str().len()).max().unwrap_or(0)
    }

    /// The clusters whose objects are missing, and why.
    fn faults(&self, results: &[Result<(), MemberFailure>]) -> Vec<(ClusterId, Fault)> {
        let not_ready = self.not_ready.iter().cloned();
        let failed = self.clusters.iter().zip(results);
        let failed =
            failed.filter_map(|(name, result)| Some((name.clone(), Fault::from(result.clone().err()?))));
        not_ready.map(|(name, reason)| (name, Fault::NotReady(reason))).chain(failed).collect()
    }

    /// Runs the work on each member in parallel, and passes the pieces to the sink in order.
    async fn run_each<P, W>(
        &self,
        mut members: Members,
        work: impl Fn(Member, Sender<P>) -> W,
        sink: &mut impl Sink<P>,
    ) -> Vec<Ended>
    where
        P: Send + 'static,
        W: Future<Output = Result<(), MemberFailure>> + Send + 'static,
    {
        let way = self.way(&members.all);
        let results = ordered_output::run(members.all.clone(), &way, work, sink).await;
        members.warn(self.printer);
        self.named(results.unwrap_or_else(|| self.closed()))
    }

    /// The results when standard output was closed, which is no failure.
    fn closed(&self) -> Vec<Result<(), MemberFailure>> {
        vec![Ok(()); self.clusters.len()]
    }

    /// The results with the names of their clusters.
    fn named(&self, results: Vec<Result<(), MemberFailure>>) -> Vec<Ended> {
        self.clusters.iter().cloned().zip(results).collect()
    }

    /// The concurrency for these requests. From now on, the progress display waits for their clusters.
    fn way(&self, what: &[impl ForCluster]) -> Concurrency {
        self.progress.wait_for(what.iter().map(ForCluster::cluster));
        let (at_once, progress) = (self.at_once(), self.progress.clone());
        Concurrency { at_once, ahead: 1, grace: GRACE, stalled: Some(STALLED), progress }
    }
}

/// Whether a kubectl preferences file (kuberc) exists: in a variable, or at kubectl's default path.
fn has_preferences(env: &Env) -> bool {
    if env.var(env::KUBECTL_KUBERC).is_some_and(|on| on == "false") {
        return false;
    }
    env.var(env::KUBERC).is_some_and(|file| file != "off")
        || env.home().is_some_and(|home| home.join(".kube").join("kuberc").exists())
}

/// Number of short requests that share a connection well.
const AT_ONCE: usize = 64;
/// A delay that users accept.
const GRACE: Duration = Duration::from_secs(1);
/// The grace period for a cluster that has started to respond.
const STALLED: Duration = Duration::from_secs(5);
/// Longer than any command runs.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
