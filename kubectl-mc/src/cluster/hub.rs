//! The hub of a host: kubectl-mc's own sidecar, or the hub of another project ([`kubectl_mc_api::dialect`]).
//!
//! With `--hub=auto` the host is taken for one with the own sidecar, and that costs no request. Only when the host answers
//! that it serves no such API, or refuses it, one discovery answer (`/apis`) shows whether it serves that of another hub ([`Hub::find`]).
//! The command then ends before any output, and is begun again with that hub, which is remembered for an hour.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::dialect::{Dialect, OtherServer, Segment};
use tokio::sync::{OnceCell, watch};

use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cli::HubChoice;
use crate::cluster::client::{self, ClientError};
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::Explain;
use crate::exit::ExitStatus;
use crate::log::Log;

/// How the clusters of a host are listed and reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hub {
    pub(crate) dialect: Dialect,
    pub(crate) origin: Origin,
    /// The server of the kubeconfig, by which the hub is remembered.
    server: String,
}

/// How the kind of hub is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// By a flag, a variable or the configuration; or there is no choice.
    #[default]
    Given,
    /// By discovery.
    Found,
    /// It is the own one until the host denies that.
    Assumed,
}

impl Hub {
    /// The hub of a host with this server, and the server below which its paths are.
    pub(crate) fn of(choice: &HubChoice, server: &str, env: &Env) -> Result<(Self, String), OtherServer> {
        let (dialect, origin) = match choice {
            HubChoice::Is(dialect) => (dialect.clone(), Origin::Given),
            HubChoice::Auto => match known(server, env) {
                Some(dialect) => (dialect, Origin::Found),
                None => (Dialect::Own, Origin::Assumed),
            },
        };
        let base = dialect.base(server)?.to_owned();
        if !dialect.is_own() {
            let by = if origin == Origin::Given { "choice" } else { "discovery" };
            Log::new(env).decision("Use hub", &[("hub", &dialect), ("by", &by)]);
        }
        Ok((Self { dialect, origin, server: server.to_owned() }, base))
    }

    /// Another project's.
    pub(crate) fn is_foreign(&self) -> bool {
        !self.dialect.is_own()
    }

    /// The path of a cluster's API below the host's server.
    pub(crate) fn root(&self, cluster: &ClusterName) -> String {
        let id = self.dialect.has_ids().then(|| IDS.borrow().get(cluster).cloned()).flatten();
        self.dialect.root(&id.unwrap_or_else(|| cluster.into()))
    }

    /// Takes the ids of a list.
    pub(crate) fn learn(&self, listed: BTreeMap<ClusterName, Segment>) {
        if self.dialect.has_ids() {
            IDS.send_modify(|ids| ids.extend(listed));
        }
    }

    /// After the host's answer that it does not serve the own API, or not to this caller: looks for that of another hub, once in a process.
    pub(crate) async fn find(&self, client: &kube::Client) -> Option<OtherHub> {
        if self.origin != Origin::Assumed {
            return None;
        }
        let found = FOUND.get_or_init(|| async {
            let reply = client::get_by(client, "/apis", "application/json").await.ok()?;
            let list = reply.json();
            let groups = list["groups"].as_array().into_iter().flatten();
            let groups = groups.filter_map(|group| group["name"].as_str());
            let dialect = Dialect::found_in(groups, &self.server)?;
            Some(Found { server: self.server.clone(), dialect })
        });
        let found = found.await.as_ref().filter(|found| found.server == self.server)?;
        Some(OtherHub { title: found.dialect.title() })
    }

    /// The same by a client of its own.
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

/// The hub that was found by this process, if one was: the command is worth a second run.
pub(crate) fn found() -> Option<&'static Dialect> {
    FOUND.get()?.as_ref().map(|found| &found.dialect)
}

/// Remembers what was found. Without a cache the next command looks again.
pub(crate) fn remember(env: &Env) {
    if let (Some(Some(found)), Ok(cache)) = (FOUND.get(), Cache::open(env)) {
        let _ = cache.store_named(KIND, &found.server, found.dialect.word().as_bytes(), SystemTime::now());
    }
}

/// Forgets what was found for this host, whose own sidecar was just installed.
pub(crate) fn forget(host: &ClusterContext, env: &Env) {
    let server = &host.hub.server;
    if let Some(cache) = Cache::existing(env)
        && cache.load_aged(KIND, server, SystemTime::now()).is_some()
    {
        let _ = cache.store_named(KIND, server, b"own", SystemTime::now());
    }
}

/// The hub of a server as this process or one before it has found it.
fn known(server: &str, env: &Env) -> Option<Dialect> {
    if let Some(Some(found)) = FOUND.get()
        && found.server == server
    {
        return Some(found.dialect.clone());
    }
    let (word, age) = Cache::existing(env)?.load_aged(KIND, server, SystemTime::now())?;
    let word = String::from_utf8(word).ok().filter(|_| age < LIFETIME)?;
    Dialect::HUBS.into_iter().find(|hub| hub.word() == word)
}

#[derive(Debug)]
struct Found {
    server: String,
    dialect: Dialect,
}

/// A command has one host, so one answer does for all its requests. None: nothing was found.
static FOUND: OnceCell<Option<Found>> = OnceCell::const_new();

/// The ids in the paths, of clusters that have another name. The list of the clusters gives them.
static IDS: LazyLock<watch::Sender<BTreeMap<ClusterName, Segment>>> = LazyLock::new(watch::Sender::default);

/// Ends a command that took the host for one with the own sidecar. It is begun again, so this is not shown.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the host is a hub of {title}")]
pub(crate) struct OtherHub {
    title: &'static str,
}

impl Explain for OtherHub {}

/// What the hub of another project cannot do.
#[derive(Debug, thiserror::Error)]
#[error("`{verb}` needs kubectl-mc's own sidecar, and {host} has the hub of {title}")]
pub(crate) struct NeedsSidecar {
    verb: &'static str,
    host: String,
    title: &'static str,
    install: String,
}

impl NeedsSidecar {
    pub(crate) fn new(verb: &'static str, host: &ClusterContext) -> Self {
        let host_name = host.context_name();
        Self { verb, host: host_name, title: host.hub.dialect.title(), install: host.kubectl_mc_file() }
    }
}

impl Explain for NeedsSidecar {
    fn hint(&self) -> Option<String> {
        Some(format!(
            "where the sidecar is installed beside it, choose it by --hub=own; `{} install --hub=own` installs it",
            self.install
        ))
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

const KIND: &str = "hub";
/// A sidecar that is installed beside another hub is noticed after this time, and at once by `--hub=own`.
const LIFETIME: Duration = Duration::from_secs(60 * 60);
