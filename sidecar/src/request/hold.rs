//! Holds a request's resources until it is over: its permits, its connection's slot, and its
//! deadline or, for a long-running request, the revalidation of its right.

use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::poll;
use kubectl_mc_api::ClusterName;
use tokio::time::sleep_until;

use crate::base::locked::Locked;
use crate::identity::peer::Peer;
use crate::limits::cutoff::{Cutoff, Listed};
use crate::limits::in_flight::{Caller, Permit};
use crate::limits::upload::Upload;
use crate::request::error::Error;
use crate::request::revalidation::{self, Revalidation};

/// Resources that are released when the request ends.
#[derive(Debug)]
pub struct Hold {
    /// Keeps the connection's slot for the whole request, even if it is a tunnel.
    peer: Arc<Peer>,
    begun: Instant,
    permits: Locked<Permits>,
    /// Time in queues, in nanoseconds.
    queued: AtomicU64,
    end: OnceLock<End>,
    /// The request's body, if the answer does not depend on it.
    unread: OnceLock<Upload>,
    /// Ends the request if nothing else does.
    listed: Listed,
}

#[derive(Debug, Default)]
struct Permits {
    /// The slot of a request whose peer is unknown.
    stranger: Option<Permit>,
    sidecar: Option<Permit>,
    member: Option<Permit>,
}

/// When a request must end.
#[derive(Debug)]
enum End {
    Deadline(Instant),
    /// A long-running request is limited only by its right.
    Revalidation(Revalidation),
}

impl Hold {
    pub(super) fn begin(peer: Arc<Peer>, listed: Listed) -> Self {
        peer.request_begins();
        let (permits, queued, end, unread) = Default::default();
        Self { peer, begun: Instant::now(), permits, queued, end, unread, listed }
    }

    /// Keeps the slot of a request whose peer is unknown, until the peer is known or the request is over.
    pub fn of_stranger(&self, permit: Option<Permit>) {
        let before = self.permits.with(|permits| std::mem::replace(&mut permits.stranger, permit));
        drop(before);
    }

    /// Keeps a permit until the request is over.
    pub(super) fn admitted(&self, permit: Permit) {
        self.permits.with(|permits| permits.sidecar = Some(permit));
    }

    /// Charges the memory that a long-running request holds while it is paused to its caller and
    /// its member.
    pub fn charge(&self, caller: Caller, cluster: Option<&ClusterName>) {
        self.listed.charge(caller, cluster);
    }

    /// Keeps a member's permit until the request is over.
    pub fn admitted_by_member(&self, permit: Permit) {
        self.permits.with(|permits| permits.member = Some(permit));
    }

    /// Keeps a body that is not read until the request is over. If it were dropped, the client
    /// could continue sending without a window.
    pub fn unread(&self, body: Upload) {
        drop(self.unread.set(body));
    }

    /// Waits in a queue for a seat, and adds the wait to the request's time in queues.
    pub async fn queue<T>(&self, admission: impl Future<Output = T>) -> T {
        let mut admission = pin!(admission);
        // Most requests do not wait, and need no clock.
        if let Poll::Ready(admitted) = poll!(&mut admission) {
            return admitted;
        }
        let _waiting = Waiting { total: &self.queued, begun: tokio::time::Instant::now() };
        admission.await
    }

    /// Time that the request has waited in queues, whether it then got a seat or not.
    pub fn queued(&self) -> Duration {
        Duration::from_nanos(self.queued.load(Ordering::Relaxed))
    }

    /// Keeps the revalidation of a long-running request until the request is over.
    pub(super) fn keep_revalidation(&self, revalidation: Revalidation) {
        self.must_end(End::Revalidation(revalidation));
    }

    /// Sets the longest duration of the request, counted from its start, and returns the deadline.
    pub fn due_within(&self, limit: Option<Duration>) -> Option<Instant> {
        let due = limit.map(|limit| self.begun + limit);
        if let Some(due) = due {
            self.must_end(End::Deadline(due));
        }
        self.listed.set_due(due);
        due
    }

    /// The cutoff, which ends the request even if its client reads nothing.
    pub fn cutoff(&self) -> &Arc<Cutoff> {
        self.listed.cutoff()
    }

    /// Runs `work` until it is done, or fails as soon as a long-running request must end.
    pub async fn unless_over<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let Some(End::Revalidation(revalidation)) = self.end.get() else { return work.await };
        // Cancel-safe: dropping the work also ends the request at the member.
        tokio::select! {
            biased;
            end = revalidation.ended() => Err(end.into()),
            done = work => done,
        }
    }

    /// Resolves when the request must end.
    pub fn over(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match self.end.get() {
            Some(End::Revalidation(revalidation)) => Box::pin(revalidation.over()),
            Some(End::Deadline(deadline)) => Box::pin(sleep_until((*deadline).into())),
            None => Box::pin(pending()),
        }
    }

    /// The reason why a long-running request must end, once it must.
    pub fn end(&self) -> Option<revalidation::End> {
        match self.end.get() {
            Some(End::Revalidation(revalidation)) => revalidation.end(),
            _ => None,
        }
    }

    /// Whether the request must end now.
    pub fn is_over(&self) -> bool {
        match self.end.get() {
            Some(End::Revalidation(revalidation)) => revalidation.is_over(),
            Some(End::Deadline(deadline)) => *deadline <= Instant::now(),
            None => false,
        }
    }

    /// Reports that the request is over, with or without an answer, and returns its duration.
    pub(super) fn ended(&mut self, answered: bool) -> Duration {
        let now = Instant::now();
        self.peer.request_ended(now);
        if !answered {
            let permits = self.permits.get_mut();
            self.listed.cancelled([permits.sidecar.take(), permits.member.take()]);
        }
        now.saturating_duration_since(self.begun)
    }

    fn must_end(&self, end: End) {
        let is_first = self.end.set(end).is_ok();
        debug_assert!(is_first, "a request has one end");
    }
}

/// Adds its own duration on drop, so a wait also counts if the caller disconnects.
struct Waiting<'a> {
    total: &'a AtomicU64,
    begun: tokio::time::Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.total.fetch_add(waited, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn queue_waits_add_up() {
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        let hold = Hold::begin(peer, Listed::alone());
        hold.queue(ready(())).await;
        assert_eq!(hold.queued(), Duration::ZERO);
        hold.queue(sleep(Duration::from_secs(2))).await;
        hold.queue(sleep(Duration::from_secs(1))).await;
        assert_eq!(hold.queued(), Duration::from_secs(3));
        let left = tokio::time::timeout(Duration::from_secs(4), hold.queue(pending::<()>()));
        assert!(left.await.is_err());
        assert_eq!(hold.queued(), Duration::from_secs(7));
    }
}
