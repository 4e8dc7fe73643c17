//! The places of one bound, and the requests that wait for them. A request takes a free place in one short lock,
//! unless its caller holds too many for the places that are left (a dynamic threshold, as switches share their
//! buffers: A. Choudhury and E. Hahne, 1998). One caller alone can hold its share. Of several that take all they
//! can, each holds less, and some places stay free for callers who hold few. Otherwise the request waits: a place
//! that is given back goes to the callers in turns, one request each, however many of them wait.
//!
//! No request waits that may have a free place, so taking one is fair.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use ahash::{HashMap, HashMapExt};
use serde::Serialize;
use tokio::sync::oneshot;

use super::{Caller, Size};

/// A number of places, and those who wait.
#[derive(Debug)]
#[expect(clippy::disallowed_types, reason = "held for a few steps on maps, and never over an await")]
pub(super) struct Queue {
    places: usize,
    /// How many places a caller may hold where no other caller holds any.
    share: usize,
    queued_per_caller: usize,
    /// How many may wait in all: as many as there are places.
    queued: usize,
    state: std::sync::Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: usize,
    last_turn: u64,
    callers: HashMap<Caller, Holder>,
    /// The callers who wait, each once. The first who may have a place gets it and goes to the end.
    order: VecDeque<Caller>,
}

/// A caller who holds or waits; nobody else is remembered.
#[derive(Debug, Default)]
struct Holder {
    held: usize,
    waiting: VecDeque<(u64, oneshot::Sender<Permit>)>,
}

/// What is taken of a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub in_use: usize,
    pub waiting: usize,
    /// How many there are in all; 0 is no limit.
    pub limit: usize,
}

/// What a request gets that is not refused.
pub(super) enum Place {
    Free(Permit),
    Queued(Turn),
}

impl Queue {
    pub(super) fn new(size: Size) -> Self {
        let Size { places, share, queued_per_caller } = size;
        let state =
            State { free: places, waiting: 0, last_turn: 0, callers: HashMap::new(), order: VecDeque::new() };
        let queued = places.max(queued_per_caller);
        Self { places, share, queued_per_caller, queued, state: state.into() }
    }

    pub(super) fn usage(&self) -> Usage {
        self.with(|state| Usage {
            in_use: self.places - state.free,
            waiting: state.waiting,
            limit: self.places,
        })
    }

    /// A place, or one in the queue; `None` when that is full. In a full queue, who comes with fewer
    /// requests takes the place of the last of who has the most.
    pub(super) fn place(self: &Arc<Self>, caller: Caller) -> Option<Place> {
        self.with(|state| {
            let holder = state.callers.entry(caller).or_default();
            if self.may_take(holder.held, state.free) {
                state.free -= 1;
                holder.held += 1;
                return Some(Place::Free(self.permit(caller)));
            }
            let waiting = holder.waiting.len();
            let room = waiting < self.queued_per_caller
                && (state.waiting < self.queued || state.make_room_for(waiting + 1));
            if !room {
                state.forget_if_idle(caller);
                return None;
            }
            let holder = state.callers.entry(caller).or_default();
            let (sender, receiver) = oneshot::channel();
            state.last_turn += 1;
            state.waiting += 1;
            if holder.waiting.is_empty() {
                state.order.push_back(caller);
            }
            holder.waiting.push_back((state.last_turn, sender));
            Some(Place::Queued(Turn { queue: self.clone(), caller, number: state.last_turn, receiver }))
        })
    }

    /// Whether a caller who holds so many places may take one more of those that are free: each caller's places
    /// stay below a multiple of the free ones, which leaves one caller alone its share.
    fn may_take(&self, held: usize, free: usize) -> bool {
        free > 0 && held * (self.places - self.share) < free * self.share
    }

    fn permit(self: &Arc<Self>, caller: Caller) -> Permit {
        Permit(Some((self.clone(), caller)))
    }

