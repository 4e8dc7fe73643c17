//! Tracks the progress of a merged watch: the members whose existing objects were sent, the unreachable members, and
//! the kind of the objects. It determines the content of bookmarks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kubectl_mc_api::ClusterName;

/// Kind and apiVersion of objects.
pub(super) type Kind = (String, String);

#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Whether the client refuses an incomplete list.
    is_strict: bool,
    /// Whether a bookmark marks the end of the existing objects.
    marks_end: bool,
    has_marked_end: bool,
    /// Members whose existing objects are not all sent.
    pending: BTreeSet<ClusterName>,
    unreachable: BTreeSet<ClusterName>,
    /// The type that each member reports for its objects.
    kinds: BTreeMap<ClusterName, Kind>,
}

impl Progress {
    pub(super) fn new(is_strict: bool, marks_end: bool) -> Self {
        Self { is_strict, marks_end, ..Self::default() }
    }

    /// The member's existing objects will be sent.
    pub(super) fn begins(&mut self, member: &ClusterName) {
        self.pending.insert(member.clone());
    }

    /// The member's existing objects were sent.
    pub(super) fn synced(&mut self, member: &ClusterName) {
        self.pending.remove(member);
        self.unreachable.remove(member);
    }

    pub(super) fn reachable(&mut self, member: &ClusterName) {
        self.unreachable.remove(member);
    }

    /// The member does not answer. A strict client deletes what is missing when the list ends, so the end waits for the
    /// member there.
    pub(super) fn unreachable(&mut self, member: &ClusterName) {
        if !self.is_strict {
            self.pending.remove(member);
        }
        self.unreachable.insert(member.clone());
    }

    /// Notes what kind the member's objects are.
    pub(super) fn is_of(&mut self, member: &ClusterName, kind: Kind) {
        if kind.0.len() <= MAX_KIND && kind.1.len() <= MAX_KIND {
            self.kinds.insert(member.clone(), kind);
        }
    }

    /// The kind that most members send, so that one member cannot give the bookmarks of all another kind.
    pub(super) fn kind(&self) -> Option<&Kind> {
        let mut votes: HashMap<&Kind, usize> = HashMap::new();
        self.kinds.values().for_each(|kind| *votes.entry(kind).or_default() += 1);
        let most = votes.values().max().copied()?;
        self.kinds.values().find(|kind| votes.get(kind) == Some(&most))
    }

    /// Whether the end of the existing objects must be marked now. It is marked once.
    pub(super) fn reaches_end(&mut self) -> bool {
        let is_end =
            self.marks_end && !self.has_marked_end && self.pending.is_empty() && !self.kinds.is_empty();
        self.has_marked_end |= is_end;
        is_end
    }

    /// Whether a bookmark could be taken for the end of the existing objects.
    pub(super) fn is_before_end(&self) -> bool {
        self.marks_end && !self.has_marked_end
    }

    /// The members that do not answer, as text; empty if all do.
    pub(super) fn unreachable_names(&self) -> String {
        self.unreachable.iter().map(ClusterName::as_str).collect::<Vec<_>>().join(",")
    }
}

/// The longest name of Kubernetes.
const MAX_KIND: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Kind {
        (name.to_owned(), "v1".to_owned())
    }

    fn names() -> [ClusterName; 3] {
        ["m1", "m2", "m3"].map(|name| name.parse().unwrap())
    }

    #[test]
    fn strict_list_does_not_end_without_an_unreachable_member() {
        let [m1, m2, _] = names();
        for (is_strict, ends) in [(false, true), (true, false)] {
            let mut progress = Progress::new(is_strict, true);
            [&m1, &m2].into_iter().for_each(|member| progress.begins(member));
            progress.is_of(&m1, kind("Pod"));
            progress.synced(&m1);
            assert!(!progress.reaches_end() && progress.is_before_end());
            progress.unreachable(&m2);
            assert_eq!(progress.reaches_end(), ends, "strict: {is_strict}");
            assert_eq!(progress.unreachable_names(), "m2");
            progress.synced(&m2);
            assert_eq!(progress.reaches_end(), !ends, "it ends once");
            assert!(!progress.is_before_end() && progress.unreachable_names().is_empty());
        }
    }

    #[test]
    fn one_member_does_not_decide_the_kind_of_bookmarks() {
        let [m1, m2, m3] = names();
        let mut progress = Progress::default();
        assert_eq!(progress.kind(), None);
        progress.is_of(&m1, kind("Evil"));
        [&m2, &m3].into_iter().for_each(|member| progress.is_of(member, kind("Pod")));
        progress.is_of(&m1, kind("Worse"));
        assert_eq!(progress.kind(), Some(&kind("Pod")));
        progress.is_of(&m2, kind(&"x".repeat(254)));
        assert_eq!(progress.kind(), Some(&kind("Pod")), "a longer one is none");
    }
}
