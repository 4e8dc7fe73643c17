//! Detects the hub of a host: kubectl-mc's own sidecar, or the hub of another project
//! ([`kubectl_mc_api::dialect`]).
//!
//! `--hub=auto` assumes kubectl-mc's own sidecar, without a request. If the host responds that it does not
//! serve that API, or refuses it, one discovery response (`/apis`) shows whether it serves the API of another
//! hub ([`Hub::find`]). The command then stops before any output with [`OtherHub`] and restarts
//! with that hub, which is cached for an hour.

pub(crate) mod find;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::dialect::{Dialect, OtherServer, Segment};
use tokio::sync::{OnceCell, watch};

use crate::cache::Cache;
use crate::cli::{FoundHub, HubChoice};
use crate::env::Env;
use crate::error::Explain;
use crate::log::Log;

/// How to list and reach the clusters of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hub {
    pub(crate) dialect: Dialect,
    pub(crate) origin: Origin,
    /// The server of the kubeconfig, which is the cache key of the hub.
    server: String,
    /// What the command has learned from the host. All copies of this value share it.
    learned: Arc<Learned>,
}

#[derive(Debug, Default)]
struct Learned {
    /// The path ids of clusters whose ids differ from their names. The list of clusters provides them.
    ids: watch::Sender<BTreeMap<ClusterName, Segment>>,
    /// The hub of another project; `None` if there is none.
    found: OnceCell<Option<Dialect>>,
}

/// How the kind of hub was determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// By a flag, a variable or the configuration, or because there is no choice.
    #[default]
    Given,
    /// By discovery.
    Found,
    /// Assumed to be kubectl-mc's own until the host shows otherwise.
    Assumed,
}

impl Hub {
    /// The hub of a host with this server, and the server that its paths are relative to.
    pub(crate) fn of(choice: &HubChoice, server: &str, env: &Env) -> Result<(Self, String), OtherServer> {
        let (dialect, origin) = match choice {
            HubChoice::Is(dialect) => (dialect.clone(), Origin::Given),
            HubChoice::Found(found) if found.server == server => (found.dialect.clone(), Origin::Found),
            HubChoice::Auto | HubChoice::Found(_) => match known(server, env) {
                Some(dialect) => (dialect, Origin::Found),
                None => (Dialect::Own, Origin::Assumed),
            },
        };
        let base = dialect.base(server)?.to_owned();
        if !dialect.is_own() {
            let by = if origin == Origin::Given { "choice" } else { "discovery" };
            Log::new(env).decision("Use hub", &[("hub", &dialect), ("by", &by)]);
        }
        Ok((Self { dialect, origin, server: server.to_owned(), learned: Arc::default() }, base))
    }

    /// Whether the hub belongs to another project.
    pub(crate) fn is_foreign(&self) -> bool {
        !self.dialect.is_own()
    }

    /// The path of a cluster's API below the host's server.
    pub(crate) fn root(&self, cluster: &ClusterName) -> String {
        let id = self.learned.ids.borrow().get(cluster).cloned();
        self.dialect.root(&id.unwrap_or_else(|| cluster.into()))
    }

    /// Stores the ids from a list.
    pub(crate) fn learn(&self, listed: BTreeMap<ClusterName, Segment>) {
        if self.dialect.has_ids() {
            self.learned.ids.send_modify(|ids| ids.extend(listed));
        }
    }

    /// The other hub, if [`Self::find`] has found one.
    pub(crate) fn found(&self) -> Option<OtherHub> {
        let dialect = self.learned.found.get()?.clone()?;
        Some(OtherHub(FoundHub { server: self.server.clone(), dialect }))
    }
}

#[cfg(test)]
impl From<Dialect> for Hub {
    fn from(dialect: Dialect) -> Self {
        Self { dialect, ..Self::default() }
    }
}

/// Caches the found hub. If the cache cannot be written, the next command looks again.
pub(crate) fn remember(FoundHub { server, dialect }: &FoundHub, env: &Env) {
    if let Ok(cache) = Cache::open(env) {
        let _ = cache.store_named(KIND, server, dialect.word().as_bytes(), SystemTime::now());
    }
}

/// The hub of a server that an earlier command found.
fn known(server: &str, env: &Env) -> Option<Dialect> {
    let (word, age) = Cache::existing(env)?.load_aged(KIND, server, SystemTime::now())?;
    let word = String::from_utf8(word).ok().filter(|_| age < LIFETIME)?;
    Dialect::HUBS.into_iter().find(|hub| hub.word() == word)
}

/// Stops a command that assumed kubectl-mc's own sidecar. The command restarts, so this error is
/// not printed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the host is a hub of {}", .0.dialect.title())]
pub(crate) struct OtherHub(pub(crate) FoundHub);

impl Explain for OtherHub {
    fn found_hub(&self) -> Option<&FoundHub> {
        Some(&self.0)
    }
}

const KIND: &str = "hub";
/// After this time, a sidecar that was installed next to another hub is detected. `--hub=own`
/// detects it immediately.
const LIFETIME: Duration = Duration::from_secs(60 * 60);
