//! The client's end of a connection: its address and its certificates.
//!
//! The handshake proves only that the peer holds the leaf's key. The chain is verified for each
//! request against the current roots. The result is cached only while the roots stay the same, and
//! for at most a minute, so that an expiry is noticed on a long-lived connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Context;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use futures_util::task::AtomicWaker;
use rustls_pki_types::CertificateDer;
use tokio::sync::Notify;

use crate::connection::head_limit::HeadLimit;
use crate::connection::places::{Place, Proof};
use crate::identity::trust::{Proven, Trust};
use crate::limits::in_flight::{self, Caller, Permit};

/// The client's end of a connection.
#[derive(Debug)]
pub struct Peer {
    pub address: SocketAddr,
    certificates: Vec<CertificateDer<'static>>,
    checked: ArcSwapOption<Checked>,
    known: AtomicBool,
    retired: Notify,
    leaving: AtomicBool,
    opened: Instant,
    begun: AtomicUsize,
    ended: AtomicUsize,
    /// End of the last request, in milliseconds since the connection was opened.
    last_end: AtomicU64,
    /// The size limit for the heads of its requests.
    pub heads: HeadLimit,
    /// Requests that wait until the peer is known.
    waiting: AtomicUsize,
    /// The task that reads the connection, while too many requests wait.
    reader: AtomicWaker,
    /// The slot of the connection. A tunnel keeps it through the record, which holds the peer.
    place: Option<Place>,
}

/// A request that waits until its peer is known, or until this is dropped.
#[derive(Debug)]
pub struct Waiting(Arc<Peer>);

#[derive(Debug)]
struct Checked {
    trust: Arc<Trust>,
    at: Instant,
    proven: Proven,
}

impl Peer {
    pub fn new(
        address: SocketAddr,
        certificates: Option<&[CertificateDer<'_>]>,
        place: Option<Place>,
    ) -> Self {
        let certificates = certificates.unwrap_or_default().iter().map(|c| c.clone().into_owned()).collect();
        Self {
            address,
            certificates,
            checked: ArcSwapOption::empty(),
            known: AtomicBool::new(false),
            retired: Notify::new(),
            leaving: AtomicBool::new(false),
            opened: Instant::now(),
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            last_end: AtomicU64::new(0),
            heads: HeadLimit::CALLER,
            waiting: AtomicUsize::new(0),
            reader: AtomicWaker::new(),
            place,
        }
    }

    /// Notes that the peer is authenticated, by its certificate or by a request on this connection.
    pub fn mark_authenticated(&self) {
        if !self.known.swap(true, Ordering::Relaxed) {
            self.place.iter().for_each(Place::known);
            self.reader.wake();
        }
    }

    /// Whether the connection may stay open after the handshake, given what the peer proved.
    pub fn may_stay(&self, proof: Proof) -> bool {
        self.place.as_ref().is_none_or(|place| place.after_handshake(proof))
    }

    /// Registers a new request, if its peer is not known yet.
    pub fn request_of_stranger(self: &Arc<Self>) -> Option<Waiting> {
        if self.is_known() {
            return None;
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        Some(Waiting(self.clone()))
    }

    /// A slot for a request from an unknown peer.
    pub fn place_of_stranger(&self) -> Result<Option<Permit>, in_flight::Error> {
        self.place.as_ref().map(Place::request).transpose()
    }

    /// The peer's address as a holder of slots.
    pub fn holder(&self) -> Caller {
        self.place.as_ref().map_or(Caller::of_hash(0), Place::holder)
    }

    /// How many requests wait until the peer is known. The task is woken when this changes.
    pub fn poll_waiting(&self, cx: &Context<'_>) -> usize {
        // Registered before the load, so that no change is missed.
        self.reader.register(cx.waker());
        self.waiting.load(Ordering::Acquire)
    }

    /// Whether any request on this connection was authenticated.
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Notes that the head of a request has arrived.
    pub fn request_begins(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the work on a request has ended.
    pub fn request_ended(&self, now: Instant) {
        let end = now.saturating_duration_since(self.opened).as_millis();
        self.last_end.store(u64::try_from(end).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of requests so far, if none is in flight: the next bytes are the head of another one.
    pub fn between_requests(&self) -> Option<usize> {
        let begun = self.begun.load(Ordering::Relaxed);
        (begun == self.ended.load(Ordering::Relaxed)).then_some(begun)
    }

    /// Since when no request is in flight.
    pub fn idle_since(&self) -> Option<Instant> {
        self.between_requests()?;
        Some(self.opened + Duration::from_millis(self.last_end.load(Ordering::Relaxed)))
    }

    /// Makes the connection take no more requests. Those in flight continue.
    pub fn retire(&self) {
        self.retired.notify_one();
    }

    /// Makes the next answer the last one. HTTP/1.1 has no better way: if the connection is closed between
    /// two requests, the second may already be on its way.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Resolves when the connection should take no more requests.
    pub async fn retired(&self) {
        self.retired.notified().await;
    }

    /// Whether the peer sent any certificate, trusted or not.
    pub fn showed_certificates(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// What the peer's certificates prove under `trust`; nothing if there are none.
    pub fn proven(&self, trust: &Arc<Trust>) -> Proven {
        if self.certificates.is_empty() {
            return Proven::default();
        }
        if let Some(checked) = &*self.checked.load()
            && Arc::ptr_eq(&checked.trust, trust)
            && checked.at.elapsed() < RECHECK
        {
            return checked.proven.clone();
        }
        let proven = trust.prove(&self.certificates);
        let checked = Checked { trust: trust.clone(), at: Instant::now(), proven: proven.clone() };
        self.checked.store(Some(Arc::new(checked)));
        proven
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Self(peer) = self;
        peer.waiting.fetch_sub(1, Ordering::AcqRel);
        peer.reader.wake();
    }
}

/// A certificate that expires is refused at most this much later.
const RECHECK: Duration = Duration::from_secs(60);
