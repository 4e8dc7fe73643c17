//! Runs hostile clients, each on its own thread, until the test stops them or their time is up.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::setpriority_process;

/// The limits of an attack.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub clients: usize,
    pub time: Duration,
}

/// The running clients. They end when this is dropped.
pub struct Attack {
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
}

/// One client's view of the attack.
pub struct Shift {
    /// Which of the clients it is, from 0.
    pub number: usize,
    state: Arc<State>,
}

/// What the clients have done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Requests that were sent, or, if a client sends none, its connections.
    pub sent: u64,
    /// Sessions that the server ended by refusing or closing the connection.
    pub cut: u64,
}

struct State {
    over: AtomicBool,
    end: Instant,
    sent: AtomicU64,
    cut: AtomicU64,
}

impl Attack {
    /// Runs sessions of this many clients. If a session fails, the server has cut it, and the next
    /// one begins.
    pub fn start(bounds: Bounds, session: impl Fn(&Shift) -> Result<()> + Send + Sync + 'static) -> Self {
        let session = Arc::new(session);
        let [sent, cut] = [(); 2].map(|()| AtomicU64::new(0));
        let state =
            Arc::new(State { over: AtomicBool::new(false), end: Instant::now() + bounds.time, sent, cut });
        let client = |number| {
            let shift = Shift { number, state: Arc::clone(&state) };
            let session = Arc::clone(&session);
            std::thread::spawn(move || {
                // Attackers have the lowest priority: the test must not measure how all of them
                // compete for the machine that they share.
                let _ = setpriority_process(None, LOWEST);
                while !shift.is_over() {
                    if session(&shift).is_err() {
                        shift.state.cut.fetch_add(1, Ordering::Relaxed);
                        // A server that refuses at once must not make the test's machine spin.
                        shift.pause(REFUSED);
                    }
                }
            })
        };
        let threads = (0..bounds.clients).map(client).collect();
        Self { state, threads }
    }

    /// What the clients have done so far.
    pub fn tally(&self) -> Tally {
        self.state.tally()
    }

    /// Waits until the clients' time is up and returns what they did.
    pub fn last(mut self) -> Tally {
        for thread in self.threads.drain(..) {
            // A session's panic is a bug in the harness, and its message was printed.
            let _ = thread.join();
        }
        self.tally()
    }

    /// Ends all clients and returns what they did.
    pub fn stop(mut self) -> Tally {
        self.end();
        self.tally()
    }

    fn end(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shift {
    pub fn is_over(&self) -> bool {
        self.state.over.load(Ordering::Relaxed) || Instant::now() >= self.state.end
    }

    /// Waits this long, or until the attack is over.
    pub fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now())
            && !self.is_over()
        {
            std::thread::park_timeout(left.min(TICK));
        }
    }

    /// Counts what was sent.
    pub fn sent(&self, requests: usize) {
        self.state.sent.fetch_add(requests as u64, Ordering::Relaxed);
    }
}

impl State {
    fn tally(&self) -> Tally {
        Tally { sent: self.sent.load(Ordering::Relaxed), cut: self.cut.load(Ordering::Relaxed) }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sent, {} sessions cut", self.sent, self.cut)
    }
}

/// The nice value that yields to all others (`PRIO_PROCESS` of Linux is the thread's own).
const LOWEST: i32 = 19;
const REFUSED: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn clients_end_when_they_are_stopped() {
        let bounds = Bounds { clients: 3, time: Duration::from_secs(3600) };
        let attack = Attack::start(bounds, |shift| {
            shift.sent(1);
            shift.pause(Duration::from_secs(3600));
            Ok(())
        });
        crate::wait::eventually("they send", crate::wait::SOON, || {
            Ok((attack.tally().sent == 3).then_some(()))
        })
        .unwrap();
        assert_eq!(attack.stop().sent, 3);
    }

    #[test]
    fn clients_end_when_their_time_is_up() {
        let bounds = Bounds { clients: 1, time: Duration::from_millis(50) };
        let attack = Attack::start(bounds, |shift| {
            shift.sent(1);
            bail!("refused")
        });
        let Tally { sent, cut } = attack.last();
        assert!(sent > 0 && sent == cut, "{sent} sent, {cut} cut");
    }
}
