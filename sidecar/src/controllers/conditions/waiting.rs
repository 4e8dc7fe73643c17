//! When members are looked at next: what is told of one of thousands costs no look at all others.

use std::collections::{BTreeSet, HashMap};

use kubectl_mc_api::ClusterName;
use tokio::time::Instant;

/// Members, each with its time.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    times: HashMap<ClusterName, Instant>,
    /// The same, the first to come first.
    order: BTreeSet<(Instant, ClusterName)>,
}

impl Waiting {
    /// Has a member looked at then, or before if it is already to be.
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

    /// When the first is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(when, _)| *when)
    }

    /// Those whose time has come; they wait no more.
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
    async fn a_member_waits_once_for_the_earliest_of_its_times() {
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
        // It may wait again, and for longer than before.
        waiting.until(after(8), named("a"));
        assert_eq!(waiting.due(after(8)), [named("a")]);
    }
}
