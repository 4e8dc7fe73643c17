//! Collects what is logged, counted, traced and audited about one request. The record is created with the
//! request and filled on the way. It is written once, when its last holder is dropped: the response's body or
//! the splice of an upgraded connection. The request's resources ([`Hold`]) are also released then, and not
//! when the response's head is sent.

use std::sync::Arc;
use std::time::Instant;

use http::{Method, StatusCode};
use kubectl_mc_api::{ClusterName, Hop};
use tracing::{debug, error};

use crate::base::locked::Locked;
use crate::head::audit_id::AuditId;
use crate::head::request_info::RequestInfo;
use crate::identity::Identity;
use crate::identity::authentication::{self, Authenticated, Failed};
use crate::identity::peer::Peer;
use crate::limits::cutoff::Listed;
use crate::limits::in_flight::Permit;
use crate::request::hold::Hold;
use crate::request::revalidation::End;
use crate::telemetry::audit;
use crate::telemetry::requests::{Kind, Metrics, OfMember, Outcome, Took, Trace};
use crate::telemetry::spans::{RequestSpan, ToMember};

/// A handle on a request's record; clones share it.
#[derive(Clone, Debug)]
pub struct Record(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    metrics: Arc<Metrics>,
    method: Method,
    audit_id: AuditId,
    hold: Hold,
    entry: Locked<Entry>,
}

/// The recorded facts about a request.
#[derive(Debug, Default)]
struct Entry {
    /// Set once the request was parsed.
    kind: Option<Kind>,
    cluster: Option<ClusterName>,
    /// The metrics of that member, once the caller is authorized for it.
    member: Option<Arc<OfMember>>,
    is_upgrade: bool,
    is_member_discovery: bool,
    user: Option<Arc<Identity>>,
    hop: Option<Hop>,
    /// The code of the answer, once there is one.
    code: Option<StatusCode>,
    /// The audit state, if the request is audited.
    trail: Option<Box<audit::Trail>>,
    /// The span, if tracing is on.
    span: Option<Box<RequestSpan>>,
}

/// Proof that a request has its seat and that its first audit event is stored. It keeps the caller, for whom the
/// sidecar may act from here on.
#[derive(Debug)]
pub struct Begun(Authenticated);

impl Begun {
    pub(super) fn into_caller(self) -> Authenticated {
        self.0
    }
}

impl Record {
    pub fn begin(
        metrics: Arc<Metrics>,
        peer: Arc<Peer>,
        listed: Listed,
        method: &Method,
        audit_id: AuditId,
    ) -> Self {
        metrics.begun();
        let hold = Hold::begin(peer, listed);
        Self(Arc::new(Inner { metrics, method: method.clone(), audit_id, hold, entry: Default::default() }))
    }

    /// Sets the audit state.
    pub fn audited(&self, trail: audit::Trail) {
        self.0.entry.with(|entry| entry.trail = Some(Box::new(trail)));
    }

    /// Changes the audit state, if there is one.
    pub fn audit<T>(&self, tell: impl FnOnce(&mut audit::Trail) -> T) -> Option<T> {
        self.0.entry.with(|entry| entry.trail.as_deref_mut().map(tell))
    }

    /// Sets the span.
    pub fn traced(&self, span: RequestSpan) {
        self.0.entry.with(|entry| entry.span = Some(Box::new(span)));
    }

    /// Changes the span, if there is one.
    pub fn trace<T>(&self, tell: impl FnOnce(&mut RequestSpan) -> T) -> Option<T> {
        self.0.entry.with(|entry| entry.span.as_deref_mut().map(tell))
    }

    /// The trace context for exchanges with a member.
    pub fn to_member(&self) -> Option<Box<ToMember>> {
        self.trace(|span| span.to_member().map(Box::new)).flatten()
    }

    /// The resources that the request holds until it is over.
    pub fn hold(&self) -> &Hold {
        &self.0.hold
    }

    pub fn audit_id(&self) -> &AuditId {
        &self.0.audit_id
    }

    /// Adds the parsed request.
    pub fn understood(&self, info: &RequestInfo) {
        let kind = Kind::of(info);
        self.0.metrics.understood(kind);
        self.0.entry.with(|entry| {
            entry.kind = Some(kind);
            entry.is_upgrade |= info.upgrade.is_some();
            entry.is_member_discovery = info.is_member_discovery();
            entry.cluster = info.cluster().cloned();
            if let Some(trail) = &mut entry.trail {
                trail.understood(info);
            }
            if let Some(span) = &mut entry.span {
                span.understood(info);
            }
        });
    }

    /// Counts the request as one to a member. Its caller is authorized for that member.
    pub fn is_to(&self, member: &Arc<OfMember>) {
        self.0.entry.with(|entry| entry.member = Some(member.clone()));
    }

    /// Replaces the parsed request: the fleet view's request is one to this member.
    pub fn is_for_member(&self, info: &RequestInfo) {
        self.0.entry.with(|entry| {
            entry.kind = Some(Kind::of(info));
            entry.cluster = info.cluster().cloned();
            if let Some(trail) = &mut entry.trail {
                trail.is_for_member(info);
            }
            if let Some(span) = &mut entry.span {
                span.understood(info);
            }
        });
    }

    /// Notes that the client asks for another protocol, although the request is forwarded without.
    pub fn asks_to_switch(&self) {
        self.0.entry.with(|entry| entry.is_upgrade = true);
    }

