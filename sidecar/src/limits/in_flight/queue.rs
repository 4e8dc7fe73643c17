//! Assigns the seats of one limit, and queues requests that must wait. A running request holds one seat. It takes a
//! free seat under one short lock, unless the free seats are reserved for other priority levels, or its caller holds
//! too many for the seats that are left to its level (a dynamic threshold, as switches share their buffers: A.
//! Choudhury and E. Hahne, 1998). A single caller can hold its full share. If several callers take all they can, each
//! holds less, and some seats stay free for callers with few. Otherwise the request waits. A returned seat goes to the
//! level that holds the smallest part of its nominal seats, and within the level to the callers round-robin, one
//! request each.
//!
//! No queued request is eligible for a free seat, so taking a free seat at once is fair.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::caller::Caller;
use super::counts::{Counts, Reason};
use super::level::Level;
use super::seats::{ByLevel, Seats, WITHOUT_LEVELS};
use super::size::Size;
use crate::base::locked::Locked;

mod state;

use state::{State, Waiting};

/// The seats of one limit, and the requests that wait for a seat.
#[derive(Debug)]
pub(super) struct Queue {
    rules: Rules,
    state: Locked<State>,
}

/// How the seats are shared.
#[derive(Debug)]
struct Rules {
    /// 0 means no limit.
    places: usize,
    /// How many seats a caller may hold while no other caller holds any.
    share: usize,
    queued_per_caller: usize,
    /// Maximum number of waiting requests of one level: the number of seats.
    queued: usize,
    has_levels: bool,
    /// Whether this is a bound of all requests: exempt callers pass, and requests are counted by level.
    is_of_all: bool,
    seats: Seats,
}

/// What an accepted request gets.
pub(super) enum Place {
    Free(Permit),
    Queued(Turn),
}

/// The state of a bound at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) places: usize,
    pub(super) nominal: ByLevel<usize>,
    pub(super) held: ByLevel<usize>,
    pub(super) waiting: ByLevel<usize>,
    pub(super) counts: Option<Counts>,
}

impl Queue {
    /// The seats of one member, or of one kind of long-running request.
    pub(super) fn new(size: Size) -> Self {
        Self::with(size, false)
    }

    /// The seats of all requests that are not long-running; exempt callers pass.
    pub(super) fn of_all(size: Size) -> Self {
        Self::with(size, true)
    }

    fn with(size: Size, is_of_all: bool) -> Self {
        let Size { places, share, queued_per_caller, levels } = size;
        let seats = match levels {
            Some(shares) => Seats::new(places, shares),
            None => Seats::without_levels(places),
        };
        let queued = places.max(queued_per_caller);
        let has_levels = levels.is_some();
        let rules = Rules { places, share, queued_per_caller, queued, has_levels, is_of_all, seats };
        Self { rules, state: Locked::new(State::new(places, is_of_all)) }
    }

    /// Returns a seat, or a position in the queue; `None` if the queue is full. In a level's full queue, the
    /// last request of the caller with the most queued requests is rejected, if the new request's caller has
    /// fewer.
    pub(super) fn place(self: &Arc<Self>, caller: Caller) -> Option<Place> {
        let level = self.rules.level(caller);
        self.state.with(|state| {
            if state.take(&self.rules, level, caller) {
                return Some(Place::Free(self.permit(caller)));
            }
            let (sender, receiver) = oneshot::channel();
            let number = state.wait(&self.rules, level, caller, sender)?;
            Some(Place::Queued(Turn { queue: self.clone(), caller, number, receiver, is_late: false }))
        })
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.state.with(|state| {
            let (held, waiting) = (state.held(), state.waiting());
            let Rules { places, seats: Seats { nominal, .. }, .. } = self.rules;
            Snapshot { places, nominal, held, waiting, counts: state.counts() }
        })
    }

    fn permit(self: &Arc<Self>, caller: Caller) -> Permit {
        Permit { queue: self.clone(), caller }
    }

    /// Takes back a seat and gives it to the next request.
    fn give_back(self: &Arc<Self>, caller: Caller) {
        let level = self.rules.level(caller);
        let admitted: Vec<_> = self.state.with(|state| {
            state.give_back(&self.rules, level, caller);
            // A returned seat may bring this caller below its threshold, so more than one request can be
            // eligible.
            let admitted = std::iter::from_fn(|| state.next(&self.rules)).collect();
            state.forget_if_idle(caller);
            admitted
        });
        for (next, Waiting { sender, .. }) in admitted {
            // If the receiver no longer waits, the permit returns its seat on drop, so this is outside the
            // lock.
            let _ = sender.send(self.permit(next));
        }
    }
}

impl Rules {
    /// The level of a caller's requests in this bound.
    fn level(&self, caller: Caller) -> Level {
        match caller.level {
            _ if !self.has_levels && !self.is_of_all => WITHOUT_LEVELS,
            // A member's seats protect the sidecar from that member, and this includes requests of
            // administrators.
            Level::Exempt if !self.is_of_all => Level::System,
            level => level,
        }
    }

    fn is_limited(&self, level: Level) -> bool {
        self.places > 0 && level != Level::Exempt
    }

    /// Whether a caller who holds `held` seats may take one of the seats available to its level. Each
    /// caller's seats stay below a multiple of the available ones, so that a single caller can reach its
    /// share.
    fn may_take(&self, held: usize, available: usize) -> bool {
        held * (self.places - self.share) < available * self.share
    }
}

/// Permission to run, returned on drop.
#[derive(Debug)]
pub struct Permit {
    queue: Arc<Queue>,
    caller: Caller,
}

impl Permit {
    /// The holder; `None` if there is no limit.
    pub fn caller(&self) -> Option<Caller> {
        let rules = &self.queue.rules;
        rules.is_limited(rules.level(self.caller)).then_some(self.caller)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.queue.give_back(self.caller);
    }
}

/// A position in the queue, left on drop. It resolves when the request may go on, or to `None` when the
/// request was rejected.
pub(super) struct Turn {
    queue: Arc<Queue>,
    caller: Caller,
    number: u64,
    receiver: oneshot::Receiver<Permit>,
    is_late: bool,
}

impl Turn {
    /// Notes that the request has waited for as long as it may.
    pub(super) fn set_late(&mut self) {
        self.is_late = true;
    }
}

impl Future for Turn {
    type Output = Option<Permit>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Permit>> {
        Pin::new(&mut self.receiver).poll(cx).map(Result::ok)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let reason = if self.is_late { Reason::TimeOut } else { Reason::Cancelled };
        let level = self.queue.rules.level(self.caller);
        self.queue.state.with(|state| state.leave(level, self.caller, self.number, reason));
    }
}

/// How long a request has waited.
fn since(begun: Instant) -> std::time::Duration {
    Instant::now().saturating_duration_since(begun)
}

#[cfg(test)]
impl Queue {
    /// Whether no queued request is eligible for a free seat.
    pub(super) fn is_fair(&self) -> bool {
        self.state.with(|state| state.is_fair(&self.rules))
    }

    /// Whether no seat is held, no request waits, and no caller is stored.
    pub(super) fn is_idle(&self, places: usize) -> bool {
        self.state.with(|state| state.is_idle(places))
    }
}
