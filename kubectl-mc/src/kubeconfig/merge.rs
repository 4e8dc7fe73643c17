//! Implements `--merge`: writes the entries of members into the user's kubeconfig. Only entries with the
//! plugin's mark are changed or removed.

mod plan;

use std::fmt;
use std::path::PathBuf;

use kubectl_mc_api::ClusterName;

use self::plan::Plan;
use super::edit::{EditError, UserFile};
use super::entries::{ForeignEntry, MemberEntry};
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::Explain;
use crate::exit::ExitStatus;

/// The result of a merge.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Report {
    file: PathBuf,
    added: usize,
    updated: usize,
    removed: usize,
    /// The file's current context, if it was removed.
    current_removed: Option<String>,
}

/// Writes the entries into the file that contains the host's context. If `known` lists the host's clusters,
/// the entries of other clusters are removed.
pub(super) fn run(
    host: &ClusterContext,
    entries: &[MemberEntry],
    known: Option<&[ClusterName]>,
    env: &Env,
) -> Result<Report, MergeError> {
    let file = UserFile::open(host, env)?;
    let plan = Plan::make(file.content(), host, entries, known)
        .map_err(|source| MergeError::Foreign { file: file.path().to_owned(), source })?;
    file.write(&plan.sections)?;
    Ok(plan.report(&file))
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
    #[error("cannot merge into {}", file.display())]
    Foreign { file: PathBuf, source: ForeignEntry },
    #[error(transparent)]
    Edit(#[from] EditError),
}

impl Explain for MergeError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Edit(EditError::NoFile { .. } | EditError::Unsupported { .. }) => Some(
                "keep the contexts in a file of their own: kubectl mc kubeconfig > members.yaml; \
                 export KUBECONFIG=~/.kube/config:members.yaml"
                    .to_owned(),
            ),
            Self::Foreign { source, .. } => source.hint(),
            Self::Edit(error) => error.hint(),
        }
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self::Foreign { source, .. } => source.status(),
            Self::Edit(error) => error.status(),
        }
    }
}

#[cfg(test)]
mod tests;
