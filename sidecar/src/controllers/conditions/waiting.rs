//! Schedules members by time, so that a finding about one of thousands does not require a scan of all.

use std::collections::{BTreeSet, HashMap};

use kubectl_mc_api::ClusterName;
use tokio::time::Instant;

/// Scheduled members, each with one time.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    times: HashMap<ClusterName, Instant>,
    /// The same entries, ordered by time.
    order: BTreeSet<(Instant, ClusterName)>,
}

impl Waiting {
    /// Schedules a member for this time, unless it is already scheduled earlier.
    pub(super) fn until(&mut self, when: Instant, cluster: ClusterName) {
        if let Some(&before) = self.times.get(&cluster) {
            if before <= when {
                return;
            }
            self.order.remove(&(before, cluster.clone()));
        }
        self.times.insert(cluster.clone(), when);
        self.order.insert((when, cluster));
    }

    /// The time of the first member.
    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(when, _)| *when)
    }

    /// Removes and returns the members that are due.
    pub(super) fn due(&mut self, now: Instant) -> Vec<ClusterName> {
        let mut due = Vec::new();
        while self.next().is_some_and(|next| next <= now)
            && let Some((_, cluster)) = self.order.pop_first()
        {
            self.times.remove(&cluster);
            due.push(cluster);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn named(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn member_is_scheduled_once_at_its_earliest_time() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let mut waiting = Waiting::default();
        assert_eq!((waiting.next(), waiting.due(after(9))), (None, Vec::new()));
        for (seconds, name) in [(5, "a"), (2, "b"), (3, "a"), (4, "a"), (3, "c")] {
            waiting.until(after(seconds), named(name));
        }
        assert_eq!(waiting.next(), Some(after(2)));
        assert_eq!(waiting.due(after(1)), Vec::new());
        assert_eq!(waiting.due(after(2)), [named("b")]);
        assert_eq!(waiting.due(after(3)), [named("a"), named("c")]);
        assert_eq!((waiting.next(), waiting.due(after(9))), (None, Vec::new()));
        // A member can be scheduled again, even for a later time.
        waiting.until(after(8), named("a"));
        assert_eq!(waiting.due(after(8)), [named("a")]);
    }
}
