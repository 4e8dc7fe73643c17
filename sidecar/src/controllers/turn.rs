//! When something that is done again and again is due next. What fails is tried again after a pause that doubles.

use std::time::Duration;

use tokio::time::Instant;

use super::work_queue::{Queued, WorkQueue};
use crate::retry;

#[derive(Debug)]
pub(super) struct Turn {
    due: Instant,
    under_way: bool,
    /// While it is due and waits for a place.
    queued: Option<Queued>,
    /// How long is waited after the next failure.
    pause: Duration,
}

impl Turn {
    /// Due at once.
    pub(super) fn now() -> Self {
        Self { due: Instant::now(), under_way: false, queued: None, pause: FIRST_PAUSE }
    }

    /// Due at once, as if nothing had failed; what is under way goes on.
    pub(super) fn restart(&mut self) {
        *self = Self { under_way: self.under_way, queued: self.queued.take(), ..Self::now() };
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.under_way && self.due <= now
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// When there is something to do, if it is not under way.
    pub(super) fn next(&self) -> Option<Instant> {
        (!self.under_way).then_some(self.due)
    }

    /// Due then at the latest.
    pub(super) fn hurry(&mut self, at: Instant) {
        self.due = self.due.min(at);
    }

    /// Due then at the earliest.
    pub(super) fn postpone(&mut self, at: Instant) {
        self.due = self.due.max(at);
        self.queued = None;
    }

    /// It is due, and waits for a place.
    pub(super) fn wait(&mut self, queue: &WorkQueue) {
        let due = self.due;
        self.queued.get_or_insert_with(|| queue.add(due));
    }

    /// Whatever changes from now on makes it due again before that time has passed.
    pub(super) fn begin(&mut self, again: Duration, queue: &WorkQueue) -> Queued {
        self.wait(queue);
        self.under_way = true;
        let due = std::mem::replace(&mut self.due, Instant::now() + again);
        self.queued.take().unwrap_or_else(|| queue.add(due))
    }

    /// Ends what is under way.
    pub(super) fn done(&mut self, retry: bool) {
        self.under_way = false;
        if retry {
            self.hurry(Instant::now() + retry::jittered(self.pause));
            self.pause = (self.pause * 2).min(LAST_PAUSE);
        } else {
            self.pause = FIRST_PAUSE;
        }
    }
}

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::work_queue::Metrics;

    fn queue() -> WorkQueue {
        Metrics::default().queue("access")
    }

    #[tokio::test(start_paused = true)]
    async fn pause_doubles_up_to_a_minute_and_success_resets_it() {
        let (mut turn, queue) = (Turn::now(), queue());
        let mut pause_after = |retry| {
            turn.begin(Duration::from_secs(3600), &queue);
            assert!(turn.next().is_none() && !turn.is_due(Instant::now() + Duration::from_secs(7200)));
            turn.done(retry);
            turn.due() - Instant::now()
        };
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let (pause, least) = (pause_after(true), Duration::from_secs(seconds));
            assert!(pause >= least && pause <= least.mul_f64(1.21), "{pause:?} for {seconds} s");
        }
        assert_eq!(pause_after(false), Duration::from_secs(3600));
        assert!(pause_after(true) < Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn change_while_it_is_under_way_makes_it_due_again() {
        let (mut turn, queue) = (Turn::now(), queue());
        turn.begin(Duration::from_secs(3600), &queue);
        turn.hurry(Instant::now());
        assert!(!turn.is_due(Instant::now()));
        turn.done(false);
        assert!(turn.is_due(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn turn_is_queued_from_its_wait_until_its_place() {
        let (mut turn, queue) = (Turn::now(), queue());
        turn.wait(&queue);
        turn.wait(&queue);
        turn.restart();
        assert_eq!(queue.depth(), 1);
        turn.postpone(Instant::now() + Duration::from_secs(1));
        assert_eq!(queue.depth(), 0);
        turn.wait(&queue);
        let queued = turn.begin(Duration::from_secs(3600), &queue);
        assert_eq!(queue.depth(), 1);
        let _work = queued.begin();
        assert_eq!(queue.depth(), 0);
    }
}
