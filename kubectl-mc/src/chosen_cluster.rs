//! Stores the cluster that `kubectl mc use` sets for a kubeconfig context, in the user's state folder
//! (`$XDG_STATE_HOME/kubectl-mc/use.json`, else `~/.local/state/kubectl-mc/use.json`). A context of the same
//! name with another server counts as another host.

use std::io;

use kubectl_mc_api::ClusterName;
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::{Context, Failure};
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
    pub(crate) fn load(host: &ClusterContext, env: &Env) -> Result<Self, Failure> {
        let own = Self::of(host);
        let all = load_all(env)?;
        Ok(all.into_iter().find(|one| one.is_for(&own)).unwrap_or(own))
    }

    /// Sets or unsets the cluster, and stores the previous one.
    pub(crate) fn choose(self, cluster: Option<ClusterName>, env: &Env) -> Result<(), Failure> {
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
        let failed = || format!("cannot write the chosen cluster to {}", file.display());
        written.context(failed).map_err(|failure| failure.with_hint("choose by -C NAME"))
    }

    fn of(host: &ClusterContext) -> Self {
        let context = host.context.clone().unwrap_or_default();
        Self { context, server: without_credential(host.hub.server()), ..Self::default() }
    }

    fn is_for(&self, other: &Self) -> bool {
        (&self.context, &self.server) == (&other.context, &other.server)
    }
}

fn load_all(env: &Env) -> Result<Vec<ChosenCluster>, Failure> {
    let Some(folder) = cache::existing_state_folder(env)? else { return Ok(Vec::new()) };
    let file = folder.join(FILE);
    let failed = || format!("cannot read the chosen cluster from {}", file.display());
    let text = match std::fs::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.context(failed).map_err(|failure| failure.with_hint("choose by -C NAME"))?,
    };
    let again = format!("remove {}, then choose again", file.display());
    serde_json::from_slice(&text).context(failed).map_err(|failure| failure.with_hint(again))
}

const FILE: &str = "use.json";
