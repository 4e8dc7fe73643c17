//! Determines which entries of a kubeconfig change.

use kubectl_mc_api::ClusterName;
use serde_json::{Map, Value};

use super::Report;
use crate::cluster::context::{self, ClusterContext};
use crate::error::Failure;
use crate::kubeconfig::edit::{Section, UserFile, list};
use crate::kubeconfig::entries::{Mark, MemberEntry, foreign};

/// The changes of a file.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) sections: [Section; 2],
}

impl Plan {
    pub(super) fn make(
        old: &Value,
        host: &ClusterContext,
        entries: &[MemberEntry],
        known: Option<&[ClusterName]>,
    ) -> Result<Self, Failure> {
        let section = |key, kind, entry: fn(&MemberEntry) -> &Value| {
            let wishes = entries.iter().map(|member| (member.name.as_str(), entry(member)));
            section(Section::of(old, key), kind, list(old, key), host, wishes, known)
        };
        let sections = [
            section("clusters", "cluster", |entry| &entry.cluster)?,
            section("contexts", "context", |entry| &entry.context)?,
        ];
        Ok(Self { sections })
    }

    /// Counts contexts. A context counts as updated if only its cluster changes.
    pub(super) fn report(&self, file: &UserFile) -> Report {
        let [clusters, contexts] = &self.sections;
        let count = |section: &Section, is_removed: bool| {
            section.changed.iter().filter(|(_, entry)| entry.is_none() == is_removed).count()
        };
        let wanted = file.wanted(&self.sections);
        let current = wanted.get("current-context").and_then(Value::as_str).unwrap_or_default();
        let removed = count(contexts, true);
        let is_there = list(&wanted, "contexts").iter().any(|context| context["name"] == current);
        Report {
            file: file.path().to_owned(),
            added: contexts.added.len(),
            updated: count(contexts, false).max(count(clusters, false)),
            removed,
            current_removed: (removed > 0 && !current.is_empty() && !is_there).then(|| current.to_owned()),
        }
    }
}

/// The changes of one list for the wanted entries.
fn section<'a>(
    mut section: Section,
    kind: &'static str,
    list: &[Value],
    host: &ClusterContext,
    wishes: impl Iterator<Item = (&'a str, &'a Value)>,
    known: Option<&[ClusterName]>,
) -> Result<Section, Failure> {
    let mark = |entry: &Value| Mark::find(&entry[kind]).filter(|mark| mark.is_of(host));
    for (name, wish) in wishes {
        match list.iter().position(|entry| entry["name"] == name) {
            None => section.added.push(wish.clone()),
            Some(at) if mark(&list[at]).is_none() => {
                return Err(foreign(kind, name));
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

/// Updates the plugin's fields of an entry. A context's namespace, which kubectl and other tools set, and
/// unknown fields stay.
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

/// Sets the wanted extensions and keeps the others.
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

/// The fields that a member's cluster copies from the host's: all except the extensions.
const CLUSTER_FIELDS: [&str; 7] = [
    "server",
    "insecure-skip-tls-verify",
    "certificate-authority",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
    "tls-server-name",
];
