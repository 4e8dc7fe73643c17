//! Ends a request even if its client reads nothing. hyper polls a response's body only while the client
//! reads, so a deadline that is checked only in the body may never take effect. Therefore each request has a
//! [`Cutoff`], which drops the owner of the answer: the task of an HTTP/2 stream, which resets the stream (RFC 9113,
//! 5.4.2: CANCEL), or the HTTP/1.1 connection. This also drops the connection to the member, the permits and the
//! record.
//!
//! A request can first end normally: the cutoff happens [`GRACE`] after the deadline, or after a long-running request
//! has lost its authorization. A request with a deadline is also cut off if its client reads nothing of the answer for
//! [`UNREAD_TIMEOUT`]. A long-running one may pause for hours (`kubectl logs | less`) while the memory of all paused
//! requests stays within their shares: see [`paused`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use kubectl_mc_api::ClusterName;
use slab::Slab;
use tokio::time::{MissedTickBehavior, interval};

use crate::base::locked::Locked;
use crate::base::workers;
use crate::limits::in_flight::{Caller, Permit};

mod cancelled;
mod paused;
mod since;

use cancelled::Cancelled;
use paused::{Holder, Paused};
use since::Since;

/// Ends the owner of one answer.
#[derive(Debug, Default)]
pub struct Cutoff {
    cut: AtomicBool,
    carrier: AtomicWaker,
    /// Since when the client has not read the last part of the answer.
    unread: Since,
    /// Since when the member has not read the last part of an upgraded connection.
    unread_by_member: Since,
}

/// The requests in flight, one sheet for each worker, so that their threads do not contend.
#[derive(Debug)]
pub struct Cutoffs {
    sheets: Vec<Locked<Requests>>,
    cancelled: Cancelled,
}

#[derive(Debug, Default)]
struct Requests {
    under_way: Slab<Entry>,
}

#[derive(Debug)]
struct Entry {
    cutoff: Arc<Cutoff>,
    /// `None` for a long-running request, which its revalidation ends.
    due: Option<Instant>,
    /// The caller and the cluster whose shares a long-running request uses.
    holder: Holder,
}

/// A request's entry, removed from the sheet on drop.
#[derive(Debug)]
pub struct Listed {
    cutoffs: Arc<Cutoffs>,
    cutoff: Arc<Cutoff>,
    worker: usize,
    key: usize,
}

impl Cutoff {
    /// Ends the HTTP/2 stream or the HTTP/1.1 connection that sends the response.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        self.carrier.wake();
    }

    /// Resolves when the answer must end. Only one task at a time can wait for it.
    pub fn poll_cut(&self, cx: &Context<'_>) -> Poll<()> {
        // The waker is registered before the check, so that no cut is missed.
        self.carrier.register(cx.waker());
        if self.cut.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Notes that a part of the answer was handed to the client's connection, which has not polled
    /// for the next one.
    pub fn given(&self) {
        self.unread.restart();
    }

    /// Notes that the client's connection has written every part that it was given.
    pub fn taken(&self) {
        self.unread.stop();
    }

    /// Notes that a write of an upgraded connection must wait for one side.
    pub fn blocked(&self, toward: Toward) {
        self.of(toward).begin();
    }

    /// Notes that a write of an upgraded connection continued.
    pub fn unblocked(&self, toward: Toward) {
        self.of(toward).stop();
    }

    fn of(&self, toward: Toward) -> &Since {
        match toward {
            Toward::Caller => &self.unread,
            Toward::Member => &self.unread_by_member,
        }
    }

    fn is_unread(&self, now: Instant) -> bool {
        self.unread.elapsed(now).is_some_and(|unread| unread >= UNREAD_TIMEOUT)
    }

    /// How long either side has not read anything.
    fn paused(&self, now: Instant) -> Option<Duration> {
        self.unread.elapsed(now).max(self.unread_by_member.elapsed(now))
    }
}

/// The side that must read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    Caller,
    Member,
}

impl Cutoffs {
    pub fn new() -> Arc<Self> {
        let sheets = (0..workers::count()).map(|_| Locked::default()).collect();
        Arc::new(Self { sheets, cancelled: Cancelled::default() })
    }

