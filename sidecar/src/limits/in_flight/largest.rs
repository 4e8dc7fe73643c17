//! Chooses what to end when a shared bound is exceeded: always a part of the largest holder, so
//! that a holder below its share loses nothing because of another one. Holders are callers, in
//! total and within a cluster.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::hash::Hash;

use kubectl_mc_api::ClusterName;

use super::Caller;

/// A part of what a bound counts: one connection or one request.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// `None` if the caller is unknown here, as on the connections of another replica.
    pub caller: Option<Caller>,
    pub cluster: Option<&'a ClusterName>,
    pub size: usize,
    /// How long it has been stalled, in any unit; `None` if it is making progress and must not end.
    pub stalled: Option<u64>,
}

/// How much may be held in total, by one caller, and for one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub total: usize,
    pub caller: usize,
    pub cluster: usize,
}

impl Bounds {
    /// One caller, or all callers of one cluster, may hold three quarters. A single caller can
    /// therefore use most of the bound, and when it is full, the largest holder makes room.
    pub const fn shared(total: usize) -> Self {
        let share = total - total / 4;
        Self { total, caller: share, cluster: share }
    }

    /// The same bound for all, where holders are not known.
    pub const fn undivided(total: usize) -> Self {
        Self { total, caller: total, cluster: total }
    }

