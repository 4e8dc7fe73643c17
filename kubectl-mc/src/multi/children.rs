//! Runs a kubectl process for each cluster with a limited concurrency. The output is printed in the order of
//! the clusters, or as it arrives for commands that stream.

mod invocations;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use self::invocations::Invocations;
use super::child::{self, Child, Event};
use super::job::Job;
use super::keep;
use super::ordered_output::{self, Concurrency, ForCluster, Sink, TaskResult};
use super::outcome::NO_RESULT;
use super::outcome::{Fault, Outcome};
use super::output::Output;
use super::progress::ClusterProgress;
use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cluster::client;
use crate::cluster::cluster_id::{ClusterId, KubeconfigContext};
use crate::cluster::context::ClusterContext;
use crate::cluster::credential;
use crate::cluster::reach::HostReach;
use crate::error::Failure;
use crate::kubectl::exec::Invocation;
use crate::kubectl::preflight;
use crate::kubectl::self_review::{self, Subresource};
use crate::kubectl::verb::{self, Effect};
use crate::multi::selection::SelectedCluster;

/// The state that all children of a command share.
pub(super) struct Children<'a> {
    job: &'a Job<'a>,
    /// The client for members, and its context.
    client: Option<(kube::Client, Arc<ClusterContext>)>,
    /// A client of the host itself, for a command that sends reviews to the members' proxies.
    host: Option<kube::Client>,
    input: Option<Arc<[u8]>>,
    invocations: Arc<Invocations>,
    /// The context of the host whose plugin supplied the credential.
    found: Option<Arc<ClusterContext>>,
    timeout: Option<Duration>,
    /// Whether the command only reads.
    reads: bool,
    permits: Arc<Semaphore>,
    /// Limits the preflight requests, which need a connection but no slot of a child.
    asks: Arc<Semaphore>,
}

impl<'a> Children<'a> {
    pub(super) async fn new(job: &'a Job<'a>, scanned: Scanned) -> Result<Self, Failure> {
        let clusters = job.targets.len();
        if verb::is_stream(job.scanned) && clusters > STREAMS && job.options.concurrency.is_none() {
            // A stream needs a kubectl process for each cluster at the same time.
            return Err(Failure::usage(format!(
                "the command would run {clusters} kubectl processes at once, at about 50 MB each"
            ))
            .with_hint(format!(
                "choose at most {STREAMS} clusters, or allow more by --cluster-concurrency={clusters}"
            )));
        }
        let cache = Cache::open(job.env)?;
        let reads = job.effect != Effect::Writes;
        let ends = job.effect == Effect::Reads && !verb::is_stream(job.scanned);
        let timeout = job.options.timeout(ends);
        let reach = job.reach.host.as_ref();
        let reviewed = reach.filter(|reach| {
            self_review::is_sent(job.scanned) && !reach.through.is_direct && !reach.through.hub.is_foreign()
        });
        let mut host = match reviewed {
            Some(reach) => client::connection(&reach.host, job.scanned, job.env).await.ok(),
            None => None,
        };
        let review = match &host {
            Some(host) => {
                let asked = tokio::time::timeout(timeout.unwrap_or(Duration::MAX), Subresource::of(host));
                asked.await.unwrap_or(Subresource::Proxy)
            }
            None => Subresource::Proxy,
        };
        host = host.filter(|_| review == Subresource::Proxy);
        let client = match reach {
            Some(reach) => {
                let client = client::connection(&reach.through, job.scanned, job.env).await.ok();
                client.map(|client| (client, Arc::new(reach.through.clone())))
            }
            None => None,
        };
        let invocations = Invocations::new(job, scanned, review, cache)?;
        Ok(Self {
            client,
            host,
            input: job.input.clone(),
            invocations: Arc::new(invocations),
            found: reach.and_then(HostReach::plugin).cloned().map(Arc::new),
            timeout,
            reads,
            permits: Arc::new(Semaphore::new(concurrency(job))),
            asks: Arc::new(Semaphore::new(ASKED_AT_ONCE)),
            job,
        })
    }

