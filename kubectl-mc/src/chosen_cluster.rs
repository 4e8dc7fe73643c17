//! Stores the cluster that `kubectl mc use` sets for a kubeconfig context, in the user's state folder
//! (`$XDG_STATE_HOME/kubectl-mc/use.json`, else `~/.local/state/kubectl-mc/use.json`). A context of the same
//! name with another server counts as another host.

use std::io;
use std::path::PathBuf;

use kubectl_mc_api::ClusterName;
use serde::{Deserialize, Serialize};

use crate::cache::{self, CacheError};
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::Explain;
use crate::log::without_credential;

/// The choice for one context.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChosenCluster {
    context: String,
    server: String,
    /// The current cluster; `None` after `--unset`.
    pub(crate) cluster: Option<ClusterName>,
    /// The previous cluster.
    pub(crate) previous: Option<ClusterName>,
}

impl ChosenCluster {
    /// Loads the choice for the context; empty by default.
    pub(crate) fn load(host: &ClusterContext, env: &Env) -> Result<Self, ChosenClusterError> {
        let own = Self::of(host);
        let all = load_all(env)?;
        Ok(all.into_iter().find(|one| one.is_for(&own)).unwrap_or(own))
    }

    /// Sets or unsets the cluster, and stores the previous one.
    pub(crate) fn choose(self, cluster: Option<ClusterName>, env: &Env) -> Result<(), ChosenClusterError> {
        let mut all = load_all(env)?;
        all.retain(|one| !one.is_for(&self));
        let previous = if self.cluster == cluster { self.previous } else { self.cluster.or(self.previous) };
        all.push(Self { cluster, previous, ..self });
        let folder = cache::state_folder(env)?;
        let file = folder.join(FILE);
        let temporary = folder.join(format!("{FILE}.{}.tmp", std::process::id()));
        let written = serde_json::to_vec_pretty(&all)
            .map_err(io::Error::other)
            .and_then(|text| std::fs::write(&temporary, text))
            .and_then(|()| std::fs::rename(&temporary, &file));
        written.map_err(|source| ChosenClusterError::Write { file, source })
    }

    fn of(host: &ClusterContext) -> Self {
        let context = host.context.clone().unwrap_or_default();
        Self { context, server: without_credential(&host.server), ..Self::default() }
    }

    fn is_for(&self, other: &Self) -> bool {
        (&self.context, &self.server) == (&other.context, &other.server)
    }
}

fn load_all(env: &Env) -> Result<Vec<ChosenCluster>, ChosenClusterError> {
    let Some(folder) = cache::existing_state_folder(env)? else { return Ok(Vec::new()) };
    let file = folder.join(FILE);
    let text = match std::fs::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|source| ChosenClusterError::Read { file: file.clone(), source })?,
    };
    serde_json::from_slice(&text).map_err(|source| ChosenClusterError::Parse { file, source })
}

const FILE: &str = "use.json";

#[derive(Debug, thiserror::Error)]
pub(crate) enum ChosenClusterError {
    #[error(transparent)]
    Folder(#[from] CacheError),
    #[error("cannot read the chosen cluster from {}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot read the chosen cluster from {}", file.display())]
    Parse { file: PathBuf, source: serde_json::Error },
    #[error("cannot write the chosen cluster to {}", file.display())]
    Write { file: PathBuf, source: io::Error },
}

impl Explain for ChosenClusterError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Folder(error) => error.hint(),
            Self::Parse { file, .. } => Some(format!("remove {}, then choose again", file.display())),
            Self::Read { .. } | Self::Write { .. } => Some("choose by -C NAME".to_owned()),
        }
    }
}
