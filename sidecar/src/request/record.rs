//! One record per request. It is begun with the request, learns on the way, and is written once,
//! when its last holder lets go: the response's body or the splice of an upgraded connection. The
//! permits it keeps are given back at that moment, and not when the response's head leaves.

use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use kubectl_mc_api::{ClusterName, Hop};
use tokio::time::sleep_until;
use tracing::{debug, error};

use crate::identity::Identity;
use crate::request::audit_id::AuditId;
use crate::request::cutoff::{Cutoff, Listed};
use crate::request::limits::Permit;
use crate::request::request_info::{RequestInfo, Route};
use crate::request::revalidation::Revalidation;
use crate::server::peer::Peer;

pub mod metrics;

pub use metrics::Metrics;

/// A handle on a request's record; clones share it.
#[derive(Clone, Debug)]
pub struct Record(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    metrics: Arc<Metrics>,
    /// Its connection's place is taken for as long as the request lasts, also when that is a tunnel.
    peer: Arc<Peer>,
    begun: Instant,
    method: Method,
    audit_id: AuditId,
    route: OnceLock<metrics::Route>,
    cluster: OnceLock<ClusterName>,
    member_discovery: AtomicBool,
    user: OnceLock<Arc<Identity>>,
    hop: OnceLock<Hop>,
    code: AtomicU16,
    admitted: OnceLock<Permit>,
    admitted_by_member: OnceLock<Permit>,
    revalidation: OnceLock<Revalidation>,
    deadline: OnceLock<Instant>,
    /// Ends the request where nothing else does.
    listed: Listed,
    /// The place of a request whose peer is not known.
    #[expect(clippy::disallowed_types, reason = "held for a swap, and never over an await")]
    stranger: std::sync::Mutex<Option<Permit>>,
}

impl Record {
    pub fn begin(
        metrics: Arc<Metrics>,
        peer: Arc<Peer>,
        listed: Listed,
        method: &Method,
        audit_id: AuditId,
    ) -> Self {
        metrics.in_flight.inc();
        peer.request_begins();
        Self(Arc::new(Inner {
            metrics,
            peer,
            begun: Instant::now(),
            method: method.clone(),
            audit_id,
            route: OnceLock::new(),
            cluster: OnceLock::new(),
            member_discovery: AtomicBool::new(false),
            user: OnceLock::new(),
            hop: OnceLock::new(),
            code: AtomicU16::new(0),
            admitted: OnceLock::new(),
            admitted_by_member: OnceLock::new(),
            revalidation: OnceLock::new(),
            deadline: OnceLock::new(),
            listed,
            stranger: Default::default(),
        }))
    }

    pub fn understood(&self, info: &RequestInfo) {
        let _ = self.0.route.set(metrics::Route::of(info));
        self.0.member_discovery.store(info.is_member_discovery(), Ordering::Relaxed);
        if let Route::Proxy(cluster, _) = &info.route {
            let _ = self.0.cluster.set(cluster.clone());
        }
    }

    pub fn authenticated(&self, user: &Arc<Identity>) {
        let _ = self.0.user.set(user.clone());
    }

    pub fn audit_id(&self) -> &AuditId {
        &self.0.audit_id
    }

    /// Keeps the place of a request whose peer is not known, until the peer is known or the request is over.
    pub fn of_stranger(&self, permit: Option<Permit>) {
        let mut held = self.0.stranger.lock().unwrap_or_else(PoisonError::into_inner);
        drop(std::mem::replace(&mut *held, permit));
    }

    /// Keeps a permit until the request is over.
    pub fn admitted(&self, permit: Permit) {
        let _ = self.0.admitted.set(permit);
    }

    /// Keeps a member's permit until the request is over.
    pub fn admitted_by_member(&self, permit: Permit) {
        let _ = self.0.admitted_by_member.set(permit);
    }

    /// Keeps the leave of a long-running request until the request is over.
    pub fn keep_revalidation(&self, revalidation: Revalidation) {
        let _ = self.0.revalidation.set(revalidation);
    }

    /// Sets how long the request may take from its beginning, and returns when that is over. A
    /// long-running request has no limit but its revalidation.
    pub fn due_within(&self, limit: Option<Duration>) -> Option<Instant> {
        let due = limit.map(|limit| *self.0.deadline.get_or_init(|| self.0.begun + limit));
        self.0.listed.set_due(due);
        due
    }