    /// Lists a request that must be over when it is `due`. `None` means no deadline. A client that
    /// sends the next request on an HTTP/1.1 connection has read the previous answer.
    pub fn list(self: &Arc<Self>, cutoff: Arc<Cutoff>, due: Option<Instant>) -> Listed {
        cutoff.taken();
        let worker = workers::current();
        let entry = Entry { cutoff: cutoff.clone(), due, holder: Holder::default() };
        let key = self.sheets[worker].with(|requests| requests.under_way.insert(entry));
        Listed { cutoffs: self.clone(), cutoff, worker, key }
    }

    /// Cuts off requests that are over, until this future is dropped.
    pub async fn run(self: Arc<Self>) {
        let mut every = interval(PACE);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            self.sweep(tokio::time::Instant::now().into_std());
        }
    }

    fn sweep(&self, now: Instant) {
        let mut paused = Paused::default();
        for sheet in &self.sheets {
            sheet.with(|requests| {
                for (_, Entry { cutoff, due, holder }) in &requests.under_way {
                    match due {
                        Some(due) if *due + GRACE <= now || cutoff.is_unread(now) => cutoff.cut(),
                        Some(_) => {}
                        None => paused.add(cutoff, holder, cutoff.paused(now)),
                    }
                }
            });
        }
        paused.cut_surplus();
        drop(self.cancelled.expired(now));
    }
}

impl Listed {
    pub fn cutoff(&self) -> &Arc<Cutoff> {
        &self.cutoff
    }

    /// Sets the deadline of the request; `None` makes it long-running.
    pub fn set_due(&self, due: Option<Instant>) {
        self.cutoffs.sheets[self.worker].with(|requests| {
            if let Some(entry) = requests.under_way.get_mut(self.key) {
                entry.due = due;
            }
        });
    }

    /// Charges the memory that a long-running request holds while it is paused.
    pub fn charge(&self, caller: Caller, cluster: Option<&ClusterName>) {
        let holder = Holder { caller: Some(caller), cluster: cluster.cloned() };
        self.cutoffs.sheets[self.worker].with(|requests| {
            if let Some(entry) = requests.under_way.get_mut(self.key) {
                entry.holder = holder;
            }
        });
    }

    /// Takes over the permits of a request that its client cancelled.
    pub fn cancelled(&self, permits: [Option<Permit>; 2]) {
        self.cutoffs.cancelled.keep(permits, Instant::now());
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.cutoffs.sheets[self.worker].with(|requests| drop(requests.under_way.try_remove(self.key)));
    }
}

/// Grace period in which a request can end normally: with a response that gives the reason, or with an aborted body.
pub const GRACE: Duration = Duration::from_millis(250);
const PACE: Duration = Duration::from_millis(250);
/// After this time without a read, the client's connection counts as lost.
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
impl Cutoff {
    /// Whether the client's connection has written every part that it was given.
    pub(crate) fn is_taken(&self) -> bool {
        self.unread.elapsed(Instant::now()).is_none()
    }
}

