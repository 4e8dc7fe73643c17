//! `--merge`: writes the entries of members into the user's kubeconfig. Only entries with the plugin's mark are changed or
//! removed. The rest of the file, its comments included, stays as it is byte for byte: the edit is one of text, and it is
//! written only if the edited text has exactly the wanted meaning.

mod file;
mod plan;
mod text;

use std::fmt;
use std::path::{Path, PathBuf};

use kubectl_mc_api::ClusterName;
use serde_json::Value;

use self::file::{FileError, LockedFile};
use self::plan::Plan;
use super::entries::{ForeignEntry, MemberEntry};
use crate::cache;
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::Explain;
use crate::exit::ExitStatus;

/// What a merge did.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Report {
    file: PathBuf,
    added: usize,
    updated: usize,
    removed: usize,
    /// The file's current context, if it was removed.
    current_removed: Option<String>,
}

/// Writes the entries into the file that holds the host's context. With `known`, the host's clusters, entries of others are
/// removed.
pub(super) fn run(
    host: &ClusterContext,
    entries: &[MemberEntry],
    known: Option<&[ClusterName]>,
    env: &Env,
) -> Result<Report, MergeError> {
    let path = target(host, env)?;
    let file = LockedFile::open(&path)?;
    let unsupported = |reason| MergeError::Unsupported { file: path.clone(), reason };
    let old = parse(file.text()).ok_or_else(|| unsupported("it is not one YAML document"))?;
    let plan = Plan::make(&old, host, entries, known);
    let plan = plan.map_err(|source| MergeError::Foreign { file: path.clone(), source })?;
    let report = plan.report(&path);
    if plan.is_empty() {
        return Ok(report);
    }
    let edited = text::edit(file.text(), &plan).ok_or_else(|| unsupported("its form is not kubectl's"))?;
    if parse(&edited).as_ref() != Some(&plan.wanted) {
        return Err(unsupported("its form is not kubectl's"));
    }
    file.replace(&edited)?;
    Ok(report)
}

/// The first file of the user's own that holds the host's context.
fn target(host: &ClusterContext, env: &Env) -> Result<PathBuf, MergeError> {
    let holds_host = |file: &Path| {
        let text = std::fs::read_to_string(file).ok()?;
        let contexts = parse(&text)?.get("contexts")?.as_array()?.clone();
        contexts.iter().any(|context| context["name"].as_str() == host.context.as_deref()).then_some(())
    };
    let mut own = host.files.iter().filter(|file| !cache::is_own_file(file, env));
    let found = own.find(|file| holds_host(file).is_some());
    found.cloned().ok_or_else(|| MergeError::NoFile { host: host.context_name() })
}

/// The document as a value; an empty file is an empty mapping.
fn parse(text: &str) -> Option<Value> {
    match serde_saphyr::from_str(text).ok()? {
        Value::Null => Some(Value::Object(serde_json::Map::new())),
        value @ Value::Object(_) => Some(value),
        _ => None,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, added, updated, removed, current_removed } = self;
        write!(
            f,
            "contexts of members in {}: {added} added, {updated} updated, {removed} removed",
            file.display()
        )?;
        match current_removed {
            Some(name) => write!(f, "; its current context {name:?} is gone"),
            None => Ok(()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum MergeError {
    #[error("no kubeconfig file holds {host}")]
    NoFile { host: String },
    #[error("cannot merge into {}", file.display())]
    Foreign { file: PathBuf, source: ForeignEntry },
    #[error("cannot merge into {}: {reason}, so an edit might lose parts of it", file.display())]
    Unsupported { file: PathBuf, reason: &'static str },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Explain for MergeError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoFile { .. } | Self::Unsupported { .. } => Some(
                "keep the contexts in a file of their own: kubectl mc kubeconfig > members.yaml; \
                 export KUBECONFIG=~/.kube/config:members.yaml"
                    .to_owned(),
            ),
            Self::Foreign { source, .. } => source.hint(),
            Self::File(error) => error.hint(),
        }
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self::Foreign { source, .. } => source.status(),
            Self::NoFile { .. } | Self::Unsupported { .. } => ExitStatus::Usage,
            Self::File(error) => error.status(),
        }
    }
}

#[cfg(test)]
mod tests;
