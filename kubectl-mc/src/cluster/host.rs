//! Finds the host of a command once: its context, its hub and the caller's credential.
//!
//! `--hub=auto` takes the hub from the cache. Without an entry, one discovery response (`/apis`) shows whose API
//! the host serves, before the command sends any other request. So a command knows the paths of its members from
//! the start, and never runs twice.

use std::cell::OnceCell;
use std::time::{Duration, SystemTime};

use kubectl_mc_api::dialect::Dialect;

use crate::argv::Scanned;
use crate::cluster::client::{self, ClientError};
use crate::cluster::context::{ClusterContext, HostError, HostOptions};
use crate::cluster::credential::obtain_once;
use crate::cluster::hub::Hub;
use crate::env::Env;
use crate::error::{CommandLine, Failure, Hint};

/// The host, with the caller's credential, which is obtained on first use.
pub(crate) struct Host<'a> {
    context: ClusterContext,
    /// The context with the credential of a plugin.
    obtained: OnceCell<ClusterContext>,
    pub(crate) scanned: &'a Scanned,
    pub(crate) env: &'a Env,
}

impl<'a> Host<'a> {
    /// Finds the host, and queries its hub if neither the user nor the cache determines it.
    pub(crate) fn find(options: &HostOptions, scanned: &'a Scanned, env: &'a Env) -> Result<Self, HostError> {
        Self::new(ClusterContext::load_for(scanned, options, env)?, scanned, env).with_served_hub()
    }

    fn new(context: ClusterContext, scanned: &'a Scanned, env: &'a Env) -> Self {
        Self { context, obtained: OnceCell::new(), scanned, env }
    }

    /// The host with the hub that it serves, if the hub is neither given nor cached.
    fn with_served_hub(mut self) -> Result<Self, HostError> {
        if self.context.hub.is_assumed()
            && let Some(dialect) = self.served_hub()
        {
            let hub = Hub::found(dialect, &self.context.server);
            hub.remember(self.env, SystemTime::now());
            let contexts = [Some(&mut self.context), self.obtained.get_mut()];
            contexts.into_iter().flatten().try_for_each(|context| context.set_hub(hub.clone()))?;
        }
        Ok(self)
    }

    /// The host's context before the login.
    pub(crate) fn context(&self) -> &ClusterContext {
        &self.context
    }

    /// The host's context with the caller's credential.
    pub(crate) fn login(&self) -> Result<&ClusterContext, ClientError> {
        if let Some(context) = self.obtained.get() {
            return Ok(context);
        }
        let context = obtain_once(self.context.clone(), self.scanned, self.env)?;
        Ok(self.obtained.get_or_init(|| context))
    }

    /// The context before the login.
    pub(crate) fn into_context(self) -> ClusterContext {
        self.context
    }

    /// The context, with the credential if it was obtained.
    pub(crate) fn into_login(self) -> ClusterContext {
        self.obtained.into_inner().unwrap_or(self.context)
    }

    /// The hub whose API the host serves; `None` if it serves none, or does not respond. The command's next request
    /// reports that.
    fn served_hub(&self) -> Option<Dialect> {
        let context = self.login().ok()?;
        let asked = async {
            let client = client::connection(context, self.scanned, self.env).await?;
            client::get_by(&client, "/apis", "application/json").await
        };
        let asked = async { tokio::time::timeout(TIMEOUT, asked).await };
        let list = client::runtime().ok()?.block_on(asked).ok()?.ok()?.json();
        let groups = list["groups"].as_array().into_iter().flatten();
        Dialect::found_in(groups.filter_map(|group| group["name"].as_str()), &self.context.server)
    }
}

/// A slower host counts as one with kubectl-mc's own sidecar, until the next command asks again.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A host that is found on first use, because contexts need none.
pub(crate) struct LazyHost<'a> {
    options: &'a HostOptions,
    scanned: &'a Scanned,
    env: &'a Env,
    /// Whether the command sends requests.
    is_online: bool,
    context: OnceCell<ClusterContext>,
    host: OnceCell<Host<'a>>,
}

impl<'a> LazyHost<'a> {
    pub(crate) fn new(options: &'a HostOptions, scanned: &'a Scanned, env: &'a Env, is_online: bool) -> Self {
        Self { options, scanned, env, is_online, context: OnceCell::new(), host: OnceCell::new() }
    }

    /// The context without a request. A hub that no earlier command found counts as kubectl-mc's own.
    pub(crate) fn context(&self) -> Result<&ClusterContext, HostError> {
        if let Some(context) = self.context.get() {
            return Ok(context);
        }
        let context = ClusterContext::load_for(self.scanned, self.options, self.env)?;
        Ok(self.context.get_or_init(|| context))
    }

    /// The host with its hub.
    pub(crate) fn get(&self) -> Result<&Host<'a>, HostError> {
        if let Some(host) = self.host.get() {
            return Ok(host);
        }
        let host = Host::new(self.context()?.clone(), self.scanned, self.env);
        let host = if self.is_online { host.with_served_hub()? } else { host };
        Ok(self.host.get_or_init(|| host))
    }

    /// The host, if it was needed.
    pub(crate) fn into_found(self) -> Option<Host<'a>> {
        self.host.into_inner()
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
