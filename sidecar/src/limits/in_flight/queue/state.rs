//! The state of one bound, and the steps that change it, each under the lock of [`super::Queue`].

use std::collections::VecDeque;
use std::time::Duration;

use ahash::{HashMap, HashMapExt};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::caller::Caller;
use super::super::counts::{Counts, LevelCounts, Reason};
use super::super::level::Level;
use super::super::seats::ByLevel;
use super::{Permit, Rules, since};

#[derive(Debug)]
pub(super) struct State {
    free: usize,
    waiting: usize,
    last_turn: u64,
    /// Only callers that hold limited seats or wait.
    callers: HashMap<Caller, Holder>,
    levels: ByLevel<Queued>,
    counts: Option<Box<Counts>>,
}

#[derive(Debug, Default)]
struct Queued {
    held: usize,
    waiting: usize,
    /// The callers with queued requests, each once. The first eligible caller gets a seat and moves to the
    /// end.
    order: VecDeque<Caller>,
}

#[derive(Debug, Default)]
struct Holder {
    held: usize,
    waiting: VecDeque<Waiting>,
}

/// A queued request.
#[derive(Debug)]
pub(super) struct Waiting {
    number: u64,
    since: Instant,
    pub(super) sender: oneshot::Sender<Permit>,
}

impl State {
    pub(super) fn new(places: usize, counts: bool) -> Self {
        let (callers, levels) = (HashMap::new(), Default::default());
        Self { free: places, waiting: 0, last_turn: 0, callers, levels, counts: counts.then(Box::default) }
    }

    /// Takes a free seat, if the caller is eligible for one.
    pub(super) fn take(&mut self, rules: &Rules, level: Level, caller: Caller) -> bool {
        if !rules.is_limited(level) {
            self.levels[level as usize].held += 1;
            self.count(level, |counts| counts.dispatched(None));
            return true;
        }
        let available = self.available(rules, level);
        let holder = self.callers.entry(caller).or_default();
        if !rules.may_take(holder.held, available) {
            return false;
        }
        holder.held += 1;
        self.free -= 1;
        self.levels[level as usize].held += 1;
        self.count(level, |counts| counts.dispatched(Some(Duration::ZERO)));
        true
    }

    /// Takes a position in the queue, if there is room, and returns its number.
    pub(super) fn wait(
        &mut self,
        rules: &Rules,
        level: Level,
        caller: Caller,
        sender: oneshot::Sender<Permit>,
    ) -> Option<u64> {
        let waiting = self.callers.get(&caller).map_or(0, |holder| holder.waiting.len());
        let room = waiting < rules.queued_per_caller
            && (self.levels[level as usize].waiting < rules.queued || self.make_room_for(level, waiting + 1));
        if !room {
            self.forget_if_idle(caller);
            let reason = match rules.queued_per_caller {
                0 => Reason::ConcurrencyLimit,
                _ => Reason::QueueFull,
            };
            self.count(level, |counts| counts.rejected(reason, None));
            return None;
        }
        self.last_turn += 1;
        self.waiting += 1;
        let (holder, queued) = (self.callers.entry(caller).or_default(), &mut self.levels[level as usize]);
        queued.waiting += 1;
        if holder.waiting.is_empty() {
            queued.order.push_back(caller);
        }
        holder.waiting.push_back(Waiting { number: self.last_turn, since: Instant::now(), sender });
        Some(self.last_turn)
    }

    /// Takes back a seat.
    pub(super) fn give_back(&mut self, rules: &Rules, level: Level, caller: Caller) {
        self.levels[level as usize].held -= 1;
        if rules.is_limited(level) {
            self.free += 1;
            if let Some(holder) = self.callers.get_mut(&caller) {
                holder.held -= 1;
            }
        }
    }

    /// The next request that gets a free seat, if any is eligible.
    pub(super) fn next(&mut self, rules: &Rules) -> Option<(Caller, Waiting)> {
        if self.waiting == 0 {
            return None;
        }
        let load = |level: Level| rules.seats.load(level, self.levels[level as usize].held);
        let may = |level| Some((load(level), level, self.first(rules, level)?));
        let (_, level, at) = Level::ALL.into_iter().filter_map(may).min()?;
        let queued = &mut self.levels[level as usize];
        let caller = queued.order.remove(at)?;
        let holder = self.callers.get_mut(&caller)?;
        let next = holder.waiting.pop_front()?;
        holder.held += 1;
        queued.held += 1;
        queued.waiting -= 1;
        if !holder.waiting.is_empty() {
            queued.order.push_back(caller);
        }
        self.free -= 1;
        self.waiting -= 1;
        let waited = since(next.since);
        self.count(level, |counts| counts.dispatched(Some(waited)));
        Some((caller, next))
    }

