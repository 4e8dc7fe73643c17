//! Schedules a repeated task: tracks when it is due next. A failure is retried with exponential backoff.

use std::time::Duration;

use tokio::time::Instant;

use super::work_queue::{Queued, WorkQueue};
use crate::base::retry;

#[derive(Debug)]
pub(super) struct Turn {
    due: Instant,
    under_way: bool,
    /// The queue entry while the task is due and waits to start.
    queued: Option<Queued>,
    /// The backoff after the next failure.
    pause: Duration,
}

impl Turn {
    /// A task that is due immediately.
    pub(super) fn now() -> Self {
        Self { due: Instant::now(), under_way: false, queued: None, pause: FIRST_PAUSE }
    }

    /// Makes the task due immediately and resets the backoff. A running task continues.
    pub(super) fn restart(&mut self) {
        *self = Self { under_way: self.under_way, queued: self.queued.take(), ..Self::now() };
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.under_way && self.due <= now
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// When the task is due, unless it is running.
    pub(super) fn next(&self) -> Option<Instant> {
        (!self.under_way).then_some(self.due)
    }

    /// Makes the task due at this time or earlier.
    pub(super) fn hurry(&mut self, at: Instant) {
        self.due = self.due.min(at);
    }

    /// Makes the task due at this time or later.
    pub(super) fn postpone(&mut self, at: Instant) {
        self.due = self.due.max(at);
        self.queued = None;
    }

    /// Adds the due task to the queue, unless it is already queued.
    pub(super) fn wait(&mut self, queue: &WorkQueue) {
        let due = self.due;
        self.queued.get_or_insert_with(|| queue.add(due));
    }

    /// Starts the task. It is due again after this time, or earlier if [`Self::hurry`] is called while it
    /// runs.
    pub(super) fn begin(&mut self, again: Duration, queue: &WorkQueue) -> Queued {
        self.wait(queue);
        self.under_way = true;
        let due = std::mem::replace(&mut self.due, Instant::now() + again);
        self.queued.take().unwrap_or_else(|| queue.add(due))
    }

    /// Ends the running task.
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
    async fn backoff_doubles_up_to_a_minute_and_success_resets_it() {
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
    async fn change_during_a_run_makes_the_task_due_again() {
        let (mut turn, queue) = (Turn::now(), queue());
        turn.begin(Duration::from_secs(3600), &queue);
        turn.hurry(Instant::now());
        assert!(!turn.is_due(Instant::now()));
        turn.done(false);
        assert!(turn.is_due(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn task_is_queued_until_it_starts() {
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
