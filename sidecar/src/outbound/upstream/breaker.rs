//! A circuit breaker for each member: after a period of failures callers get an error at once, and one request at a
//! time tests whether the member has recovered.
//!
//! - What counts: a connection that cannot be opened (name, TCP, proxy, TLS, each within the connect
//!   timeout), and a new connection that ends before its first answer. The end of a pooled connection does not show
//!   that the member is unreachable: all of them end when it restarts, and the next request opens a new one. It counts
//!   only if the connection was silent for as long as TCP waits.
//! - It opens when failures have continued for [`TIMEOUT`] without an answer: one attempt that took
//!   this long, or two that were this far apart. Simultaneous failures count once.
//! - The leader's probes open it on every replica, through the member's condition ([`Breaker::reported`]), so
//!   that callers of the other replicas do not wait for the connect timeout.
//! - While it is open nothing is sent, for a pause that grows from [`FIRST_PAUSE`] to [`LAST_PAUSE`]. Then one request
//!   is sent as a trial. If its connection opens, all other requests are sent again. Only an answer, with any status,
//!   resets the failure, so that the next pause is short again.
//! - It belongs to one version of a member's Secret, and a new version gets a new breaker.
//!
//! A request reads one atomic; the rest runs only for members that failed recently.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use prometheus_client::metrics::gauge::Gauge;
use tracing::{info, warn};

use super::timeouts::CONNECT_TIMEOUT;
use crate::base::locked::Locked;
use crate::base::random;
use crate::base::retry;

/// The breaker of one member.
#[derive(Debug)]
pub(super) struct Breaker {
    cluster: ClusterName,
    /// Number of members with an open breaker.
    open: Gauge,
    /// Whether there was a failure since the last answer.
    suspect: AtomicBool,
    /// Only for members that fail.
    state: Locked<State>,
}

/// Permission to send a request.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    breaker: &'a Breaker,
    /// Whether other requests wait for its result.
    trial: bool,
}

#[derive(Debug, Default)]
struct State {
    /// The first failure since the last answer.
    failing: Option<Failing>,
    /// No request is sent before this time; `None` while the breaker is closed.
    next_try: Option<Instant>,
    pause: Option<Duration>,
    /// A trial request is in flight.
    trying: bool,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    told: Timestamp,
    reason: String,
}

/// How a failure changed the state.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Opened,
    Other,
}

impl Breaker {
    pub(super) fn new(cluster: ClusterName, open: Gauge) -> Self {
        Self { cluster, open, suspect: AtomicBool::default(), state: Default::default() }
    }

    /// Admits a request, unless the member is unreachable now.
    pub(super) fn admit(&self) -> Result<Attempt<'_>, Unreachable> {
        let trial =
            self.suspect.load(Ordering::Relaxed) && self.state.with(|state| state.admit(Instant::now()))?;
        Ok(Attempt { breaker: self, trial })
    }

    pub(super) fn is_open(&self) -> bool {
        self.suspect.load(Ordering::Relaxed) && self.state.with(|state| state.next_try.is_some())
    }

    pub(super) fn failure(&self) -> Option<(Timestamp, String)> {
        self.state.with(|state| state.failing.as_ref().map(|failing| (failing.told, failing.reason.clone())))
    }

    /// Why nothing is sent now, if so.
    pub(super) fn refusal(&self) -> Option<Unreachable> {
        self.state.with(|state| state.refusal(Instant::now()))
    }

    /// The leader has not reached the member since then, for this reason. The next request tries whether this
    /// replica can reach it.
    pub(super) fn reported(&self, since: Timestamp, reason: &str) {
        let opened = self.state.with(|state| {
            self.suspect.store(true, Ordering::Relaxed);
            state.reported(Instant::now(), since, reason)
        });
        if opened {
            self.open.inc();
            info!(cluster = %self.cluster, reason, "the leader reports the member unreachable");
        }
    }

    /// The leader reaches the member, so requests are sent again. If this replica cannot reach it, the next
    /// failure opens the breaker again.
    pub(super) fn reported_reachable(&self) {
        if self.state.with(State::reported_reachable) {
            self.closed();
        }
    }

    /// Records that a connection to the member was opened.
    pub(super) fn connected(&self) {
        if self.suspect.load(Ordering::Relaxed) && self.state.with(State::connected) {
            self.closed();
        }
    }

    /// Records that the member answered.
    pub(super) fn answered(&self) {
        if !self.suspect.load(Ordering::Relaxed) {
            return;
        }
        let was_open = self.state.with(|state| {
            self.suspect.store(false, Ordering::Relaxed);
            std::mem::take(state).next_try.is_some()
        });
        if was_open {
            self.closed();
        }
    }

    /// Records that the member was not reached, and how long the attempt took.
    pub(super) fn failed(&self, took: Duration, reason: impl fmt::Display) {
        let change = self.state.with(|state| {
            self.suspect.store(true, Ordering::Relaxed);
            state.failed(Instant::now(), took, || reason.to_string())
        });
        if change == Change::Opened {
            self.open.inc();
            warn!(cluster = %self.cluster, %reason, "the member is unreachable: refusing requests at once");
        }
    }

    fn closed(&self) {
        self.open.dec();
        info!(cluster = %self.cluster, "the member is reachable again");
    }

    /// Records that an attempt ended without a result about the member: the next request may try.
    pub(super) fn undecided(&self) {
        self.state.with(|state| state.given_up(Instant::now()));
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        if self.state.with(|state| state.next_try.is_some()) {
            self.open.dec();
        }
    }
}