#[cfg(test)]
impl Listed {
    /// An entry for a request without a deadline.
    pub(crate) fn alone() -> Self {
        Cutoffs::new().list(Arc::default(), None)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::limits::in_flight::{Bound, Size};

    const MARGIN: Duration = Duration::from_secs(1);

    fn is_cut(cutoff: &Cutoff) -> bool {
        cutoff.cut.load(Ordering::Acquire)
    }

    #[test]
    fn request_is_cut_off_after_its_deadline_and_not_before() {
        let cutoffs = Cutoffs::new();
        let now = Instant::now();
        let due = now + Duration::from_secs(60);
        let listed = cutoffs.list(Arc::default(), Some(due));
        let long_running = cutoffs.list(Arc::default(), None);
        cutoffs.sweep(due);
        assert!(!is_cut(listed.cutoff()), "it had no time to say why");
        cutoffs.sweep(due + GRACE);
        assert!(is_cut(listed.cutoff()) && !is_cut(long_running.cutoff()));
    }

    #[test]
    fn deadline_can_be_set_later() {
        let cutoffs = Cutoffs::new();
        let now = Instant::now();
        let (sooner, never) = (cutoffs.list(Arc::default(), None), cutoffs.list(Arc::default(), Some(now)));
        sooner.set_due(Some(now));
        never.set_due(None);
        cutoffs.sweep(now + MARGIN);
        assert!(is_cut(sooner.cutoff()) && !is_cut(never.cutoff()));
    }

    #[test]
    fn client_that_reads_nothing_of_a_short_answer_is_cut_off() {
        let cutoffs = Cutoffs::new();
        let listed = cutoffs.list(Arc::default(), Some(Instant::now() + Duration::from_secs(3600)));
        let cutoff = listed.cutoff();
        let later = Instant::now() + UNREAD_TIMEOUT + MARGIN;
        cutoff.given();
        cutoff.taken();
        cutoffs.sweep(later);
        assert!(!is_cut(cutoff), "it took what it was given, and waits");
        cutoff.given();
        cutoffs.sweep(Instant::now());
        assert!(!is_cut(cutoff));
        cutoffs.sweep(later);
        assert!(is_cut(cutoff));
    }

    #[test]
    fn request_after_a_pause_on_its_connection_is_not_cut_off() {
        let cutoffs = Cutoffs::new();
        let first = cutoffs.list(Arc::default(), None);
        let cutoff = first.cutoff().clone();
        cutoff.given();
        drop(first);
        let _second = cutoffs.list(cutoff.clone(), None);
        cutoffs.sweep(Instant::now() + UNREAD_TIMEOUT + MARGIN);
        assert!(!is_cut(&cutoff));
    }

    #[test]
    fn fault_36_paused_log_lives_for_hours() {
        let cutoffs = Cutoffs::new();
        let listed = cutoffs.list(Arc::default(), None);
        listed.charge(Caller::of_hash(1), None);
        listed.cutoff().given();
        cutoffs.sweep(Instant::now() + Duration::from_secs(24 * 3600));
        assert!(!is_cut(listed.cutoff()));
    }

    #[test]
    fn fault_36_surplus_of_paused_requests_spares_other_callers() {
        let cutoffs = Cutoffs::new();
        let list = |caller, cluster: &str| {
            let listed = cutoffs.list(Arc::default(), None);
            listed.charge(Caller::of_hash(caller), Some(&cluster.parse().unwrap()));
            listed.cutoff().given();
            listed
        };
        let victim = list(1, "m1");
        let attackers: Vec<_> = (0..1000).map(|n| list(2, if n % 2 == 0 { "m1" } else { "m2" })).collect();
        cutoffs.sweep(Instant::now() + Duration::from_secs(3600));
        let cut = attackers.iter().filter(|listed| is_cut(listed.cutoff())).count();
        assert!(!is_cut(victim.cutoff()));
        assert!((600..1000).contains(&cut), "{cut}");
    }

    #[test]
    fn unread_side_pauses_an_upgraded_connection() {
        let cutoff = Cutoff::default();
        for toward in [Toward::Caller, Toward::Member] {
            assert_eq!(cutoff.paused(Instant::now()), None);
            cutoff.blocked(toward);
            assert!(cutoff.paused(Instant::now() + MARGIN) >= Some(MARGIN));
            cutoff.unblocked(toward);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn request_ends_though_nothing_polls_it() {
        let cutoffs = Cutoffs::new();
        let listed = cutoffs.list(Arc::default(), Some(Instant::now()));
        let sweeping = tokio::spawn(cutoffs.clone().run());
        tokio::time::sleep(GRACE + 2 * PACE).await;
        sweeping.abort();
        assert!(is_cut(listed.cutoff()));
    }

    #[test]
    fn permits_of_cancelled_requests_stay_taken() {
        let bound = Bound::new(Size::without_queue(1));
        let (listed, jane) = (Listed::alone(), Caller::of_hash(1));
        let count = std::iter::from_fn(|| bound.admit_now(jane))
            .take(1000)
            .map(|permit| listed.cancelled([Some(permit), None]))
            .count();
        assert!(count < 1000 && bound.admit_now(jane).is_none(), "{count}");
    }

    #[test]
    fn completed_request_is_removed_from_the_list() {
        let cutoffs = Cutoffs::new();
        let listed = cutoffs.list(Arc::default(), Some(Instant::now()));
        let cutoff = listed.cutoff().clone();
        drop(listed);
        cutoffs.sweep(Instant::now() + MARGIN);
        assert!(!is_cut(&cutoff));
        assert!(cutoffs.sheets[workers::current()].with(|requests| requests.under_way.is_empty()));
    }

    #[tokio::test]
    async fn cut_wakes_the_owner_of_the_answer() {
        let cutoff: Arc<Cutoff> = Arc::default();
        let carrier = tokio::spawn({
            let cutoff = cutoff.clone();
            async move { poll_fn(|cx| cutoff.poll_cut(cx)).await }
        });
        tokio::task::yield_now().await;
        cutoff.cut();
        carrier.await.unwrap();
    }
}