    /// Takes a place back and hands it to whose turn it is.
    fn give_back(self: &Arc<Self>, caller: Caller) {
        let admitted: Vec<_> = self.with(|state| {
            state.free += 1;
            if let Some(holder) = state.callers.get_mut(&caller) {
                holder.held -= 1;
            }
            // The caller may be below its threshold now, beside the one whose turn it is.
            let admitted =
                std::iter::from_fn(|| state.next(|held, free| self.may_take(held, free))).collect();
            state.forget_if_idle(caller);
            admitted
        });
        for (next, sender) in admitted {
            // A request that no longer waits gives its place back: outside of the lock.
            let _ = sender.send(self.permit(next));
        }
    }

    fn leave(&self, caller: Caller, number: u64) {
        self.with(|state| {
            let Some(holder) = state.callers.get_mut(&caller) else { return };
            let Some(at) = holder.waiting.iter().position(|(turn, _)| *turn == number) else { return };
            holder.waiting.remove(at);
            state.waiting -= 1;
            if holder.waiting.is_empty() {
                state.order.retain(|other| *other != caller);
            }
            state.forget_if_idle(caller);
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// The next request that gets a free place, if one may.
    fn next(&mut self, may_take: impl Fn(usize, usize) -> bool) -> Option<(Caller, oneshot::Sender<Permit>)> {
        if self.waiting == 0 {
            return None;
        }
        let (callers, free) = (&self.callers, self.free);
        let may = |caller: &Caller| callers.get(caller).is_some_and(|holder| may_take(holder.held, free));
        let at = self.order.iter().position(may)?;
        let caller = self.order.remove(at)?;
        let holder = self.callers.get_mut(&caller)?;
        let (_, sender) = holder.waiting.pop_front()?;
        holder.held += 1;
        if !holder.waiting.is_empty() {
            self.order.push_back(caller);
        }
        self.free -= 1;
        self.waiting -= 1;
        Some((caller, sender))
    }

    /// Turns the last request away of the caller of whom most wait, if that are more than `fewer`.
    fn make_room_for(&mut self, fewer: usize) -> bool {
        let waiting = |caller: &&Caller| self.callers.get(caller).map_or(0, |holder| holder.waiting.len());
        let Some(most) = self.order.iter().max_by_key(waiting).copied() else { return false };
        let Some(holder) = self.callers.get_mut(&most) else { return false };
        if holder.waiting.len() <= fewer {
            return false;
        }
        holder.waiting.pop_back();
        self.waiting -= 1;
        true
    }

    fn forget_if_idle(&mut self, caller: Caller) {
        if self.callers.get(&caller).is_some_and(|holder| holder.held == 0 && holder.waiting.is_empty()) {
            self.callers.remove(&caller);
        }
    }
}

/// Leave to be under way, given back on drop.
#[derive(Debug)]
pub struct Permit(Option<(Arc<Queue>, Caller)>);

impl Permit {
    /// Where there is no limit.
    pub(super) fn unlimited() -> Self {
        Self(None)
    }

    /// Who holds it; `None` where there is no limit.
    pub fn caller(&self) -> Option<Caller> {
        self.0.as_ref().map(|(_, caller)| *caller)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((queue, caller)) = self.0.take() {
            queue.give_back(caller);
        }
    }
}

/// A place in the queue, left on drop. It resolves when the request may go on, or has lost its place
/// (`None`).
pub(super) struct Turn {
    queue: Arc<Queue>,
    caller: Caller,
    number: u64,
    receiver: oneshot::Receiver<Permit>,
}

impl Future for Turn {
    type Output = Option<Permit>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Permit>> {
        Pin::new(&mut self.receiver).poll(cx).map(Result::ok)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.queue.leave(self.caller, self.number);
    }
}

#[cfg(test)]
impl Queue {
    /// Whether no request waits that may have a free place.
    pub(super) fn is_fair(&self) -> bool {
        self.with(|state| {
            !state.order.iter().any(|caller| self.may_take(state.callers[caller].held, state.free))
        })
    }

    /// Whether nobody holds or waits, and nobody is remembered.
    pub(super) fn is_idle(&self, places: usize) -> bool {
        self.with(|state| {
            state.free == places && state.waiting == 0 && state.callers.is_empty() && state.order.is_empty()
        })
    }
}