    /// Runs the command on `targets`, a subset of the job's; the outcomes are in the same order. An error
    /// means that the command ran on none of them.
    pub(super) async fn run(
        &self,
        targets: &[&SelectedCluster],
        output: &mut Output<'_>,
        progress: &ClusterProgress,
    ) -> Result<Vec<Outcome>, Failure> {
        let mut sink = Results {
            children: self,
            targets,
            ready: Vec::new(),
            results: vec![None; targets.len()],
            output,
        };
        let is_ready = |(_, target): &(usize, &&SelectedCluster)| target.not_ready().is_none();
        let start = |(at, target): (usize, &&SelectedCluster)| self.start(target, at, progress);
        let starts = targets.iter().enumerate().filter(is_ready).map(start);
        let ready = starts.collect::<Result<Vec<_>, _>>()?;
        for (at, target) in targets.iter().enumerate() {
            if let Some(reason) = target.not_ready() {
                // Reported immediately, so that other output does not wait for it.
                sink.end(at, Err(Fault::NotReady(reason.clone())));
                progress.ended(&target.name);
            } else {
                sink.ready.push(at);
            }
        }
        if verb::is_stream(self.job.scanned) {
            ordered_output::run_unordered(ready, Start::run, &mut sink).await;
        } else {
            let (at_once, progress) = (ready.len(), progress.clone());
            // A child never waits before it writes, because its timeout is running. Tables and
            // documents are read completely.
            let way =
                Concurrency { at_once, ahead: Semaphore::MAX_PERMITS, grace: GRACE, stalled: None, progress };
            ordered_output::run(ready, &way, Start::run, &mut sink).await;
        }
        Ok(sink.outcomes())
    }

    fn start(
        &self,
        target: &SelectedCluster,
        at: usize,
        progress: &ClusterProgress,
    ) -> Result<Start, Failure> {
        let cluster = target.name.clone();
        let way = match &cluster {
            ClusterId::Member(name) => {
                let invocation = self.invocations.make(&cluster, self.job.reach.of(&cluster)?, at)?;
                let host = self.job.reach.host.as_ref();
                let expires = host.and_then(HostReach::expires);
                Way::Member { name: name.clone(), invocation, expires, found: self.found.clone() }
            }
            ClusterId::Context(context) => Way::Context(Arc::clone(context)),
        };
        Ok(Start {
            cluster,
            way,
            at,
            invocations: Arc::clone(&self.invocations),
            input: self.input.clone(),
            timeout: self.timeout,
            host: self.host.clone(),
            may_say_no: verb::may_say_no(self.job.scanned),
            keep: self.job.options.keep,
            client: self.client.clone(),
            permits: self.permits.clone(),
            asks: self.asks.clone(),
            progress: progress.clone(),
        })
    }
}

/// A child to start.
struct Start {
    cluster: ClusterId,
    way: Way,
    /// The position of the cluster.
    at: usize,
    invocations: Arc<Invocations>,
    input: Option<Arc<[u8]>>,
    timeout: Option<Duration>,
    /// For a command that sends a review of the caller by POST.
    host: Option<kube::Client>,
    may_say_no: bool,
    keep: bool,
    client: Option<(kube::Client, Arc<ClusterContext>)>,
    permits: Arc<Semaphore>,
    asks: Arc<Semaphore>,
    progress: ClusterProgress,
}

/// How a child reaches its cluster.
enum Way {
    /// With the credential with which the command began, until it expires.
    Member {
        name: ClusterName,
        invocation: Invocation,
        expires: Option<Timestamp>,
        /// The context before the login.
        found: Option<Arc<ClusterContext>>,
    },
    /// Its credential may come from a plugin.
    Context(Arc<KubeconfigContext>),
}

impl Start {
    async fn run(self, events: mpsc::Sender<Event>) {
        let timeout = self.timeout;
        let permits = self.permits.clone();
        let result = match self.prepare().await {
            Ok((invocation, begin)) => {
                // The preflight and the child share the cluster's timeout; the time in the queue does not
                // count.
                let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
                match permits.acquire_owned().await {
                    Ok(_permit) if self.keep => {
                        let make = |invocation| self.child(invocation, left);
                        keep::run(invocation, make, || self.renewed(), &events).await
                    }
                    Ok(_permit) => child::run(self.child(invocation, left), &events).await,
                    // The semaphore is never closed.
                    Err(_) => Err(Fault::NotBegun),
                }
            }
            Err(fault) => Err(fault),
        };
        let result = match (result, timeout) {
            (Err(Fault::TimedOut(_)), Some(timeout)) => Err(Fault::TimedOut(timeout)),
            (result, _) => result,
        };
        if result.is_ok() {
            // Not only when its output is printed, because that waits for the previous clusters.
            self.progress.succeeded(&self.cluster);
        }
        // Without a receiver, the command is ending.
        let _ = events.send(Event::End(result)).await;
    }

    /// The run of kubectl, and the time of the first request to its cluster.
    async fn prepare(&self) -> Result<(Invocation, Instant), Fault> {
        if let Some(invocation) = self.renewed().await? {
            return Ok((invocation, Instant::now()));
        }
        // A context always has its own invocation.
        let Way::Member { name, invocation, .. } = &self.way else { return Err(Fault::NotBegun) };
        let _ask = self.asks.clone().acquire_owned().await;
        let begin = Instant::now();
        refusal(self.client.as_ref(), name, self.host.as_ref(), self.timeout).await?;
        Ok((invocation.clone(), begin))
    }

