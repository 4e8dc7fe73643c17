//! Implements `--merge`: writes the entries of members into the user's kubeconfig. Only entries with the
//! plugin's mark are changed or removed.

mod plan;

use std::fmt;
use std::path::PathBuf;

use kubectl_mc_api::ClusterName;

use self::plan::Plan;
use super::edit::{EditError, UserFile};
use super::entries::MemberEntry;
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::{Context, Failure, mc};

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
) -> Result<Report, Failure> {
    let file = UserFile::open(host, env).map_err(not_edited)?;
    let plan = Plan::make(file.content(), host, entries, known)
        .context(|| format!("cannot merge into {}", file.path().display()))?;
    file.write(&plan.sections).map_err(not_edited)?;
    Ok(plan.report(&file))
}

fn not_edited(error: EditError) -> Failure {
    let is_file = matches!(error, EditError::File(_));
    let failure = Failure::from(error);
    match is_file {
        true => failure,
        false => failure.with_hint(
            mc("kubeconfig > members.yaml")
                .after("keep the contexts in a file of their own")
                .and("export KUBECONFIG=~/.kube/config:members.yaml"),
        ),
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

#[cfg(test)]
mod tests;