    /// The positions of the parts that must end: the largest first, and among equal ones the
    /// longest stalled. Parts below half the mean are spared, because ending them would free
    /// little. An exceeded bound is reduced to three quarters, so that it is not exceeded again at
    /// once.
    pub fn surplus(self, parts: &[Part<'_>]) -> Vec<usize> {
        if parts.iter().map(|part| part.size).sum::<usize>() <= self.caller {
            return Vec::new();
        }
        let mut left: Vec<usize> = (0..parts.len()).collect();
        left.sort_unstable_by_key(|at| Reverse((parts[*at].size, parts[*at].stalled)));
        let mut chosen = Vec::new();
        for caller in above(self.caller, parts, &left, |part| part.caller) {
            end_largest(self.caller, parts, &mut left, &mut chosen, |part| part.caller == Some(caller));
        }
        for cluster in above(self.cluster, parts, &left, |part| part.cluster) {
            end_largest(self.cluster, parts, &mut left, &mut chosen, |part| part.cluster == Some(cluster));
        }
        if left.iter().map(|at| parts[*at].size).sum::<usize>() > self.total {
            end_largest(self.total, parts, &mut left, &mut chosen, |_| true);
        }
        chosen
    }
}

/// The holders whose parts exceed the bound.
fn above<'a, K: Copy + Eq + Hash>(
    bound: usize,
    parts: &[Part<'a>],
    left: &[usize],
    holder: impl Fn(&Part<'a>) -> Option<K>,
) -> Vec<K> {
    let mut sums: HashMap<K, usize> = HashMap::new();
    for part in left.iter().map(|at| &parts[*at]) {
        if let Some(holder) = holder(part) {
            *sums.entry(holder).or_default() += part.size;
        }
    }
    sums.into_iter().filter(|(_, sum)| *sum > bound).map(|(holder, _)| holder).collect()
}

/// Chooses from the parts that `counts` accepts, until three quarters of the bound are left: each
/// time the largest stalled part of the caller who holds the most.
fn end_largest(
    bound: usize,
    parts: &[Part<'_>],
    left: &mut Vec<usize>,
    chosen: &mut Vec<usize>,
    counts: impl Fn(&Part<'_>) -> bool,
) {
    // From the smallest to the largest, so that the largest is popped first.
    let counted: Vec<usize> = left.iter().rev().copied().filter(|at| counts(&parts[*at])).collect();
    let mut sum: usize = counted.iter().map(|at| parts[*at].size).sum();
    let half_the_mean = sum / counted.len().max(1) / 2;
    let mut callers: HashMap<Option<Caller>, (usize, Vec<usize>)> = HashMap::new();
    for at in counted {
        let (held, stalled) = callers.entry(parts[at].caller).or_default();
        *held += parts[at].size;
        if parts[at].stalled.is_some() && parts[at].size >= half_the_mean {
            stalled.push(at);
        }
    }
    let mut largest: BinaryHeap<_> = callers.into_values().collect();
    let begin = chosen.len();
    while sum > bound / 4 * 3 {
        let Some((held, mut stalled)) = largest.pop() else { break };
        let Some(at) = stalled.pop() else { continue };
        chosen.push(at);
        sum -= parts[at].size;
        largest.push((held - parts[at].size, stalled));
    }
    let ended: HashSet<_> = chosen[begin..].iter().collect();
    left.retain(|at| !ended.contains(at));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MALLORY: Caller = Caller::of_hash(1);
    const JANE: Caller = Caller::of_hash(2);
    const BOUNDS: Bounds = Bounds { total: 400, caller: 100, cluster: 200 };

    fn cluster(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    fn part(caller: Caller, cluster: &ClusterName, size: usize, stalled: u64) -> Part<'_> {
        Part { caller: Some(caller), cluster: Some(cluster), size, stalled: Some(stalled) }
    }

    #[test]
    fn parts_within_every_share_stay() {
        let m1 = cluster("m1");
        let parts = [part(MALLORY, &m1, 100, 9), part(JANE, &m1, 100, 9)];
        assert!(BOUNDS.surplus(&parts).is_empty());
    }

    #[test]
    fn caller_above_the_share_loses_only_own_parts() {
        let (m1, m2) = (cluster("m1"), cluster("m2"));
        let mut parts = vec![part(MALLORY, &m2, 1, 1); 101];
        parts.push(part(JANE, &m1, 50, 1000));
        let ended = BOUNDS.surplus(&parts);
        assert_eq!(ended.len(), 26);
        assert!(!ended.contains(&101));
    }

    #[test]
    fn largest_caller_of_a_full_cluster_loses_parts() {
        let (m1, callers) = (cluster("m1"), (10..13).map(Caller::of_hash));
        let mut parts: Vec<_> = callers.map(|caller| part(caller, &m1, 90, 1)).collect();
        parts.push(part(JANE, &m1, 5, 1000));
        let ended = BOUNDS.surplus(&parts);
        assert!(ended.len() == 2 && !ended.contains(&3), "{ended:?}");
    }

    #[test]
    fn largest_caller_loses_parts_when_all_are_too_many() {
        let clusters: Vec<_> = (0..5).map(|n| cluster(&format!("m{n}"))).collect();
        let mut parts: Vec<_> = (0..5)
            .map(|n| part(Caller::of_hash(10 + n), &clusters[n as usize], 90 - n as usize, 1))
            .collect();
        parts.push(part(JANE, &clusters[0], 5, 1000));
        assert_eq!(BOUNDS.surplus(&parts), [0, 1]);
    }

    #[test]
    fn longest_stalled_of_equal_parts_ends_first() {
        let m1 = cluster("m1");
        let parts = [part(JANE, &m1, 60, 1), part(JANE, &m1, 60, 7), part(JANE, &m1, 10, 9)];
        assert_eq!(BOUNDS.surplus(&parts), [1]);
    }

    #[test]
    fn moving_parts_count_and_stay() {
        let m1 = cluster("m1");
        let moving = Part { stalled: None, ..part(JANE, &m1, 60, 0) };
        assert_eq!(BOUNDS.surplus(&[moving, part(JANE, &m1, 50, 1)]), [1]);
        assert!(BOUNDS.surplus(&[moving; 9]).is_empty());
    }

    #[test]
    fn unknown_callers_have_no_share_but_the_clusters() {
        let m1 = cluster("m1");
        let unknown = Part { caller: None, ..part(JANE, &m1, 50, 1) };
        assert!(BOUNDS.surplus(&[unknown; 4]).is_empty());
        assert_eq!(BOUNDS.surplus(&[unknown; 5]).len(), 2);
    }
}
