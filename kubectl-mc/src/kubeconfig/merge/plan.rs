//! Which entries of a kubeconfig change, and the meaning of the file afterwards.

use std::path::Path;

use kubectl_mc_api::ClusterName;
use serde_json::{Map, Value};

use super::Report;
use crate::cluster::context::{self, ClusterContext};
use crate::kubeconfig::entries::{ForeignEntry, Mark, MemberEntry};

/// The changes of a file.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) sections: [Section; 2],
    /// The whole file afterwards.
    pub(super) wanted: Value,
}

/// The changes of one list.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Section {
    /// `clusters` or `contexts`.
    pub(super) key: &'static str,
    /// How many entries the list has.
    pub(super) length: usize,
    /// By position in the list: the entry afterwards, or none.
    pub(super) changed: Vec<(usize, Option<Value>)>,
    pub(super) added: Vec<Value>,
}

impl Plan {
    pub(super) fn make(
        old: &Value,
        host: &ClusterContext,
        entries: &[MemberEntry],
        known: Option<&[ClusterName]>,
    ) -> Result<Self, ForeignEntry> {
        let mut wanted = old.clone();
        let mut section = |key, kind, entry: fn(&MemberEntry) -> &Value| {
            let list = old.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let wishes = entries.iter().map(|member| (member.name.as_str(), entry(member)));
            let section = Section::make(key, kind, list, host, wishes, known)?;
            if !section.is_empty() {
                wanted[key] = section.apply(list).into();
            }
            Ok(section)
        };
        let sections = [
            section("clusters", "cluster", |entry| &entry.cluster)?,
            section("contexts", "context", |entry| &entry.context)?,
        ];
        Ok(Self { sections, wanted })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sections.iter().all(Section::is_empty)
    }

    /// Counts contexts; one of which only the cluster changes counts as updated.
    pub(super) fn report(&self, file: &Path) -> Report {
        let [clusters, contexts] = &self.sections;
        let count = |section: &Section, is_removed: bool| {
            section.changed.iter().filter(|(_, entry)| entry.is_none() == is_removed).count()
        };
        let current = self.wanted.get("current-context").and_then(Value::as_str).unwrap_or_default();
        let removed = count(contexts, true);
        let names = self.wanted.get("contexts").and_then(Value::as_array);
        let is_there = names.into_iter().flatten().any(|context| context["name"] == current);
        Report {
            file: file.to_owned(),
            added: contexts.added.len(),
            updated: count(contexts, false).max(count(clusters, false)),
            removed,
            current_removed: (removed > 0 && !current.is_empty() && !is_there).then(|| current.to_owned()),
        }
    }
}

impl Section {
    fn make<'a>(
        key: &'static str,
        kind: &'static str,
        list: &[Value],
        host: &ClusterContext,
        wishes: impl Iterator<Item = (&'a str, &'a Value)>,
        known: Option<&[ClusterName]>,
    ) -> Result<Self, ForeignEntry> {
        let mark = |entry: &Value| Mark::find(&entry[kind]).filter(|mark| mark.is_of(host));
        let mut section = Self { key, length: list.len(), ..Self::default() };
        for (name, wish) in wishes {
            match list.iter().position(|entry| entry["name"] == name) {
                None => section.added.push(wish.clone()),
                Some(at) if mark(&list[at]).is_none() => {
                    return Err(ForeignEntry { kind, name: name.to_owned() });
                }
                Some(at) => {
                    let entry = updated(&list[at], wish, kind);
                    if entry != list[at] {
                        section.changed.push((at, Some(entry)));
                    }
                }
            }
        }
        if let Some(known) = known {
            let is_gone = |entry: &Value| {
                mark(entry).is_some_and(|mark| !known.iter().any(|name| name.as_str() == mark.cluster))
            };
            let gone = list.iter().enumerate().filter(|(_, entry)| is_gone(entry));
            section.changed.extend(gone.map(|(at, _)| (at, None)));
        }
        section.changed.sort_by_key(|(at, _)| *at);
        Ok(section)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty()
    }

    /// The entry at this position afterwards, if it changes.
    pub(super) fn change(&self, at: usize) -> Option<&Option<Value>> {
        self.changed.iter().find(|(changed, _)| *changed == at).map(|(_, entry)| entry)
    }

    fn apply(&self, list: &[Value]) -> Vec<Value> {
        let kept = list.iter().enumerate().filter_map(|(at, entry)| match self.change(at) {
            Some(change) => change.clone(),
            None => Some(entry.clone()),
        });
        kept.chain(self.added.iter().cloned()).collect()
    }
}

/// The entry with the fields that are the plugin's. The namespace of a context, which kubectl and others set, and fields
/// that the plugin does not know stay.
fn updated(old: &Value, wish: &Value, kind: &str) -> Value {
    let ours: &[&str] = match kind {
        "cluster" => &CLUSTER_FIELDS,
        _ => &["cluster", "user"],
    };
    let mut entry = old.clone();
    let Some(fields) = entry.get_mut(kind).and_then(Value::as_object_mut) else { return wish.clone() };
    let wished = wish[kind].as_object();
    for field in ours {
        match wished.and_then(|wished| wished.get(*field)) {
            Some(value) => fields.insert((*field).to_owned(), value.clone()),
            None => fields.remove(*field),
        };
    }
    merge_extensions(fields, wished.and_then(|wished| wished.get("extensions")));
    entry
}

/// Sets the wished extensions and keeps the others.
fn merge_extensions(fields: &mut Map<String, Value>, wished: Option<&Value>) {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut extensions = list(fields.get("extensions"));
    for wish in list(wished) {
        match extensions.iter_mut().find(|extension| extension["name"] == wish["name"]) {
            Some(extension) => *extension = wish,
            None => extensions.push(wish),
        }
    }
    debug_assert!(extensions.iter().any(|extension| extension["name"] == context::EXTENSION));
    fields.insert("extensions".to_owned(), extensions.into());
}

/// What the host's cluster says of a member's: all but the extensions.
const CLUSTER_FIELDS: [&str; 7] = [
    "server",
    "insecure-skip-tls-verify",
    "certificate-authority",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
    "tls-server-name",
];
