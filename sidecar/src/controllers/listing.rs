//! Reads a watch as existing and deleted objects. Objects that are missing in a new list are
//! deleted, too.

use std::collections::HashSet;
use std::hash::Hash;

use kube::runtime::watcher::Event;

/// The keys of the objects of one kind that a watch has reported.
pub(super) struct Listing<K> {
    known: HashSet<K>,
    /// The keys in the current list so far.
    listed: HashSet<K>,
    is_complete: bool,
}

/// The meaning of an event.
pub(super) enum Seen<K, T> {
    There(T),
    Gone(Vec<K>),
}

impl<K> Default for Listing<K> {
    fn default() -> Self {
        Self { known: HashSet::new(), listed: HashSet::new(), is_complete: false }
    }
}

impl<K: Clone + Eq + Hash> Listing<K> {
    /// Whether a list was read completely.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) fn take<T>(&mut self, event: Event<T>, key: impl Fn(&T) -> K) -> Seen<K, T> {
        match event {
            Event::Init => {
                self.listed.clear();
                Seen::Gone(Vec::new())
            }
            Event::InitApply(object) => {
                self.listed.insert(key(&object));
                self.known.insert(key(&object));
                Seen::There(object)
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let gone = self.known.difference(&listed).cloned().collect();
                self.known = listed;
                self.is_complete = true;
                Seen::Gone(gone)
            }
            Event::Apply(object) => {
                self.known.insert(key(&object));
                Seen::There(object)
            }
            Event::Delete(object) => {
                let key = key(&object);
                self.known.remove(&key);
                Seen::Gone(vec![key])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of objects that are deleted after the event.
    fn gone(listing: &mut Listing<&'static str>, event: Event<&'static str>) -> Vec<&'static str> {
        match listing.take(event, |object| object) {
            Seen::There(_) => Vec::new(),
            Seen::Gone(keys) => keys,
        }
    }

    #[test]
    fn objects_that_a_new_list_does_not_have_are_gone() {
        let mut listing = Listing::default();
        for event in [Event::Init, Event::InitApply("a"), Event::InitApply("b")] {
            assert_eq!(gone(&mut listing, event), [""; 0]);
        }
        assert!(!listing.is_complete());
        // The list was interrupted.
        for event in [Event::Init, Event::InitApply("b")] {
            assert_eq!(gone(&mut listing, event), [""; 0]);
        }
        assert_eq!(gone(&mut listing, Event::InitDone), ["a"]);
        assert!(listing.is_complete());
        assert_eq!(gone(&mut listing, Event::Apply("c")), [""; 0]);
        assert_eq!(gone(&mut listing, Event::Delete("c")), ["c"]);
        gone(&mut listing, Event::Init);
        assert_eq!(gone(&mut listing, Event::InitDone), ["b"]);
    }
}
