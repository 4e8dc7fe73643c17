//! Runs the threads that serve connections, one for each core, each with its own runtime and reactor. A
//! connection, its requests and the member connections that they use stay on one thread, so no data moves
//! between cores. Work that follows the host (watches, probes) runs on the main thread, where no request can
//! delay it.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};

use prometheus_client::metrics::gauge::Gauge;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// The threads. They end when this is dropped.
#[derive(Debug)]
pub struct Workers {
    workers: Vec<Worker>,
    stop: CancellationToken,
    threads: Vec<JoinHandle<()>>,
}

/// One thread.
#[derive(Debug)]
pub struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// Counts a connection, on its worker and in total, until it is dropped.
#[derive(Debug)]
pub struct Busy {
    on_worker: Arc<AtomicUsize>,
    in_all: Gauge,
}

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The index of the calling worker thread, below [`count`]; 0 on every other thread.
pub fn current() -> usize {
    CURRENT.get()
}

/// The number of cores of this process at the first call: a CPU quota may change later, but the number of
/// threads does not.
pub fn count() -> usize {
    static COUNT: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));
    *COUNT
}

impl Workers {
    /// Starts the threads.
    pub fn start() -> std::io::Result<Self> {
        let stop = CancellationToken::new();
        let mut started = Self { workers: Vec::new(), stop, threads: Vec::new() };
        for number in 0..count() {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let connections = Arc::default();
            started.workers.push(Worker { runtime: runtime.handle().clone(), connections });
            let stop = started.stop.clone();
            let thread = thread::Builder::new().name(format!("worker-{number}"));
            started.threads.push(thread.spawn(move || {
                CURRENT.set(number);
                runtime.block_on(stop.cancelled());
                // A DNS lookup may block one of these threads for a long time, and cannot be
                // interrupted.
                runtime.shutdown_background();
            })?);
        }
        Ok(started)
    }

    /// The worker with the fewest connections.
    pub fn least_busy(&self) -> &Worker {
        let fewest =
            |fewest, worker| if Worker::load(worker) < Worker::load(fewest) { worker } else { fewest };
        self.workers.iter().fold(&self.workers[0], fewest)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            // The panic was already reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Worker {
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    fn load(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Counts one more connection.
    pub fn busy(&self, in_all: Gauge) -> Busy {
        self.connections.fetch_add(1, Ordering::Relaxed);
        in_all.inc();
        Busy { on_worker: self.connections.clone(), in_all }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.on_worker.fetch_sub(1, Ordering::Relaxed);
        self.in_all.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_goes_to_the_least_busy_worker() {
        let workers = Workers::start().unwrap();
        let open = Gauge::default();
        let connections: Vec<_> = (0..2 * count()).map(|_| workers.least_busy().busy(open.clone())).collect();
        assert!(workers.workers.iter().all(|worker| worker.load() == 2));
        assert_eq!(usize::try_from(open.get()).unwrap(), 2 * count());
        drop(connections);
        assert!(workers.workers.iter().all(|worker| worker.load() == 0));
        assert_eq!(open.get(), 0);
    }

    #[tokio::test]
    async fn task_stays_on_its_worker_and_sees_its_number() {
        let workers = Workers::start().unwrap();
        for (number, worker) in workers.workers.iter().enumerate() {
            let nested = async { (current(), tokio::spawn(async { current() }).await.unwrap()) };
            assert_eq!(worker.runtime().spawn(nested).await.unwrap(), (number, number));
        }
    }

    #[tokio::test]
    async fn blocked_thread_does_not_delay_the_end() {
        let workers = Workers::start().unwrap();
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let limit = std::time::Duration::from_secs(20);
        let waiting =
            workers.least_busy().runtime().spawn_blocking(move || blocked.recv_timeout(limit).is_ok());
        drop(workers);
        release.send(()).unwrap();
        assert!(waiting.await.is_ok_and(|released| released), "the workers waited for the thread");
    }

    #[tokio::test]
    async fn running_tasks_end_with_the_workers() {
        let workers = Workers::start().unwrap();
        let running = workers.least_busy().runtime().spawn(std::future::pending::<()>());
        drop(workers);
        assert!(running.await.unwrap_err().is_cancelled());
    }
}
