//! Asks a host for its hub.

use std::time::SystemTime;

use kubectl_mc_api::dialect::Dialect;

use super::{Hub, KIND, Origin, OtherHub};
use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cluster::client::{self, ClientError};
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::{CommandLine, Failure, Hint};

impl Hub {
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

    /// The same with its own client.
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

/// Removes the cached hub of this host after its own sidecar was installed.
pub(crate) fn forget(host: &ClusterContext, env: &Env) {
    let server = &host.hub.server;
    if let Some(cache) = Cache::existing(env)
        && cache.load_aged(KIND, server, SystemTime::now()).is_some()
    {
        let _ = cache.store_named(KIND, server, b"own", SystemTime::now());
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
