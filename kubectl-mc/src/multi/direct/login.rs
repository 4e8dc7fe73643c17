//! Manages the login that all members share, and that of each context. If a server rejects a credential from
//! a plugin, the plugin runs again, once for all requests, as in client-go.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use super::pool;
use super::task::Task;
use crate::argv::Scanned;
use crate::cluster::client::ClientError;
use crate::cluster::context::ClusterContext;
use crate::cluster::credential;
use crate::cluster::reach::HostReach;
use crate::cluster::shared_credentials::SharedCredentials;
use crate::env::Env;

/// A client that can be renewed.
#[derive(Clone)]
pub(super) struct Login(Arc<Shared>);

struct Shared {
    current: watch::Sender<Option<Current>>,
    /// One request renews for all.
    renewing: Mutex<()>,
    again: Option<Again>,
    /// The source of the first credential, if it is not available at the start.
    first: Option<SharedCredentials>,
}

#[derive(Clone)]
struct Current {
    client: kube::Client,
    /// Number of renewals.
    round: u64,
    /// Whether the server has accepted this credential.
    taken: bool,
}

/// The input of another login.
struct Again {
    context: ClusterContext,
    scanned: Scanned,
    env: Env,
    streams: usize,
    /// Timeout of a plugin that cannot prompt.
    limit: Option<Duration>,
}

impl Again {
    fn new(context: &ClusterContext, task: &Task<'_>, streams: usize) -> Self {
        let (scanned, env) = (task.scanned.clone(), task.env.clone());
        Self { context: context.clone(), scanned, env, streams, limit: task.timeout }
    }

    async fn open(&self, context: &ClusterContext) -> Result<kube::Client, ClientError> {
        pool::open(context, &self.scanned, &self.env, self.streams).await
    }
}

impl Login {
    /// Logs in at the host, with one client for this number of streams.
    pub(super) async fn at_host(
        host: &HostReach,
        task: &Task<'_>,
        streams: usize,
    ) -> Result<Self, ClientError> {
        let client = pool::open(&host.through, task.scanned, task.env, streams).await?;
        let again = host.plugin().map(|found| Again::new(found, task, streams));
        // `taken` is true, so that a first failure is retried: a plugin may have cached an expired
        // credential.
        let current = watch::Sender::new(Some(Current { client, round: 0, taken: true }));
        Ok(Self(Arc::new(Shared { current, renewing: Mutex::new(()), again, first: None })))
    }

    /// Logs in at a context on the first request.
    pub(super) fn at_context(
        context: &ClusterContext,
        task: &Task<'_>,
        credentials: &SharedCredentials,
        streams: usize,
    ) -> Self {
        let again = Some(Again::new(context, task, streams));
        let (current, first) = (watch::Sender::new(None), Some(credentials.clone()));
        Self(Arc::new(Shared { current, renewing: Mutex::new(()), again, first }))
    }

    /// The client, and its renewal number.
    pub(super) async fn client(&self) -> Result<(kube::Client, u64), ClientError> {
        if let Some(Current { client, round, .. }) = self.current() {
            return Ok((client, round));
        }
        let _alone = self.0.renewing.lock().await;
        match (self.current(), &self.0.again, &self.0.first) {
            (None, Some(again), Some(credentials)) => {
                let context =
                    credentials.obtain(&again.context, &again.scanned, &again.env, again.limit).await?;
                let client = again.open(&context).await?;
                self.0.current.send_replace(Some(Current { client: client.clone(), round: 0, taken: true }));
                Ok((client, 0))
            }
            (Some(Current { client, round, .. }), ..) => Ok((client, round)),
            (None, ..) => Err(ClientError::Setup("internal error: no login".into())),
        }
    }

    fn current(&self) -> Option<Current> {
        self.0.current.borrow().clone()
    }

    /// Records that the server accepted the credential of this client.
    pub(super) fn taken(&self, taken: u64) {
        self.0.current.send_modify(|current| {
            if let Some(current) = current {
                current.taken |= current.round == taken;
            }
        });
    }

    /// Handles a rejected credential of this client; returns whether there is another one to try.
    pub(super) async fn renew(&self, refused: u64) -> Result<bool, ClientError> {
        let Some(again) = &self.0.again else { return Ok(false) };
        let _alone = self.0.renewing.lock().await;
        let (round, taken) = self.current().map_or((0, true), |current| (current.round, current.taken));
        if round != refused || !taken {
            // Another request has already renewed it, or the server rejected the renewed credential too.
            return Ok(round != refused);
        }
        let plugin = credential::Plugin::of(&again.context, &again.scanned, &again.env);
        let Some(plugin) = plugin else { return Ok(false) };
        let obtained = plugin.within(again.limit, plugin.obtain_beside()).await?;
        let obtained = obtained.map_err(ClientError::Setup)?;
        let client = again.open(&obtained.used_by(again.context.clone(), plugin.user().to_owned())).await?;
        self.0.current.send_replace(Some(Current { client, round: refused + 1, taken: false }));
        Ok(true)
    }
}
