//! Runs work on many clusters in parallel and passes the output on in the order of the clusters, or as it
//! arrives. A cluster that is silent while others wait is moved to the end. Waiting output is
//! buffered in a channel of limited size.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::cluster_id::ClusterId;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::progress::ClusterProgress;
use super::straggler_timer::StragglerTimer;

/// Receives the pieces in order.
pub(super) trait Sink<P> {
    /// Receives the next piece of the cluster at this position; breaks when standard output is closed.
    fn take(&mut self, place: usize, piece: P) -> ControlFlow<()>;

    /// Marks the end of the cluster at this position.
    fn end(&mut self, _place: usize) {}

    /// When held output must be shown, if there is any: [`HELD`] after its start.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Shows held output.
    fn show(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// A unit of work on a cluster.
pub(super) trait ForCluster {
    fn cluster(&self) -> &ClusterId;
}

/// The options of a run.
#[derive(Clone)]
pub(super) struct Concurrency {
    /// Maximum number of parallel clusters.
    pub(super) at_once: usize,
    /// Number of buffered pieces for each waiting cluster.
    pub(super) ahead: usize,
    /// Minimum time that a silent cluster may delay the others.
    pub(super) grace: Duration,
    /// The same for a cluster that has started to respond; `None` means that such a cluster keeps its place.
    pub(super) stalled: Option<Duration>,
    pub(super) progress: ClusterProgress,
}

/// The result of a task that may also end without one, by a panic.
pub(super) trait TaskResult {
    /// The result of a task that ended without one.
    fn died() -> Self;
}

/// Runs `work` for each of `what`, and passes the pieces to the sink in order. Returns the results in the
/// order of `what`; `None` when standard output is closed.
pub(super) async fn run<T, P, R, W>(
    what: Vec<T>,
    way: &Concurrency,
    work: impl Fn(T, mpsc::Sender<P>) -> W,
    sink: &mut impl Sink<P>,
) -> Option<Vec<R>>
where
    T: ForCluster,
    P: Send + 'static,
    R: TaskResult + Send + 'static,
    W: Future<Output = R> + Send + 'static,
{
    let turns = Arc::new(Semaphore::new(way.at_once.max(1)));
    let mut results: Vec<R> = what.iter().map(|_| R::died()).collect();
    let running = what.into_iter().enumerate().map(|(place, what)| {
        let (sender, pieces) = mpsc::channel(way.ahead);
        let (progress, cluster) = (way.progress.clone(), what.cluster().clone());
        let (turns, work) = (Arc::clone(&turns), work(what, sender));
        let task = tokio::spawn(async move {
            let _turn = turns.acquire_owned().await;
            let result = work.await;
            progress.ended(&cluster);
            result
        });
        Running { place, task: Abort(task), pieces, spoke: None, passed_over: false }
    });
    let mut queue =
        Queue { waiting: running.collect(), quiet: StragglerTimer::new(way.grace), stalled: way.stalled };
    while let Some(mut first) = queue.waiting.pop_front() {
        loop {
            match queue.next(&mut first, sink).await? {
                Next::Piece(piece) => {
                    if sink.take(first.place, piece).is_break() {
                        return None;
                    }
                }
                Next::Passed => {
                    first.passed_over = true;
                    queue.waiting.push_back(first);
                    break;
                }
                Next::Ended => {
                    sink.end(first.place);
                    results[first.place] = (&mut first.task.0).await.unwrap_or_else(|_| R::died());
                    break;
                }
            }
        }
    }
    Some(results)
}

/// Runs the work unordered and without a limit, because streams are needed on all clusters at once.
pub(super) async fn run_unordered<T, P, R, W>(
    what: Vec<T>,
    work: impl Fn(T, mpsc::Sender<P>) -> W,
    sink: &mut impl Sink<P>,
) -> Option<Vec<R>>
where
    P: Send + 'static,
    R: TaskResult + Send + 'static,
    W: Future<Output = R> + Send + 'static,
{
    let (all, mut pieces) = mpsc::channel(AHEAD);
    let running = what.into_iter().enumerate().map(|(place, what)| {
        let (sender, mut own) = mpsc::channel(AHEAD);
        let (work, all) = (work(what, sender), all.clone());
        let pass_on = async move {
            while let Some(piece) = own.recv().await {
                if all.send((place, piece)).await.is_err() {
                    return;
                }
            }
        };
        Abort(tokio::spawn(async move { tokio::join!(work, pass_on).0 }))
    });
    let running: Vec<_> = running.collect();
    drop(all);
    loop {
        let shown = match until(sink.due(), pieces.recv()).await {
            Some(Some((place, piece))) => sink.take(place, piece),
            Some(None) => break,
            None => sink.show(),
        };
        if shown.is_break() {
            return None;
        }
    }
    let mut results = Vec::new();
    for mut task in running {
        results.push((&mut task.0).await.unwrap_or_else(|_| R::died()));
    }
    Some(results)
}

/// Waits for the future until `due`. A receiver loses no data if the wait is cancelled.
async fn until<T>(due: Option<Instant>, what: impl Future<Output = T>) -> Option<T> {
    match due {
        Some(due) => tokio::time::timeout_at(due, what).await.ok(),
        None => Some(what.await),
    }
}

/// The work on one cluster.
struct Running<P, R> {
    place: usize,
    task: Abort<R>,
    pieces: mpsc::Receiver<P>,
    /// The time of its last new piece.
    spoke: Option<Instant>,
    passed_over: bool,
}

impl<P, R> Running<P, R> {
    fn is_ready(&self) -> bool {
        !self.pieces.is_empty() || self.pieces.is_closed()
    }
}

/// The clusters after the first.
struct Queue<P, R> {
    waiting: VecDeque<Running<P, R>>,
    quiet: StragglerTimer,
    stalled: Option<Duration>,
}

/// The next result of the first cluster.
enum Next<P> {
    Piece(P),
    Ended,
    /// The cluster has lost its place.
    Passed,
}

impl<P, R> Queue<P, R> {
    /// The next piece of the first; `None` when standard output is closed. Shows held output when it is due.
    async fn next(&mut self, first: &mut Running<P, R>, sink: &mut impl Sink<P>) -> Option<Next<P>> {
        loop {
            if !first.is_ready() && self.others_wait() && self.is_silent(first) {
                return Some(Next::Passed);
            }
            // If no other cluster waits, the first one has unlimited time.
            let look = (!self.waiting.is_empty()).then(|| Instant::now() + LOOK);
            match until(sink.due().into_iter().chain(look).min(), first.pieces.recv()).await {
                Some(Some(piece)) => {
                    if first.spoke.is_none() {
                        self.quiet.moved();
                    }
                    first.spoke = Some(Instant::now());
                    return Some(Next::Piece(piece));
                }
                Some(None) => return Some(Next::Ended),
                None if sink.due().is_some_and(|due| due <= Instant::now()) && sink.show().is_break() => {
                    return None;
                }
                None => {}
            }
        }
    }

    /// Whether a later cluster has output.
    fn others_wait(&mut self) -> bool {
        let mut waits = false;
        for other in self.waiting.iter_mut().filter(|other| other.is_ready()) {
            waits = true;
            if other.spoke.is_none() {
                other.spoke = Some(Instant::now());
                self.quiet.moved();
            }
        }
        waits
    }

    fn is_silent(&self, first: &Running<P, R>) -> bool {
        match (first.spoke, self.stalled) {
            (Some(_), None) => false,
            // A cluster that has lost its place no longer waits or delays others.
            _ if first.passed_over => true,
            (Some(spoke), Some(stalled)) => spoke.elapsed() >= stalled,
            (None, _) => self.quiet.over() <= Instant::now(),
        }
    }
}

/// A task that is aborted on drop.
pub(super) struct Abort<R>(pub(super) JoinHandle<R>);

impl<R> Drop for Abort<R> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long rows are held back to align them: a delay that users do not notice.
pub(super) const HELD: Duration = Duration::from_millis(500);
/// Number of buffered pieces for unordered output.
const AHEAD: usize = 16;
/// Interval of the check whether others wait.
const LOOK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
