//! Describes the changes of one list of a kubeconfig.

use serde_json::Value;

/// The changes of one list.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Section {
    /// `clusters`, `contexts` or `users`.
    pub(crate) key: &'static str,
    /// The length of the list.
    pub(crate) length: usize,
    /// By position in the list: the new entry, or `None` to remove it.
    pub(crate) changed: Vec<(usize, Option<Value>)>,
    pub(crate) added: Vec<Value>,
}

impl Section {
    /// An empty set of changes for this list of a document.
    pub(crate) fn of(document: &Value, key: &'static str) -> Self {
        Self { key, length: list(document, key).len(), ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty()
    }

    /// The new entry at this position, if it changes.
    pub(crate) fn change(&self, at: usize) -> Option<&Option<Value>> {
        self.changed.iter().find(|(changed, _)| *changed == at).map(|(_, entry)| entry)
    }

    /// The list of this document after the changes.
    pub(super) fn apply(&self, document: &Value) -> Vec<Value> {
        let list = list(document, self.key);
        let kept = list.iter().enumerate().filter_map(|(at, entry)| match self.change(at) {
            Some(change) => change.clone(),
            None => Some(entry.clone()),
        });
        kept.chain(self.added.iter().cloned()).collect()
    }
}

/// The entries of a list of a kubeconfig.
pub(crate) fn list<'a>(document: &'a Value, key: &str) -> &'a [Value] {
    document.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
