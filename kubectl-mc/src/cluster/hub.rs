//! Describes the hub of a host: kubectl-mc's own sidecar, or the hub of another project
//! ([`kubectl_mc_api::dialect`]).
//!
//! A hub that [`Host::find`](crate::cluster::host::Host::find) discovered is cached for an hour. A refusal that
//! casts doubt on a cached hub removes the entry, so that the next command asks the host again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::dialect::{Dialect, Segment};
use tokio::sync::watch;

use crate::cache::Cache;
use crate::cli::HubChoice;
use crate::env::Env;

/// How to list and reach the clusters of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hub {
    pub(crate) dialect: Dialect,
    origin: Origin,
    /// The server of the kubeconfig, which is the cache key of the hub.
    server: String,
    /// The path ids of clusters whose ids differ from their names. The list of clusters provides them, and all copies
    /// of this value share them.
    ids: Arc<watch::Sender<BTreeMap<ClusterName, Segment>>>,
}

/// How the hub was determined.
#[derive(Clone, Debug, Default)]
enum Origin {
    /// By a flag, a variable or the configuration, or because there is no choice.
    #[default]
    Given,
    /// Neither given nor cached, so the host must be queried.
    Assumed,
    /// By discovery in this command.
    Found,
    /// By discovery in an earlier command, which left an entry in this cache.
    Cached(Arc<Cache>),
}

impl Hub {
    /// The hub by the choice or the cache; without either, kubectl-mc's own is assumed.
    pub(crate) fn of(choice: &HubChoice, server: &str, env: &Env) -> Self {
        let (dialect, origin) = match choice {
            HubChoice::Is(dialect) => (dialect.clone(), Origin::Given),
            HubChoice::Auto => cached(server, env).unwrap_or((Dialect::Own, Origin::Assumed)),
        };
        Self { dialect, origin, server: server.to_owned(), ids: Arc::default() }
    }

    /// The hub that the host serves.
    pub(super) fn found(dialect: Dialect, server: &str) -> Self {
        Self { dialect, origin: Origin::Found, server: server.to_owned(), ids: Arc::default() }
    }

    /// The server of the kubeconfig, whatever the hub's paths are relative to.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Whether the user chose the hub.
    pub(crate) fn is_given(&self) -> bool {
        matches!(self.origin, Origin::Given)
    }

    /// Whether neither the user nor the cache determines the hub.
    pub(super) fn is_assumed(&self) -> bool {
        matches!(self.origin, Origin::Assumed)
    }

    /// Whether the hub belongs to another project.
    pub(crate) fn is_foreign(&self) -> bool {
        !self.dialect.is_own()
    }

    /// The path of a cluster's API below the host's server.
    pub(crate) fn root(&self, cluster: &ClusterName) -> String {
        let id = self.ids.borrow().get(cluster).cloned();
        self.dialect.root(&id.unwrap_or_else(|| cluster.into()))
    }

    /// Stores the ids from a list.
    pub(crate) fn learn(&self, listed: BTreeMap<ClusterName, Segment>) {
        if self.dialect.has_ids() {
            self.ids.send_modify(|ids| ids.extend(listed));
        }
    }

    /// Caches the hub. If the cache cannot be written, the next command asks again.
    pub(super) fn remember(&self, env: &Env, now: SystemTime) {
        if let Ok(cache) = Cache::open(env) {
            let _ = cache.store_named(KIND, &self.server, self.dialect.word().as_bytes(), now);
        }
    }

    /// Removes the cached hub of a host whose sidecar was installed or removed.
    pub(crate) fn forget(&self, env: &Env) {
        if let Some(cache) = Cache::existing(env) {
            cache.remove_named(KIND, &self.server);
        }
    }

    /// Removes a cached hub whose API the host seems to lack.
    pub(super) fn doubt(&self) {
        if let Origin::Cached(cache) = &self.origin {
            cache.remove_named(KIND, &self.server);
        }
    }
}

#[cfg(test)]
impl From<Dialect> for Hub {
    fn from(dialect: Dialect) -> Self {
        Self { dialect, ..Self::default() }
    }
}

/// The hub of a server that an earlier command found.
fn cached(server: &str, env: &Env) -> Option<(Dialect, Origin)> {
    let cache = Cache::existing(env)?;
    let (word, age) = cache.load_aged(KIND, server, SystemTime::now())?;
    let word = String::from_utf8(word).ok().filter(|_| age < LIFETIME)?;
    let dialect = [Dialect::Own].into_iter().chain(Dialect::HUBS).find(|hub| hub.word() == word)?;
    Some((dialect, Origin::Cached(Arc::new(cache))))
}

const KIND: &str = "hub";
/// After this time, a sidecar that was installed next to another hub is detected. `--hub=own`
/// detects it immediately.
const LIFETIME: Duration = Duration::from_secs(60 * 60);
