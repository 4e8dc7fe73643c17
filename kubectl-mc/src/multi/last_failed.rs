//! Remembers the clusters on which the last command failed, for `--retry-failed`, together with their host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kubectl_mc_api::ClusterName;
use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::cluster::context::ClusterContext;
use crate::error::Explain;
use crate::exit::ExitStatus;

#[derive(Debug, Serialize, Deserialize)]
struct Remembered {
    server: String,
    clusters: Vec<ClusterName>,
}

/// Remembers the failed clusters. Without any there is nothing left to retry.
pub(super) fn remember(private: &Path, host: &ClusterContext, outcomes: &[Outcome]) -> io::Result<()> {
    let failed =
        outcomes.iter().filter(|outcome| outcome.result.as_ref().is_err_and(super::Fault::is_failure));
    let clusters: Vec<_> = failed.map(|outcome| outcome.cluster.clone()).collect();
    if clusters.is_empty() {
        return match fs::remove_file(path(private)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
    }
    let remembered = Remembered { server: host.server.clone(), clusters };
    // Half a file is never read: it takes its name at once.
    let temporary = path(private).with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&temporary, serde_json::to_vec(&remembered)?)?;
    fs::rename(&temporary, path(private))
}

/// The clusters that failed last time.
pub(crate) fn recall(private: &Path, host: &ClusterContext) -> Result<Vec<ClusterName>, NothingToRetry> {
    let remembered = fs::read(path(private)).ok().and_then(|text| serde_json::from_slice(&text).ok());
    match remembered {
        None => Err(NothingToRetry::None),
        Some(Remembered { server, .. }) if server != host.server => Err(NothingToRetry::OtherHost { server }),
        Some(Remembered { clusters, .. }) => Ok(clusters),
    }
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
