//! Remembers the clusters on which the last command failed, for `--retry-failed`, together with their host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kubectl_mc_api::ClusterName;
use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::ClusterContext;
use crate::cluster::reach::Reach;
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;
use crate::multi::selection::Choice;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Remembered {
    /// The server of the host; empty if no cluster is a member.
    server: String,
    clusters: Vec<ClusterName>,
    #[serde(default)]
    contexts: Vec<String>,
}

/// Stores the failed clusters. Without failures, nothing is left to retry.
pub(super) fn remember(private: &Path, reach: &Reach, outcomes: &[Outcome]) -> io::Result<()> {
    let mut remembered = Remembered::default();
    for outcome in outcomes {
        if outcome.result.as_ref().is_err_and(super::Fault::is_failure) {
            match &outcome.cluster {
                ClusterId::Member(name) => remembered.clusters.push(name.clone()),
                ClusterId::Context(context) => remembered.contexts.push(context.raw_name().to_owned()),
            }
        }
    }
    if remembered.clusters.is_empty() && remembered.contexts.is_empty() {
        return forget(private);
    }
    if let Some(host) = reach.host.as_ref().filter(|_| !remembered.clusters.is_empty()) {
        remembered.server.clone_from(&host.host.server);
    }
    // The rename is atomic, so readers never see a partial file.
    let temporary = path(private).with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&temporary, serde_json::to_vec(&remembered)?)?;
    fs::rename(&temporary, path(private))
}

/// Removes the clusters of an earlier command.
pub(super) fn forget(private: &Path) -> io::Result<()> {
    match fs::remove_file(path(private)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The clusters that failed in the last command. Uses `host` if there are members among them.
pub(crate) fn recall<'a>(
    private: &Path,
    host: impl FnOnce() -> Result<&'a ClusterContext, Failure>,
) -> Result<Choice, Failure> {
    let remembered = fs::read(path(private)).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let Some(Remembered { server, clusters, contexts }) = remembered else {
        return Err(NothingToRetry::None.into());
    };
    if !clusters.is_empty() && host()?.server != server {
        return Err(NothingToRetry::OtherHost { server }.into());
    }
    Ok(Choice::remembered(clusters, contexts))
}

fn path(private: &Path) -> PathBuf {
    private.join("last-failed.json")
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum NothingToRetry {
    #[error("no cluster failed last time")]
    None,
    #[error("the clusters of the last failure belong to another host: {server}")]
    OtherHost { server: String },
}

impl Explain for NothingToRetry {
    fn status(&self) -> ExitStatus {
        ExitStatus::NoSuchCluster
    }
}
