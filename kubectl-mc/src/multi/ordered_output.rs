//! Passes the output of the children on in the order of the clusters, or as it arrives.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::child::Event;
use super::output::Output;
use super::straggler_timer::StragglerTimer;
use super::{Fault, Outcome};
use crate::multi::selection::Target;

/// Events on their way to the output.
pub(super) struct OrderedOutput<'a> {
    targets: &'a [&'a Target],
    as_they_come: bool,
    /// Those that have not ended, in the order in which they are told of.
    order: VecDeque<usize>,
    /// Whether anything of the first of them was told.
    begun: bool,
    /// How many have lost their place to those behind them.
    passed_over: usize,
    quiet: StragglerTimer,
    /// What was said before its turn.
    early: HashMap<usize, Vec<Event>>,
    results: Vec<Option<Result<(), Fault>>>,
}

impl<'a> OrderedOutput<'a> {
    pub(super) fn new(targets: &'a [&'a Target], as_they_come: bool) -> Self {
        Self {
            targets,
            as_they_come,
            order: (0..targets.len()).collect(),
            begun: false,
            passed_over: 0,
            quiet: StragglerTimer::new(GRACE),
            early: HashMap::new(),
            results: vec![None; targets.len()],
        }
    }

    /// One that is not asked at all, before any of the others says something.
    pub(super) fn skip(&mut self, at: usize, fault: Fault, output: &mut Output<'_>) {
        self.order.retain(|other| *other != at);
        self.results[at] = Some(output.end(&self.targets[at].name, Err(fault)));
    }

    pub(super) fn take(&mut self, at: usize, event: Event, output: &mut Output<'_>) {
        if self.as_they_come {
            return self.show(at, event, output);
        }
        if self.order.front() == Some(&at) {
            self.begun = true;
            self.show(at, event, output);
            return self.go_on(output);
        }
        let early = self.early.entry(at).or_insert_with(|| {
            self.quiet.moved();
            Vec::new()
        });
        early.push(event);
    }

    /// When the first loses its place, because it is silent and others are not.
    pub(super) fn due(&self) -> Option<Instant> {
        let waits = !self.begun && !self.early.is_empty();
        // A cluster that has lost its place once neither waits nor delays others.
        let is_late = self.passed_over >= self.order.len();
        waits.then(|| if is_late { Instant::now() } else { self.quiet.over() })
    }

    /// The first loses its place, when that is due.
    pub(super) fn pass_over(&mut self, output: &mut Output<'_>) {
        while self.due().is_some_and(|due| due <= Instant::now()) {
            self.passed_over += 1;
            self.order.rotate_left(1);
            self.first(output);
            self.go_on(output);
        }
    }

    /// Tells of those whose turn has come, until one has not ended.
    fn go_on(&mut self, output: &mut Output<'_>) {
        while self.order.front().is_some_and(|first| self.results[*first].is_some()) {
            self.order.pop_front();
            self.begun = false;
            self.first(output);
        }
    }

    /// Tells what the first has said before its turn.
    fn first(&mut self, output: &mut Output<'_>) {
        let Some(first) = self.order.front().copied() else { return };
        for event in self.early.remove(&first).unwrap_or_default() {
            self.begun = true;
            self.show(first, event, output);
        }
    }

    fn show(&mut self, at: usize, event: Event, output: &mut Output<'_>) {
        let cluster = &self.targets[at].name;
        match event {
            Event::Out(bytes) => output.out(cluster, bytes),
            Event::Err(bytes) => output.err(cluster, &bytes),
            Event::End(result) => {
                self.results[at] = Some(output.end(cluster, result));
            }
        }
    }

    pub(super) fn outcomes(self) -> Vec<Outcome> {
        let results = self.targets.iter().zip(self.results);
        results
            // Without an end standard output was closed: that is no failure.
            .map(|(target, result)| Outcome {
                cluster: target.name.clone(),
                result: result.unwrap_or(Ok(())),
            })
            .collect()
    }
}

/// A kubectl needs the better part of a second to start.
const GRACE: Duration = Duration::from_secs(2);