    /// What ends the request whatever its client does.
    pub fn cutoff(&self) -> &Arc<Cutoff> {
        self.0.listed.cutoff()
    }

    /// Does `work` until it is done, or fails as soon as a long-running request may not go on.
    pub async fn unless_over<T>(
        &self,
        work: impl Future<Output = Result<T, crate::request::error::Error>>,
    ) -> Result<T, crate::request::error::Error> {
        let Some(revalidation) = self.0.revalidation.get() else { return work.await };
        // Cancel-safe: what is dropped with the work ends at the member too.
        tokio::select! {
            biased;
            end = revalidation.ended() => Err(end.into()),
            done = work => done,
        }
    }

    /// Resolves when the request must end: by its deadline, or for a long-running one when it may
    /// not go on.
    pub fn over(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match (self.0.revalidation.get(), self.0.deadline.get()) {
            (Some(revalidation), _) => Box::pin(revalidation.over()),
            (None, Some(deadline)) => Box::pin(sleep_until((*deadline).into())),
            (None, None) => Box::pin(pending()),
        }
    }

    /// Whether the request must end now.
    pub fn is_over(&self) -> bool {
        match (self.0.revalidation.get(), self.0.deadline.get()) {
            (Some(revalidation), _) => revalidation.is_over(),
            (None, Some(deadline)) => *deadline <= Instant::now(),
            (None, None) => false,
        }
    }

    pub fn refused_at(&self, hop: Hop) {
        let _ = self.0.hop.set(hop);
    }

    /// Counts a panic. What it was about is in the log already; this says which request caused it.
    pub fn panicked(&self) {
        self.0.metrics.panics.inc();
        error!(audit_id = %self.0.audit_id, method = %self.0.method, "this request caused a panic");
    }

    pub fn answered(&self, code: StatusCode) {
        self.0.code.store(code.as_u16(), Ordering::Relaxed);
    }

    /// Whether the request asks for an upgrade of its connection.
    pub fn is_upgrade(&self) -> bool {
        self.0.route.get() == Some(&metrics::Route::Upgrade)
    }

    /// Whether the request is one of kubectl's discovery calls to a member.
    pub fn is_member_discovery(&self) -> bool {
        self.0.member_discovery.load(Ordering::Relaxed)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let now = Instant::now();
        self.peer.request_ended(now);
        let elapsed = now.saturating_duration_since(self.begun);
        if *self.code.get_mut() == 0 {
            let permits = [&mut self.admitted, &mut self.admitted_by_member];
            self.listed.cancelled(permits.map(OnceLock::take));
        }
        let route = self.route.get().copied().unwrap_or(metrics::Route::Unknown);
        let code = self.code.load(Ordering::Relaxed);
        self.metrics.ended(route, code, self.hop.get().copied(), elapsed);
        debug!(
            audit_id = %self.audit_id,
            method = %self.method,
            cluster = self.cluster.get().map_or("", ClusterName::as_str),
            user = self.user.get().map_or("", |user| &user.user),
            code,
            hop = self.hop.get().map_or("", |hop| hop.as_str()),
            seconds = elapsed.as_secs_f64(),
            "request"
        );
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::request::cutoff::Cutoffs;
    use crate::request::limits::{Bound, Caller, Size};

    /// How many of 200 requests of one caller, one after the other, find the only place.
    fn admitted(answered: bool) -> usize {
        let (cutoffs, bound) = (Cutoffs::new(), Bound::new(Size::without_queue(1)));
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        let permits = (0..200).map_while(|_| {
            let permit = bound.admit_now(Caller::of_hash(1))?;
            let listed = cutoffs.list(Arc::default(), None);
            let audit_id = AuditId::of(&mut HeaderMap::new());
            let record = Record::begin(Arc::default(), peer.clone(), listed, &Method::GET, audit_id);
            record.admitted_by_member(permit);
            if answered {
                record.answered(StatusCode::OK);
            }
            Some(())
        });
        permits.count()
    }

    #[test]
    fn only_requests_without_an_answer_count_as_cancelled() {
        assert_eq!(admitted(true), 200);
        assert!(admitted(false) < 200);
    }
}