    /// Removes a request from the queue.
    pub(super) fn leave(&mut self, level: Level, caller: Caller, number: u64, reason: Reason) {
        let Some(holder) = self.callers.get_mut(&caller) else { return };
        let Some(at) = holder.waiting.iter().position(|waiting| waiting.number == number) else { return };
        let left = holder.waiting.remove(at);
        let queued = &mut self.levels[level as usize];
        self.waiting -= 1;
        queued.waiting -= 1;
        if holder.waiting.is_empty() {
            queued.order.retain(|other| *other != caller);
        }
        self.forget_if_idle(caller);
        let waited = left.map(|left| since(left.since));
        self.count(level, |counts| counts.rejected(reason, waited));
    }

    pub(super) fn forget_if_idle(&mut self, caller: Caller) {
        if self.callers.get(&caller).is_some_and(|holder| holder.held == 0 && holder.waiting.is_empty()) {
            self.callers.remove(&caller);
        }
    }

    pub(super) fn held(&self) -> ByLevel<usize> {
        Level::ALL.map(|level| self.levels[level as usize].held)
    }

    pub(super) fn waiting(&self) -> ByLevel<usize> {
        Level::ALL.map(|level| self.levels[level as usize].waiting)
    }

    pub(super) fn counts(&self) -> Option<Counts> {
        self.counts.as_deref().cloned()
    }

    /// How many free seats a level may take.
    fn available(&self, rules: &Rules, level: Level) -> usize {
        rules.seats.available(level, self.free, |other| self.levels[other as usize].held)
    }

    /// The position of the first waiting caller of a level that is eligible for a free seat.
    fn first(&self, rules: &Rules, level: Level) -> Option<usize> {
        let order = &self.levels[level as usize].order;
        if order.is_empty() {
            return None;
        }
        let available = self.available(rules, level);
        if available == 0 {
            return None;
        }
        let held = |caller: &Caller| self.callers.get(caller).map(|holder| holder.held);
        order.iter().position(|caller| held(caller).is_some_and(|held| rules.may_take(held, available)))
    }

    /// Rejects the last queued request of the level's caller with the most queued requests, if it has more
    /// than `fewer`.
    fn make_room_for(&mut self, level: Level, fewer: usize) -> bool {
        let waiting = |caller: &&Caller| self.callers.get(caller).map_or(0, |holder| holder.waiting.len());
        let queued = &mut self.levels[level as usize];
        let Some(most) = queued.order.iter().max_by_key(waiting).copied() else { return false };
        let Some(holder) = self.callers.get_mut(&most) else { return false };
        if holder.waiting.len() <= fewer {
            return false;
        }
        let Some(last) = holder.waiting.pop_back() else { return false };
        queued.waiting -= 1;
        self.waiting -= 1;
        let waited = since(last.since);
        self.count(level, |counts| counts.rejected(Reason::QueueFull, Some(waited)));
        true
    }

    fn count(&mut self, level: Level, change: impl FnOnce(&mut LevelCounts)) {
        if let Some(counts) = &mut self.counts {
            change(&mut counts.0[level as usize]);
        }
    }
}

#[cfg(test)]
impl State {
    pub(super) fn is_fair(&self, rules: &Rules) -> bool {
        let held: usize = Level::ALL.iter().skip(1).map(|level| self.levels[*level as usize].held).sum();
        held + self.free == rules.places && Level::ALL.iter().all(|level| self.first(rules, *level).is_none())
    }

    pub(super) fn is_idle(&self, places: usize) -> bool {
        let is_idle = |queued: &Queued| queued.held == 0 && queued.waiting == 0 && queued.order.is_empty();
        self.free == places && self.waiting == 0 && self.callers.is_empty() && self.levels.iter().all(is_idle)
    }
}
