//! The clusters and options of a plan, and the requests to all of them.

use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::failure::MemberFailure;
use super::member::{Member, Members};
use super::member_deadline::MemberDeadline;
use crate::argv::Scanned;
use crate::cli::Color;
use crate::cluster::client::ClientError;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::reach::Reach;
use crate::env::Env;
use crate::multi::ordered_output::{self, Concurrency, ForCluster, Sink};
use crate::multi::outcome::Fault;
use crate::multi::progress::ClusterProgress;
use crate::multi::selection::Growth;
use crate::printer::Printer;
use crate::server_text::ServerText;

/// The result of a plan on a cluster.
pub(crate) type Ended = (ClusterId, Result<(), MemberFailure>);

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
    pub(super) async fn members(
        &self,
        streams: usize,
        deadline: fn(Duration) -> MemberDeadline,
    ) -> Result<Members, ClientError> {
        let time = self.timeout.unwrap_or(FOREVER);
        Members::new(self, streams, || deadline(time)).await
    }

    /// Number of parallel clusters.
    pub(super) fn at_once(&self) -> usize {
        self.at_once.unwrap_or(AT_ONCE).min(self.clusters.len())
    }

    /// Length of the longest cluster name.
    pub(super) fn width(&self) -> usize {
        self.clusters.iter().map(|name| name.as_str().len()).max().unwrap_or(0)
    }

    /// The clusters whose objects are missing, and why.
    pub(super) fn faults(&self, results: &[Result<(), MemberFailure>]) -> Vec<(ClusterId, Fault)> {
        let not_ready = self.not_ready.iter().cloned();
        let failed = self.clusters.iter().zip(results);
        let failed =
            failed.filter_map(|(name, result)| Some((name.clone(), Fault::from(result.clone().err()?))));
        not_ready.map(|(name, reason)| (name, Fault::NotReady(reason))).chain(failed).collect()
    }

    /// Runs the work on each member in parallel, and passes the pieces to the sink in order.
    pub(super) async fn run_each<P, W>(
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

    /// The results when standard output was closed, which is not a failure.
    pub(super) fn closed(&self) -> Vec<Result<(), MemberFailure>> {
        vec![Ok(()); self.clusters.len()]
    }

    /// The results with the names of their clusters.
    pub(super) fn named(&self, results: Vec<Result<(), MemberFailure>>) -> Vec<Ended> {
        self.clusters.iter().cloned().zip(results).collect()
    }

    /// The concurrency for these requests. From now on, the progress display waits for their clusters.
    pub(super) fn way(&self, what: &[impl ForCluster]) -> Concurrency {
        self.progress.wait_for(what.iter().map(ForCluster::cluster));
        let (at_once, progress) = (self.at_once(), self.progress.clone());
        Concurrency { at_once, ahead: 1, grace: GRACE, stalled: Some(STALLED), progress }
    }
}

/// Number of short requests that share a connection well.
const AT_ONCE: usize = 64;
/// A delay that users accept.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// The grace period for a cluster that has started to respond.
const STALLED: Duration = Duration::from_secs(5);
/// Longer than any command runs.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