impl Attempt<'_> {
    /// Whether other requests wait for its result.
    pub(super) fn is_trial(&self) -> bool {
        self.trial
    }

    /// Ends this caller's part in the trial, which continues without it.
    pub(super) fn hand_over(&mut self) {
        self.trial = false;
    }
}

/// A dropped attempt has no result about the member: the next request may try.
impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.trial {
            self.breaker.state.with(|state| state.given_up(Instant::now()));
        }
    }
}

impl State {
    /// Whether the admitted request is the trial.
    fn admit(&mut self, now: Instant) -> Result<bool, Unreachable> {
        if let Some(refusal) = self.refusal(now) {
            return Err(refusal);
        }
        if self.next_try.is_none() {
            return Ok(false);
        }
        self.trying = true;
        self.next_try = Some(now + TRIAL);
        Ok(true)
    }

    fn refusal(&self, now: Instant) -> Option<Unreachable> {
        let (next_try, failing) = self.next_try.zip(self.failing.as_ref())?;
        (now < next_try).then(|| Unreachable {
            since: failing.told,
            reason: failing.reason.clone(),
            lasts: now.saturating_duration_since(failing.since),
            wait: next_try - now,
        })
    }

    /// Whether the breaker opens.
    fn reported(&mut self, now: Instant, since: Timestamp, reason: &str) -> bool {
        if self.next_try.is_some() {
            return false;
        }
        let lasts = Duration::try_from(Timestamp::now().duration_since(since)).unwrap_or_default();
        let since_here = now.checked_sub(lasts).unwrap_or(now);
        self.failing = Some(Failing { since: since_here, told: since, reason: reason.to_owned() });
        self.next_try = Some(now);
        true
    }

    /// Whether the breaker closes. A trial in flight decides instead.
    fn reported_reachable(&mut self) -> bool {
        !self.trying && self.next_try.take().is_some()
    }

    fn failed(&mut self, now: Instant, took: Duration, reason: impl FnOnce() -> String) -> Change {
        let failing = self.failing.get_or_insert_with(|| {
            let told = Timestamp::now();
            Failing {
                since: now.checked_sub(took).unwrap_or(now),
                told: told.checked_sub(took).unwrap_or(told),
                reason: String::new(),
            }
        });
        failing.reason = reason();
        let was_open = self.next_try.is_some();
        // An attempt that began before the breaker opened can also fail afterwards; that changes nothing.
        if (was_open && !self.trying) || now.saturating_duration_since(failing.since) < TIMEOUT {
            return Change::Other;
        }
        let pause = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LAST_PAUSE));
        self.trying = false;
        self.pause = Some(pause);
        self.next_try = Some(now + retry::jittered(pause));
        if was_open { Change::Other } else { Change::Opened }
    }

    /// Whether the breaker was open.
    fn connected(&mut self) -> bool {
        self.trying = false;
        self.next_try.take().is_some()
    }

    fn given_up(&mut self, now: Instant) {
        if std::mem::take(&mut self.trying) && self.next_try.is_some() {
            self.next_try = Some(now);
        }
    }
}

/// Why a request is not sent.
#[derive(Debug)]
pub struct Unreachable {
    since: Timestamp,
    reason: String,
    lasts: Duration,
    wait: Duration,
}

impl Unreachable {
    /// Seconds after which a retry is useful, with jitter: callers that were refused together do not retry
    /// together.
    pub fn retry_after(&self) -> u32 {
        let spread = random::fraction() * f64::from(RETRY_SPREAD + 1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a minute")]
        let seconds = self.wait.as_secs_f64().ceil() as u32 + spread as u32;
        seconds.max(1)
    }

    /// Whether the outage may be a restart, during which `Retry-After` makes kubectl wait.
    pub fn is_short(&self) -> bool {
        self.lasts < RESTART
    }
}

#[cfg(test)]
impl Unreachable {
    /// The error of a member that has been unreachable for this long.
    pub(crate) fn lasting(lasts: Duration) -> Self {
        Self { since: Timestamp::UNIX_EPOCH, reason: "refused".to_owned(), lasts, wait: FIRST_PAUSE }
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { since, reason, wait, .. } = self;
        let wait = wait.as_secs_f64().ceil();
        write!(f, "since {since:.0} ({reason}), next try in {wait} s")
    }
}

/// The first moment of a restart is not an outage.
const TIMEOUT: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// A trial over a pooled but silent connection neither connects nor fails. After this time other requests may
/// try.
const TRIAL: Duration = CONNECT_TIMEOUT.saturating_add(Duration::from_secs(1));
/// How long a kube-apiserver may take to start.
const RESTART: Duration = Duration::from_secs(15);
/// In seconds.
const RETRY_SPREAD: u32 = 2;

#[cfg(test)]
mod tests;