    /// The run of kubectl with the plugin's current credential; `None` if the one from the
    /// command's start is still valid.
    async fn renewed(&self) -> Result<Option<Invocation>, Fault> {
        let context = match &self.way {
            Way::Member { expires, .. } if credential::is_valid(*expires) => return Ok(None),
            Way::Member { found: None, .. } => return Ok(None),
            Way::Member { found: Some(found), .. } => found,
            Way::Context(context) => &context.cluster,
        };
        let made = self.invocations.of_context(&self.cluster, context, self.at, self.timeout).await;
        made.map(Some).map_err(|failure| Fault::Other(failure.to_string()))
    }

    fn child(&self, invocation: Invocation, timeout: Option<Duration>) -> Child {
        let command = self.invocations.child(invocation);
        Child { command, input: self.input.clone(), timeout, may_say_no: self.may_say_no }
    }
}

/// A child reports its result with an event; without one, the cluster has failed.
impl TaskResult for () {
    fn died() -> Self {}
}

impl ForCluster for Start {
    fn cluster(&self) -> &ClusterId {
        &self.cluster
    }
}

/// Forwards the children's output and records their results.
struct Results<'a, 'o> {
    children: &'a Children<'a>,
    targets: &'a [&'a SelectedCluster],
    /// The positions of the running children.
    ready: Vec<usize>,
    results: Vec<Option<Result<(), Fault>>>,
    output: &'a mut Output<'o>,
}

impl Results<'_, '_> {
    fn end(&mut self, at: usize, result: Result<(), Fault>) {
        let cluster = &self.targets[at].name;
        self.results[at] = Some(self.output.end(cluster, result));
    }

    /// Breaks when standard output is closed. A command that writes still completes.
    fn go_on(&self) -> ControlFlow<()> {
        let Children { job, reads, .. } = self.children;
        if *reads && job.printer.is_reader_gone() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn outcomes(self) -> Vec<Outcome> {
        let is_closed = self.go_on().is_break();
        // A child that was stopped because standard output was closed did not fail.
        let absent = || if is_closed { Ok(()) } else { Err(Fault::Other(NO_RESULT.to_owned())) };
        let outcome = |(target, result): (&&SelectedCluster, Option<_>)| Outcome {
            cluster: target.name.clone(),
            result: result.unwrap_or_else(absent),
        };
        self.targets.iter().zip(self.results).map(outcome).collect()
    }
}

impl Sink<Event> for Results<'_, '_> {
    fn take(&mut self, place: usize, event: Event) -> ControlFlow<()> {
        let at = self.ready[place];
        let cluster = &self.targets[at].name;
        match event {
            Event::Out(bytes) => self.output.out(cluster, bytes),
            Event::Err(bytes) => self.output.err(cluster, &bytes),
            Event::End(result) => self.end(at, result),
        }
        self.go_on()
    }

    fn due(&self) -> Option<Instant> {
        self.output.due()
    }

    fn show(&mut self) -> ControlFlow<()> {
        self.output.show();
        self.go_on()
    }
}

/// Finds a refusing hop before kubectl runs, which would wait longer and report less.
async fn refusal(
    client: Option<&(kube::Client, Arc<ClusterContext>)>,
    cluster: &ClusterName,
    host: Option<&kube::Client>,
    timeout: Option<Duration>,
) -> Result<(), Fault> {
    let Some((client, through)) = client else { return Ok(()) };
    let asked = async {
        let refusal = preflight::refusal(through, client, cluster).await;
        // Direct requests also refuse such a key.
        match (refusal.map_err(|error| Fault::Other(error.reason()))?, host) {
            (None, Some(host)) => Ok::<_, Fault>(self_review::refusal(host, cluster).await),
            (refusal, _) => Ok(refusal),
        }
    };
    let refusal = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, asked).await.map_err(|_| Fault::TimedOut(timeout))?,
        None => asked.await,
    }?;
    let Some(refusal) = refusal else { return Ok(()) };
    if refusal.may_lack_the_sidecar()
        && let Some(other) = through.hub.find(client).await
    {
        return Err(Fault::OtherHub(other));
    }
    Err(Fault::Refused(refusal))
}

/// Limits the concurrency, because a kubectl process uses 50 MB and much of a core while it starts.
fn concurrency(job: &Job<'_>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let ours = job.options.concurrency.map(std::num::NonZero::get);
    // Streams do not end by themselves, so all of them must run at once.
    let all = if verb::is_stream(job.scanned) { job.targets.len() } else { 0 };
    ours.unwrap_or_else(|| (2 * cores).clamp(4, 16).max(all))
}

/// A kubectl process needs almost a second to start.
const GRACE: Duration = Duration::from_secs(2);
/// Uses about 3 GB of memory.
const STREAMS: usize = 64;
/// The number of connections that a reverse proxy usually accepts from one user.
const ASKED_AT_ONCE: usize = 64;
