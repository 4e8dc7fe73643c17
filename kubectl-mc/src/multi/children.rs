//! Runs a kubectl process for each cluster with a limited concurrency. Their output is printed in the order of the
//! clusters, or as it arrives for commands that do not end.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kubectl_mc_api::ClusterName;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::child::{self, Child, Event};
use super::ordered_output::{self, Concurrency, ForCluster, Sink};
use super::output::Output;
use super::progress::ClusterProgress;
use super::run_folder::RunFolder;
use super::{Fault, Job, Outcome, keep, local_port};
use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cluster::client;
use crate::cluster::context::User;
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;
use crate::kubectl::exec::{Invocation, Kubectl};
use crate::kubectl::overlay;
use crate::kubectl::preflight;
use crate::kubectl::rewrite::{self, RawPath};
use crate::kubectl::self_review::{self, Subresource};
use crate::kubectl::verb::{self, Effect};
use crate::multi::selection::SelectedCluster;

/// What all children of a command share.
pub(super) struct Children<'a> {
    job: &'a Job<'a>,
    kubectl: Kubectl,
    client: Option<kube::Client>,
    /// A client of the host itself, for a command that sends a review to the members' proxies.
    host: Option<kube::Client>,
    /// Where a review of the caller is sent.
    review: Subresource,
    input: Option<Arc<[u8]>>,
    /// The words for kubectl; those of one cluster may differ.
    scanned: Scanned,
    cache: Cache,
    /// Where overlays with a credential are kept, as long as this lives.
    folder: Option<RunFolder>,
    timeout: Option<Duration>,
    /// It changes nothing.
    reads: bool,
    permits: Arc<Semaphore>,
    /// A preflight needs no slot of a child, but a connection.
    asks: Arc<Semaphore>,
}

impl<'a> Children<'a> {
    pub(super) async fn new(job: &'a Job<'a>, scanned: Scanned) -> Result<Self, Failure> {
        let clusters = job.targets.len();
        if verb::is_stream(job.scanned) && clusters > STREAMS && job.options.concurrency.is_none() {
            return Err(TooManyStreams { clusters }.into());
        }
        let cache = Cache::open(job.env)?;
        let folder = match &job.through.user {
            User::Inline(..) => Some(RunFolder::make(cache.folder())?),
            User::Named(_) | User::ServiceAccount(_) => None,
        };
        let reads = job.effect != Effect::Writes;
        let ends = job.effect == Effect::Reads && !verb::is_stream(job.scanned);
        let timeout = job.options.timeout(ends);
        let mut host = match self_review::is_sent(job.scanned) && !job.through.is_direct {
            true => client::connection(job.host, job.scanned, job.env).await.ok(),
            false => None,
        };
        let review = match &host {
            Some(host) => {
                let asked = tokio::time::timeout(timeout.unwrap_or(Duration::MAX), Subresource::of(host));
                asked.await.unwrap_or(Subresource::Proxy)
            }
            None => Subresource::Proxy,
        };
        host = host.filter(|_| review == Subresource::Proxy);
        Ok(Self {
            kubectl: Kubectl::find(job.env)?,
            client: client::connection(job.through, job.scanned, job.env).await.ok(),
            host,
            review,
            input: job.input.clone(),
            scanned,
            cache,
            folder,
            timeout,
            reads,
            permits: Arc::new(Semaphore::new(concurrency(job))),
            asks: Arc::new(Semaphore::new(ASKED_AT_ONCE)),
            job,
        })
    }

    /// Runs it at `targets`, which are some of the job's; the outcomes are in their order.
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
        let mut ready = Vec::new();
        for (at, target) in targets.iter().enumerate() {
            if let Some(reason) = target.not_ready() {
                // Reported at once, so that nothing waits for it.
                sink.end(at, Err(Fault::NotReady(reason.clone())));
                progress.ended(&target.name);
                continue;
            }
            ready.push(self.start(target, at)?);
            sink.ready.push(at);
        }
        if verb::is_stream(self.job.scanned) {
            ordered_output::run_unordered(ready, Start::run, &mut sink).await;
        } else {
            let (at_once, progress) = (ready.len(), progress.clone());
            // A child never waits for its turn to write, because its time runs. Tables and documents are read whole.
            let way =
                Concurrency { at_once, ahead: Semaphore::MAX_PERMITS, grace: GRACE, stalled: None, progress };
            ordered_output::run(ready, &way, Start::run, &mut sink).await;
        }
        Ok(sink.outcomes())
    }

    fn start(&self, target: &SelectedCluster, at: usize) -> Result<Start, Failure> {
        Ok(Start {
            cluster: target.name.clone(),
            kubectl: self.kubectl.clone(),
            invocation: self.invocation(target, at)?,
            parsed: self.job.parses_output(),
            input: self.input.clone(),
            timeout: self.timeout,
            host: self.host.clone(),
            may_say_no: verb::may_say_no(self.job.scanned),
            keep: self.job.options.keep,
            client: self.client.clone(),
            permits: self.permits.clone(),
            asks: self.asks.clone(),
        })
    }

    fn invocation(&self, target: &SelectedCluster, at: usize) -> Result<Invocation, Failure> {
        let overlay = match self.review {
            Subresource::Proxy => overlay::overlay_json(self.job.through, &target.name)?,
            Subresource::SelfReviews => overlay::self_review_overlay_json(self.job.through, &target.name)?,
        };
        let overlay: PathBuf = match &self.folder {
            Some(folder) => folder.write(&format!("{}.json", target.name), &overlay)?,
            None => self.cache.store(&overlay, SystemTime::now())?,
        };
        let mut raw = RawPath::Joined;
        if rewrite::uses_raw(&self.scanned).is_some() {
            let minor = self.kubectl.minor_version(&rewrite::kubeconfig_list(self.job.through, &overlay)?)?;
            raw = RawPath::of_minor_version(minor);
        }
        let mut scanned = self.scanned.clone();
        local_port::adapt(&mut scanned, target.name.as_str(), at);
        Ok(rewrite::rewrite(scanned, self.job.through, &target.name, &overlay, raw)?)
    }
}

