//! Finds the entries of `KUBECONFIG` that no context can use: if two files have an entry with the
//! same name, client-go uses the first.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::error::HostError;
use super::load;
use super::options::HostOptions;
use crate::env::Env;

/// An entry that is hidden by an entry with different content in an earlier file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Collision {
    kind: &'static str,
    name: String,
    /// The file whose entry is used.
    pub(crate) used: PathBuf,
    pub(crate) hidden: PathBuf,
    /// The contexts of the later file that use the entry of the first one.
    contexts: Vec<String>,
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, used, hidden, contexts } = self;
        let (used, hidden) = (used.display(), hidden.display());
        write!(f, "{kind} {name:?} of {hidden} is hidden by the one of {used}")?;
        match contexts.as_slice() {
            [] => Ok(()),
            [context] => write!(f, ", which context {context:?} uses"),
            contexts => write!(f, ", which {} contexts of {hidden} use", contexts.len()),
        }
    }
}

/// The hidden entries of the files, in the order of the files. Entries with equal content are not
/// collisions.
pub(crate) fn collisions(options: &HostOptions, env: &Env) -> Result<Vec<Collision>, HostError> {
    let files = match options.kubeconfig_dirs.is_empty() {
        true => load::files(options, env),
        false => Vec::new(),
    };
    let (mut first, mut found) = (HashMap::new(), Vec::new());
    for file in &files {
        let kubeconfig = load::merged(std::slice::from_ref(file), false)?;
        let users = kubeconfig.auth_infos.iter().map(|entry| ("user", &entry.name, json(&entry.auth_info)));
        let clusters = kubeconfig.clusters.iter().map(|entry| ("cluster", &entry.name, json(&entry.cluster)));
        let contexts = kubeconfig.contexts.iter().map(|entry| ("context", &entry.name, json(&entry.context)));
        for (kind, name, content) in clusters.chain(users).chain(contexts) {
            let (used, known): &(PathBuf, Value) =
                first.entry((kind, name.clone())).or_insert_with(|| (file.clone(), content.clone()));
            if *known == content {
                continue;
            }
            let names = |context: &&kube::config::NamedContext| {
                context.context.as_ref().is_some_and(|context| match kind {
                    "user" => context.user.as_ref() == Some(name),
                    "cluster" => context.cluster == *name,
                    _ => false,
                })
            };
            let contexts = kubeconfig.contexts.iter().filter(names).map(|context| context.name.clone());
            let (name, used, hidden) = (name.clone(), used.clone(), file.clone());
            found.push(Collision { kind, name, used, hidden, contexts: contexts.collect() });
        }
    }
    Ok(found)
}

/// The files with collisions, for the flag that keeps them separate.
pub(crate) fn kept_apart(collisions: &[Collision]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for file in collisions.iter().flat_map(|collision| [&collision.used, &collision.hidden]) {
        if !files.contains(file) {
            files.push(file.clone());
        }
    }
    files
}

fn json(entry: &impl Serialize) -> Value {
    serde_json::to_value(entry).unwrap_or_default()
}