    /// Counts a member's part of a merged request.
    pub fn part_ended(&self, member: &OfMember, code: StatusCode) {
        let kind = self.0.entry.with(|entry| entry.kind);
        if let Some(kind) = kind {
            member.part_ended(kind, Outcome::new(Some(code), None));
        }
    }

    /// Adds a failed login, and returns its error.
    pub fn login_failed(&self, failed: Failed) -> authentication::Error {
        if failed.error.is_refusal() {
            self.audit(|trail| trail.login_failed(failed.attempted));
        }
        failed.error
    }

    /// Adds the authenticated user, before impersonation.
    pub fn logged_in(&self, login: &Arc<Identity>) {
        self.audit(|trail| trail.logged_in(login));
        self.trace(|span| span.logged_in(login));
    }

    /// Keeps the request's seat, and stores the first audit event before the sidecar acts for the
    /// caller. The seat comes first, so that one caller cannot fill a slow audit log. Exempt
    /// callers have no share.
    ///
    /// # Errors
    ///
    /// The event was not stored, and the audit mode requires it.
    pub async fn store_beginning(
        &self,
        permit: Permit,
        caller: Authenticated,
        due: Option<Instant>,
    ) -> Result<Begun, audit::NotStored> {
        self.0.hold.admitted(permit);
        let pending = self.audit(|trail| trail.beginning(&self.0.audit_id)).flatten();
        if let Some(pending) = pending {
            let has_room = pending.store(due).await?;
            self.audit(|trail| trail.begun(has_room));
        }
        Ok(Begun(caller))
    }

    /// Adds the host's reason for allowing the request.
    pub fn allowed(&self, reason: &Arc<str>) {
        self.audit(|trail| trail.decided(true, reason.clone()));
        self.trace(RequestSpan::authorized);
    }

    /// Adds the identity that the member sees.
    pub fn authenticated(&self, user: &Arc<Identity>) {
        self.0.entry.with(|entry| {
            entry.user = Some(user.clone());
            if let Some(trail) = &mut entry.trail {
                trail.acts_as(user);
            }
        });
    }

    pub fn refused_at(&self, hop: Hop) {
        self.0.entry.with(|entry| entry.hop = Some(hop));
    }

    pub fn answered(&self, code: StatusCode) {
        self.0.entry.with(|entry| {
            entry.code = Some(code);
            if let Some(trail) = &mut entry.trail {
                trail.answered(code, &self.0.audit_id);
            }
            if let Some(span) = &mut entry.span {
                span.answered();
            }
        });
    }

    /// Counts a panic. Its message is already in the log; this entry adds the request that caused it.
    pub fn panicked(&self) {
        self.0.metrics.panics.inc();
        error!(audit_id = %self.0.audit_id, method = %self.0.method, "this request caused a panic");
        self.audit(|trail| trail.panicked(&self.0.audit_id));
    }

    /// Whether the request asks for an upgrade of its connection.
    pub fn is_upgrade(&self) -> bool {
        self.0.entry.with(|entry| entry.is_upgrade)
    }

    /// Whether the request is one of kubectl's discovery calls to a member.
    pub fn is_member_discovery(&self) -> bool {
        self.0.entry.with(|entry| entry.is_member_discovery)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let entry = self.entry.get_mut();
        let elapsed = self.hold.ended(entry.code.is_some());
        let code = entry.code.map_or(0, |code| code.as_u16());
        let kind = entry.kind.unwrap_or_else(|| Kind::unknown(&self.method));
        let outcome = Outcome::new(entry.code, entry.hop);
        let trace = entry.span.as_ref().and_then(|span| span.trace_id());
        let trace = trace.map(|trace_id| Trace { trace_id: trace_id.to_string() });
        let took = Took { elapsed, queued: self.hold.queued(), trace };
        self.metrics.ended(kind, outcome, entry.member.as_deref(), took);
        if let Some(trail) = &mut entry.trail {
            let end = self.hold.end().map(End::as_str);
            trail.ended(&self.audit_id, entry.hop, elapsed, end);
        }
        if let Some(span) = &mut entry.span {
            span.ended(&self.audit_id, entry.code, entry.hop);
        }
        debug!(
            audit_id = %self.audit_id,
            method = %self.method,
            cluster = entry.cluster.as_ref().map_or("", ClusterName::as_str),
            user = entry.user.as_ref().map_or("", |user| &user.user),
            code,
            hop = entry.hop.map_or("", Hop::as_str),
            seconds = elapsed.as_secs_f64(),
            "request"
        );
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::limits::cutoff::Cutoffs;
    use crate::limits::in_flight::{Bound, Caller, Size};

    /// How many of 200 consecutive requests of one caller get the only seat.
    fn admitted(answered: bool) -> usize {
        let (cutoffs, bound) = (Cutoffs::new(), Bound::new(Size::without_queue(1)));
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        let permits = (0..200).map_while(|_| {
            let permit = bound.admit_now(Caller::of_hash(1))?;
            let listed = cutoffs.list(Arc::default(), None);
            let audit_id = AuditId::of(&mut HeaderMap::new());
            let record = Record::begin(Arc::default(), peer.clone(), listed, &Method::GET, audit_id);
            record.hold().admitted_by_member(permit);
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