/// A child that is to be run.
struct Start {
    cluster: ClusterName,
    kubectl: Kubectl,
    invocation: Invocation,
    /// Whether the output is read here, and not only passed on.
    parsed: bool,
    input: Option<Arc<[u8]>>,
    timeout: Option<Duration>,
    /// For a command that asks about the caller, by a POST.
    host: Option<kube::Client>,
    may_say_no: bool,
    keep: bool,
    client: Option<kube::Client>,
    permits: Arc<Semaphore>,
    asks: Arc<Semaphore>,
}

impl Start {
    async fn run(self, events: mpsc::Sender<Event>) {
        let (timeout, client) = (self.timeout, self.client.as_ref());
        let (permits, asks) = (self.permits.clone(), self.asks.clone());
        let ask = asks.acquire_owned().await;
        let begin = Instant::now();
        let refused = refusal(client, &self.cluster, self.host.as_ref(), timeout).await;
        drop(ask);
        let result = match refused {
            Ok(()) => {
                // Both together have the time that the cluster has; waiting for a turn is not its fault.
                let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
                match permits.acquire_owned().await {
                    Ok(_permit) if self.keep => keep::run(|| self.child(left), &events).await,
                    Ok(_permit) => child::run(self.child(left), &events).await,
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
        // Without a receiver the command is ending.
        let _ = events.send(Event::End(result)).await;
    }

    fn child(&self, timeout: Option<Duration>) -> Child {
        let mut command = self.kubectl.child(self.invocation.clone());
        if self.parsed {
            // The user's preferences for kubectl would change the form of what is read here.
            command.env("KUBECTL_KUBERC", "false");
        }
        Child { command, input: self.input.clone(), timeout, may_say_no: self.may_say_no }
    }
}

impl ForCluster for Start {
    fn cluster(&self) -> &ClusterName {
        &self.cluster
    }
}

/// Passes the children's output on, and keeps how they ended.
struct Results<'a, 'o> {
    children: &'a Children<'a>,
    targets: &'a [&'a SelectedCluster],
    /// The places of those that are run.
    ready: Vec<usize>,
    results: Vec<Option<Result<(), Fault>>>,
    output: &'a mut Output<'o>,
}

impl Results<'_, '_> {
    fn end(&mut self, at: usize, result: Result<(), Fault>) {
        self.results[at] = Some(self.output.end(&self.targets[at].name, result));
    }

    /// Breaks when standard output is closed. A change is finished all the same.
    fn go_on(&self) -> ControlFlow<()> {
        let Children { job, reads, .. } = self.children;
        if *reads && job.printer.is_reader_gone() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn outcomes(self) -> Vec<Outcome> {
        // Without an end standard output was closed: that is no failure.
        let outcome = |(target, result): (&&SelectedCluster, Option<_>)| Outcome {
            cluster: target.name.clone(),
            result: result.unwrap_or(Ok(())),
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

/// Finds a refusing hop before kubectl runs, which waits longer and reports less.
async fn refusal(
    client: Option<&kube::Client>,
    cluster: &ClusterName,
    host: Option<&kube::Client>,
    timeout: Option<Duration>,
) -> Result<(), Fault> {
    let Some(client) = client else { return Ok(()) };
    let asked = async {
        match (preflight::refusal(client, cluster).await, host) {
            (None, Some(host)) => self_review::refusal(host, cluster).await,
            (refusal, _) => refusal,
        }
    };
    let refusal = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, asked).await.map_err(|_| Fault::TimedOut(timeout))?,
        None => asked.await,
    };
    refusal.map_or(Ok(()), |refusal| Err(Fault::Refused(refusal)))
}

/// A kubectl costs 50 MB and a good part of a core while it starts.
fn concurrency(job: &Job<'_>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let ours = job.options.concurrency.map(std::num::NonZero::get);
    // Those that do not end by themselves are all needed at once.
    let all = if verb::is_stream(job.scanned) { job.targets.len() } else { 0 };
    ours.unwrap_or_else(|| (2 * cores).clamp(4, 16).max(all))
}

/// A command that does not end needs a kubectl for each cluster at the same time.
#[derive(Debug, thiserror::Error)]
#[error("the command would run {clusters} kubectl processes at once, at about 50 MB each")]
struct TooManyStreams {
    clusters: usize,
}

impl Explain for TooManyStreams {
    fn hint(&self) -> Option<String> {
        Some(format!(
            "choose at most {STREAMS} clusters, or allow more by --cluster-concurrency={}",
            self.clusters
        ))
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

/// A kubectl needs the better part of a second to start.
const GRACE: Duration = Duration::from_secs(2);
/// 3 GB of kubectls.
const STREAMS: usize = 64;
/// As many connections as a host's proxy takes from one user without a word.
const ASKED_AT_ONCE: usize = 64;
