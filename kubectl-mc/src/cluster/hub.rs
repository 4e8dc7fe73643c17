//! Detects the hub of a host: kubectl-mc's own sidecar, or the hub of another project
//! ([`kubectl_mc_api::dialect`]).
//!
//! `--hub=auto` assumes kubectl-mc's own sidecar, without a request. If the host responds that it does not
//! serve that API, or refuses it, one discovery response (`/apis`) shows whether it serves the API of another
//! hub ([`Hub::find`]). The command then stops before any output with [`OtherHub`] and begins again with that hub,
//! which is cached for an hour.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::dialect::{Dialect, OtherServer, Segment};
use tokio::sync::{OnceCell, watch};

use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cli::{FoundHub, HubChoice};
use crate::cluster::client::{self, ClientError};
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::{CommandLine, Explain, Failure, Hint};
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
    /// Assumed to be kubectl-mc's own until the host denies that.
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

    /// Looks for another hub after the host responded that it does not serve kubectl-mc's API, or not to this
    /// caller. Asks the host at most once.
    pub(crate) async fn find(&self, client: &kube::Client) -> Option<OtherHub> {
        if self.origin != Origin::Assumed {
            return None;
        }
        let found = self.learned.found.get_or_init(|| async {
            let reply = client::get_by(client, "/apis", "application/json").await.ok()?;
            let list = reply.json();
            let groups = list["groups"].as_array().into_iter().flatten();
            Dialect::found_in(groups.filter_map(|group| group["name"].as_str()), &self.server)
        });
        found.await;
        self.found()
    }

    /// The other hub, if [`Self::find`] has found one.
    pub(crate) fn found(&self) -> Option<OtherHub> {
        let dialect = self.learned.found.get()?.clone()?;
        Some(OtherHub(FoundHub { server: self.server.clone(), dialect }))
    }

    /// The same with a client of its own.
    pub(crate) fn find_at(host: &ClusterContext, scanned: &Scanned, env: &Env) -> Option<OtherHub> {
        if host.hub.origin != Origin::Assumed {
            return None;
        }
        let asked = async {
            let client = client::connection(host, scanned, env).await?;
            Ok::<_, ClientError>(host.hub.find(&client).await)
        };
        client::runtime().ok()?.block_on(asked).ok()?
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

/// Removes the cached hub of this host after its own sidecar was installed.
pub(crate) fn forget(host: &ClusterContext, env: &Env) {
    let server = &host.hub.server;
    if let Some(cache) = Cache::existing(env)
        && cache.load_aged(KIND, server, SystemTime::now()).is_some()
    {
        let _ = cache.store_named(KIND, server, b"own", SystemTime::now());
    }
}

/// The hub of a server that an earlier command found.
fn known(server: &str, env: &Env) -> Option<Dialect> {
    let (word, age) = Cache::existing(env)?.load_aged(KIND, server, SystemTime::now())?;
    let word = String::from_utf8(word).ok().filter(|_| age < LIFETIME)?;
    Dialect::HUBS.into_iter().find(|hub| hub.word() == word)
}

/// Stops a command that assumed kubectl-mc's own sidecar. The command begins again, so this error is not printed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the host is a hub of {}", .0.dialect.title())]
pub(crate) struct OtherHub(pub(crate) FoundHub);

impl Explain for OtherHub {
    fn found_hub(&self) -> Option<&FoundHub> {
        Some(&self.0)
    }
}

/// The failure of a verb that the hub of another project lacks.
pub(crate) fn needs_sidecar(verb: &str, host: &ClusterContext) -> Failure {
    let (name, title) = (host.context_name(), host.hub.dialect.title());
    Failure::usage(format!("`{verb}` needs kubectl-mc's own sidecar, and {name} has the hub of {title}"))
        .with_hint(Hint::from("where the sidecar is installed beside it, choose it by --hub=own").and(
            CommandLine::new(format!("{} install --hub=own", host.kubectl_mc_file())).that("installs it"),
        ))
}

const KIND: &str = "hub";
/// After this time, a sidecar that was installed beside another hub is detected. `--hub=own` detects it
/// immediately.
const LIFETIME: Duration = Duration::from_secs(60 * 60);
